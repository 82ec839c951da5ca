"""The page of an explanation, drawn from its document: figures, streams, directions, curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windrow.draw.chart import Annotation, Axis, chart
from windrow.draw.document import document, panel, panels, table, tiles
from windrow.draw.shapes import escape
from windrow.explanation.drawing import Document, directions, streams
from windrow.harvest.time_curve import TimeCurve, format_seconds
from windrow.memory_models.allocation import RecallCurve
from windrow.model.limits import MemoryLimit
from windrow.model.units import short_number

PERCENT = Axis("recall (%)", 1.0, 0.01)
BYTES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "bytes"))
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
COUNTS = ((1e9, "billion"), (1e6, "million"), (1e3, "thousand"), (1.0, ""))


def page(title: str, explanations: Sequence[Document], groups: Sequence[str] = ()) -> str:
    """One HTML document about one or several joins. `groups` lists the queries that share each."""
    parts = []
    for number, e in enumerate(explanations):
        shared = f"<pre>{escape(groups[number])}</pre>" if groups else ""
        heading = f"<h2>{escape(e['name'] or e['on'])}</h2>" if len(explanations) > 1 else ""
        parts.append(f'<div class="block">{heading}{_block(e, shared)}</div>')
    if not explanations:
        parts = [panel("Who shares a join", "".join(f"<pre>{escape(text)}</pre>" for text in groups))]
    return document(title, parts, "the plan, before it runs")


def _block(e: Document, shared: str) -> str:
    parts = [
        panel("Join", f"<pre>{escape(e['on'])}</pre>{shared}", e["source"]),
        panel(
            "Streams and their windows",
            streams(e),
            "The length of a bar is the length of the window; the filled part fits into the memory limit.",
        ),
        panel(
            "What happens when a row arrives",
            directions(e),
            "One row per direction, with the windows in the order they are probed. The youngest rows are at "
            "the left, and the probed parts are filled.",
        ),
    ]
    if e["memory"]["curve"] is not None:
        parts.append(_memory(e))
    if e["time"]["curve"] is not None:
        parts.append(_time(e))
    limit = _limit(e)
    if e["memory"]["split"] is not None and e["memory"]["curve"] is not None and limit is not None:
        parts.append(panel("Memory split", _split(e), f"Of the limit of {limit}", "half"))
    if e["partitioning"] is not None:
        layout = "\n".join(e["partitioning"])
        parts.append(panel("Partitioning", f"<pre>{escape(layout)}</pre>", size="half"))
    text = f"<details><summary>show</summary><pre>{escape(e['text'])}</pre></details>"
    return tiles(_figures(e)) + panels([*parts, panel("As text", text)])


def _limit(e: Document) -> MemoryLimit | None:
    limit = e["memory"]["limit"]
    return None if limit is None else next(MemoryLimit(kind, size) for kind, size in limit.items())


def _figures(e: Document) -> list[tuple[str, str, str]]:
    memory, time = e["memory"], e["time"]
    rate = sum(stream["rows_per_second"] for stream in e["streams"].values())
    growth = MemoryLimit("bytes", round(memory["bytes_per_second"]))
    found = [
        ("rows in", f"{short_number(rate)}/s", "of all streams"),
        ("results", f"{short_number(e['results_per_second'])}/s", "expected, of everything"),
        ("work", f"{short_number(e['comparisons_per_second'])}/s", "comparisons, to find everything"),
        ("memory", str(MemoryLimit("bytes", memory["exact_bytes"])), f"if exact; new rows: {growth}/s"),
    ]
    if time["curve"] is not None and time["curve"]["seconds_per_second"] is not None:
        seconds = format_seconds(time["curve"]["seconds_per_second"])
        found.append(("time", f"{seconds}/s", "of one core, to find everything"))
    if memory["recall"] is not None:
        found.append(("recall", f"{100 * memory['recall']:.3g} %", f"within {_limit(e)}"))
    if time["recall"] is not None and time["throttle"] is not None:
        shown = f"in {time['deadline']}: time for {100 * time['throttle']:.3g} % of the work"
        found.append(("recall", f"{100 * time['recall']:.3g} %", shown))
    return found


def _memory(e: Document) -> str:
    given, limit, expected = e["memory"]["curve"], _limit(e), e["memory"]["recall"]
    curve = RecallCurve(np.array(given["memory"]), np.array(given["recall"]), given["unit"])
    top = float(curve.memory[-1])
    unit, name = (1.0, "rows") if curve.unit == "rows" else _unit(top, BYTES)
    if limit is not None and expected is not None:
        mark = Annotation(float(limit.size), expected, f"{limit}: {100 * expected:.3g} %")
    else:
        need = curve.memory_for(0.9)
        mark = Annotation(need, 0.9, f"90 %: {MemoryLimit(curve.unit, round(need))}")
    points = list(zip(given["memory"], given["recall"], strict=True))
    drawn = chart(points, Axis(f"memory ({name})", top, unit), PERCENT, [mark])
    return panel("Recall against memory", drawn, "Predicted, by memory limit", "half")


def _time(e: Document) -> str:
    given, throttle, expected = e["time"]["curve"], e["time"]["throttle"], e["time"]["recall"]
    seconds, comparisons = given["seconds_per_second"], given["comparisons_per_second"]
    curve = TimeCurve(np.array(given["work"]), np.array(given["recall"]), comparisons, seconds)
    whole = comparisons if seconds is None else seconds
    if seconds is None:
        unit, name = _unit(whole, COUNTS)
        axis = Axis(f"work ({f'{name} ' if name else ''}comparisons per second)", whole, unit)
        why = "Predicted, by work; its duration is known once rows are timed"
    else:
        unit, name = _unit(whole, TIMES)
        axis = Axis(f"time of one core for a second of the streams ({name})", whole, unit)
        why = "Predicted, by time"
    if throttle is not None and expected is not None:
        text = f"deadline {e['time']['deadline']}: {100 * expected:.3g} %"
        mark = Annotation(throttle * whole, expected, text)
    else:
        need = curve.work_for(0.9)
        mark = Annotation(need * whole, 0.9, f"90 %: {curve.amount(need)}")
    points = [(part * whole, recall) for part, recall in zip(given["work"], given["recall"], strict=True)]
    return panel("Recall against time", chart(points, axis, PERCENT, [mark]), why, "half")


def _split(e: Document) -> str:
    unit = e["memory"]["curve"]["unit"]
    lines = []
    for alias, part in e["memory"]["split"].items():
        whole = e["streams"][alias]["window_rows" if unit == "rows" else "memory_bytes"]
        sizes = (MemoryLimit(unit, round(part)), MemoryLimit(unit, round(whole)))
        lines.append((alias, *sizes, f"{part / max(whole, 1e-9):.0%}"))
    return table(("stream", "gets", "whole window", "part"), lines)


def _unit(top: float, units: Sequence[tuple[float, str]]) -> tuple[float, str]:
    return next(((scale, name) for scale, name in units if top >= 2 * scale), units[-1])
