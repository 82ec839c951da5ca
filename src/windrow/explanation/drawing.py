"""Pictures of a plan: the streams with their windows as bars, and the windows that each direction probes.

Windows are divided into basic windows by age, youngest at the left. The probed parts are filled, as in
GrubJoin's drawing of a harvest (Figure 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windrow.draw.shapes import arrow, label, picture, rect, rule
from windrow.model.limits import MemoryLimit
from windrow.model.units import short_number

Document = Mapping[str, Any]
"""The return value of `Explanation.to_dict`."""
WIDE = 980.0
BOX = 200.0
"""Width of a stream's box."""
ROW = 62.0
STEP, GAP, HIGH = 262.0, 38.0, 124.0
ARRIVING = 170.0
MOST_CELLS = 60
"""Maximum number of basic windows with borders; more borders would hide the filling."""


def streams(e: Document) -> str:
    """One row per stream: its box, and its window as a bar. All bars have the same time scale."""
    longest = max(stream["window_seconds"] for stream in e["streams"].values())
    left, wide = BOX + 34, WIDE - BOX - 34 - 8
    shapes = []
    for k, (alias, stream) in enumerate(e["streams"].items()):
        y, rate = k * ROW, short_number(stream["rows_per_second"])
        shapes.append(rect(1, y + 4, BOX, ROW - 14, "box", round=7))
        shapes.append(label(13, y + 24, alias, "name", room=BOX - 24))
        shapes.append(label(13, y + 41, f"{rate} rows/s, by {stream['time']}", room=BOX - 24))
        shapes.append(arrow(BOX + 5, y + ROW / 2 - 3, left - 5))
        length = max(wide * stream["window_seconds"] / longest, 3.0)
        kept = _kept(e, alias)
        size = MemoryLimit("bytes", round(stream["memory_bytes"]))
        shown = f"{stream['window']}: {short_number(stream['window_rows'])} rows, {size}"
        shapes.append(rect(left, y + 22, length, 22, "cell", shown))
        shapes.append(rect(left, y + 22, length * kept, 22, "kept", f"{kept:.0%} of it is kept"))
        shapes.append(rect(left, y + 22, length, 22, "frame"))
        part = f", {kept:.0%} of it kept" if kept < 0.995 else ""
        shapes.append(label(left, y + 16, f"{shown}{part}", "ink"))
    return picture(WIDE, len(e["streams"]) * ROW, shapes, "streams and their windows")


def directions(e: Document) -> str:
    """One row per arriving stream: the windows in the order they are probed, with the probed parts."""
    harvest = e["harvest"]
    wide = max(WIDE, ARRIVING + (len(e["streams"]) - 1) * (STEP + GAP) + GAP + 110)
    shapes = []
    for k, direction in enumerate(e["directions"]):
        y, arriving, start = k * HIGH, direction["arriving"], direction["order"][0]
        probed = None if harvest is None else harvest["directions"][list(e["streams"]).index(arriving)]
        if k:
            shapes.append(rule(0, y - 4, wide, y - 4, "grid"))
        shapes.append(rect(1, y + 30, ARRIVING, 50, "box", round=7))
        shapes.append(label(13, y + 50, arriving, "name", room=ARRIVING - 24))
        shown = f"arrives, {short_number(e['streams'][arriving]['rows_per_second'])} rows/s"
        if start != arriving:
            shown = f"starts from all of {start}"
        shapes.append(label(13, y + 68, shown, room=ARRIVING - 24))
        x = ARRIVING + 1
        for number, step in enumerate(direction["steps"]):
            shapes.append(arrow(x + 4, y + 55, x + GAP - 4))
            x += GAP
            hop = None if probed is None else probed["hops"][number]
            count = 0 if hop is None else harvest["counts"][hop["stream"]]
            shapes += _step(step, number, step["stream"] == arriving, hop, count, x, y)
            x += STEP
        results = direction["results_per_second"] if probed is None else probed["output"]
        shapes.append(arrow(x + 4, y + 55, x + GAP - 4))
        shapes.append(label(x + GAP, y + 52, f"{short_number(results)}/s", "name"))
        shapes.append(label(x + GAP, y + 68, "results"))
    return picture(wide, len(e["directions"]) * HIGH, shapes, "join orders and probed windows")


def _step(
    step: Document, number: int, new: bool, hop: Document | None, count: int, x: float, y: float
) -> list[str]:
    """One window: its stream, how it is searched, which of its `count` basic windows are probed, and the
    cost."""
    name = f"{number + 1}. {'new rows of ' if new else ''}{step['stream']}"
    shapes = [
        rect(x, y + 4, STEP, HIGH - 18, "box", round=7),
        label(x + 12, y + 23, name, "name", room=STEP - 96),
        label(x + STEP - 12, y + 23, f"by {step['access']}", anchor="end"),
    ]
    bar, wide = x + 12, STEP - 24
    shapes.append(rect(bar, y + 32, wide, 20, "cell"))
    if hop is None:
        shapes.append(rect(bar, y + 32, wide, 20, "whole", "all of it is probed"))
        shown = "all of it"
    else:
        for low, high in hop["pieces"]:
            width = wide * (high - low) / count
            shapes.append(rect(bar + wide * low / count, y + 32, width, 20, "piece"))
        if count <= MOST_CELLS:
            edges = (bar + wide * k / count for k in range(1, count))
            shapes += [rule(edge, y + 32, edge, y + 52, "part") for edge in edges]
        shown = "nothing of it"
        if hop["fraction"]:
            shown = f"{hop['fraction']:.0%} of it, {hop['found']:.0%} of the matches"
    shapes.append(rect(bar, y + 32, wide, 20, "frame"))
    extra = [check for check in step["checks"] if check not in step["by"]]
    shapes.append(label(bar, y + 66, " and ".join(step["by"]) or "every row", "code", room=wide))
    checked = f"then {' and '.join(extra)}" if extra else shown
    shapes.append(label(bar, y + 81, checked, "code" if extra else "", room=wide))
    work, on = short_number(step["comparisons_per_second"]), short_number(step["rows_on_per_second"])
    whole = "" if hop is None else "in full "
    shapes.append(label(bar, y + 97, f"{whole}{work}/s compared, {on}/s on", room=wide))
    return shapes


def _kept(e: Document, alias: str) -> float:
    """The fraction of a window that fits into its memory share."""
    memory, stream = e["memory"], e["streams"][alias]
    if memory["split"] is None or memory["curve"] is None:
        return 1.0
    whole = stream["window_rows" if memory["curve"]["unit"] == "rows" else "memory_bytes"]
    return float(min(1.0, memory["split"][alias] / max(whole, 1e-9)))
