"""The pictures of a plan: streams with windows as bars, and for each direction the windows it looks into.

Windows are cut into basic windows by age, the youngest at the left; what is looked at is filled, as GrubJoin
draws a harvest (Figure 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windrow.draw import arrow, label, picture, rect, rule
from windrow.model.harvest import HarvestHop
from windrow.model.limits import MemoryLimit
from windrow.model.plan import Direction, Step
from windrow.model.units import short_number

if TYPE_CHECKING:
    from windrow.explanation.explanation import Explanation

WIDE = 980.0
BOX = 200.0
"""Width of a stream's box."""
ROW = 62.0
STEP, GAP, HIGH = 262.0, 38.0, 124.0
ARRIVING = 150.0
MOST_CELLS = 60
"""Basic windows whose borders are drawn; with more they would be all that is seen."""
LETTERS = 38


def streams(e: Explanation) -> str:
    """A row for each stream: its box, and its window as a bar on one scale of time."""
    spans = [_span(e, k) for k in range(len(e.plan.aliases))]
    longest = max(spans)
    left, wide = BOX + 34, WIDE - BOX - 34 - 8
    shapes = []
    for k, (alias, span) in enumerate(zip(e.plan.aliases, spans, strict=True)):
        y, stream = k * ROW, e.query.streams[alias]
        shapes.append(rect(1, y + 4, BOX, ROW - 14, "box", round=7))
        shapes.append(label(13, y + 24, alias, "name", most=22))
        shapes.append(label(13, y + 41, f"{short_number(e.plan.rates[k])} rows/s, by {stream.time}", most=30))
        shapes.append(arrow(BOX + 5, y + ROW / 2 - 3, left - 5))
        length = max(wide * span / longest, 3.0)
        kept = _kept(e, k)
        size = MemoryLimit("bytes", round(e.plan.rows[k] * e.row_bytes[k]))
        told = f"{stream.window}: {short_number(e.plan.rows[k])} rows, {size}"
        shapes.append(rect(left, y + 22, length, 22, "cell", told))
        shapes.append(rect(left, y + 22, length * kept, 22, "kept", f"{kept:.0%} of it is kept"))
        shapes.append(rect(left, y + 22, length, 22, "frame"))
        part = f", {kept:.0%} of it kept" if kept < 1 else ""
        shapes.append(label(left, y + 16, f"{told}{part}", "ink"))
    return picture(WIDE, len(spans) * ROW, shapes, "streams and their windows")


def directions(e: Explanation) -> str:
    """A row for each arriving stream: its windows in the order they are probed, with what is looked at."""
    hops = len(e.plan.aliases) - 1
    wide = max(WIDE, ARRIVING + hops * (STEP + GAP) + GAP + 110)
    shapes = []
    for k, direction in enumerate(e.plan.directions):
        y = k * HIGH
        if k:
            shapes.append(rule(0, y - 4, wide, y - 4, "grid"))
        starts = e.plan.aliases[direction.order[0]]
        shapes.append(rect(1, y + 30, ARRIVING, 50, "box", round=7))
        shapes.append(label(13, y + 50, f"{e.plan.aliases[direction.arriving]} arrives", "name", most=18))
        told = f"{short_number(e.plan.rates[direction.arriving])} rows/s"
        if direction.order[0] != direction.arriving:
            told = f"starts from all of {starts}"
        shapes.append(label(13, y + 68, told, most=24))
        x = ARRIVING + 1
        for number, step in enumerate(direction.steps):
            shapes.append(arrow(x + 4, y + 55, x + GAP - 4))
            x += GAP
            shapes += _step(e, direction, number, step, x, y)
            x += STEP
        shapes.append(arrow(x + 4, y + 55, x + GAP - 4))
        shapes.append(label(x + GAP, y + 52, f"{short_number(_results(e, direction))}/s", "name"))
        shapes.append(label(x + GAP, y + 68, "results"))
    return picture(wide, len(e.plan.directions) * HIGH, shapes, "join orders and what is looked at")


def _step(e: Explanation, direction: Direction, number: int, step: Step, x: float, y: float) -> list[str]:
    """One window: whose, how it is searched, what of it is looked at, what that costs."""
    hop = _hop(e, direction, number)
    new = "new rows of " if step.stream == direction.arriving else ""
    shapes = [
        rect(x, y + 4, STEP, HIGH - 18, "box", round=7),
        label(x + 12, y + 23, f"{number + 1}. {new}{e.plan.aliases[step.stream]}", "name", most=22),
        label(x + STEP - 12, y + 23, f"by {step.access}", anchor="end"),
    ]
    bar, wide = x + 12, STEP - 24
    shapes.append(rect(bar, y + 32, wide, 20, "cell"))
    if hop is None:
        shapes.append(rect(bar, y + 32, wide, 20, "whole", "all of it is looked at"))
        told = "all of it"
    else:
        count = len(hop.ranking)
        for low, high in hop.pieces if hop.used else ():
            width = wide * (high - low) / count
            shapes.append(rect(bar + wide * low / count, y + 32, width, 20, "piece"))
        if count <= MOST_CELLS:
            edges = (bar + wide * k / count for k in range(1, count))
            shapes += [rule(edge, y + 32, edge, y + 52, "part") for edge in edges]
        told = f"{hop.fraction:.0%} of it, {hop.found:.0%} of the matches" if hop.used else "nothing of it"
    shapes.append(rect(bar, y + 32, wide, 20, "frame"))
    conditions = " and ".join(map(str, step.driver)) or "every row"
    extra = [str(c) for c in (*step.checks, *step.residuals) if c not in step.driver]
    shapes.append(label(bar, y + 66, conditions, "code", most=LETTERS))
    checked = f"then {' and '.join(extra)}" if extra else told
    shapes.append(label(bar, y + 81, checked, "code" if extra else "", most=LETTERS))
    whole = "" if hop is None else "in full "
    work = f"{whole}{short_number(step.comparisons)} comparisons/s, {short_number(step.results)} rows/s on"
    shapes.append(label(bar, y + 97, work, most=46))
    return shapes


def _hop(e: Explanation, direction: Direction, number: int) -> HarvestHop | None:
    if e.plan.harvest is None:
        return None
    return e.plan.harvest.directions[direction.arriving].hops[number]


def _results(e: Explanation, direction: Direction) -> float:
    if e.plan.harvest is None:
        return direction.results
    return e.plan.harvest.directions[direction.arriving].output


def _span(e: Explanation, stream: int) -> float:
    """Of a window, in seconds; of one counted in rows, as long as they take to come."""
    window = e.query.streams[e.plan.aliases[stream]].window
    if window.is_time:
        return max(window.size / 1e6, 1e-6)
    return max(e.plan.rows[stream] / max(e.plan.rates[stream], 1e-9), 1e-6)


def _kept(e: Explanation, stream: int) -> float:
    """The part of a window that there is memory for."""
    if e.split is None or e.recall is None:
        return 1.0
    whole = e.plan.rows[stream] * (1.0 if e.recall.unit == "rows" else e.row_bytes[stream])
    return min(1.0, e.split[stream] / max(whole, 1e-9))
