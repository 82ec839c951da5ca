"""An explanation as a page: figures, streams with windows, directions with what they look at, curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windrow.draw import Annotation, Axis, chart, document, escape, panel, panels, table, tiles
from windrow.explanation.drawing import directions, streams
from windrow.harvest.time_curve import format_seconds
from windrow.model.limits import MemoryLimit
from windrow.model.units import short_number

if TYPE_CHECKING:
    from windrow.explanation.explanation import Explanation

PERCENT = Axis("recall (%)", 1.0, 0.01)
BYTES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "bytes"))
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
COUNTS = ((1e9, "billion"), (1e6, "million"), (1e3, "thousand"), (1.0, ""))


def page(title: str, explanations: Sequence[Explanation], groups: Sequence[str] = ()) -> str:
    """One HTML document about one join or several; `groups` tell which queries share each."""
    parts = []
    for number, explanation in enumerate(explanations):
        shared = f"<pre>{escape(groups[number])}</pre>" if groups else ""
        heading = (
            f"<h2>{escape(explanation.name or explanation.query.on)}</h2>" if len(explanations) > 1 else ""
        )
        parts.append(f'<div class="block">{heading}{_block(explanation, shared)}</div>')
    if not explanations:
        parts = [panel("Who shares a join", "".join(f"<pre>{escape(text)}</pre>" for text in groups))]
    return document(title, parts, "the plan, before it runs")


def _block(e: Explanation, shared: str) -> str:
    parts = [
        panel("Join", f"<pre>{escape(e.query.on)}</pre>{shared}", e.source),
        panel(
            "Streams and their windows",
            streams(e),
            "Bars are as long as windows last; what is filled of them is kept in the memory there is.",
        ),
        panel(
            "What happens when a row arrives",
            directions(e),
            "A row for each direction, with the windows in the order they are probed; the youngest rows are "
            "at the left, and what is looked at is filled.",
        ),
        *_curves(e),
    ]
    if e.split is not None and e.recall is not None and e.limit is not None:
        parts.append(panel("Memory split", _split(e), f"Of the limit of {e.limit}", "half"))
    if e.partitioning is not None:
        parts.append(panel("Partitioning", f"<pre>{escape(e.partitioning)}</pre>", size="half"))
    parts.append(panel("As text", f"<details><summary>show</summary><pre>{escape(e)}</pre></details>"))
    return tiles(_figures(e)) + panels(parts)


def _figures(e: Explanation) -> list[tuple[str, str, str]]:
    rate = sum(e.plan.rates)
    found = [
        ("rows in", f"{short_number(rate)}/s", "of all streams"),
        ("results", f"{short_number(e.plan.results)}/s", "expected, of everything"),
        ("work", f"{short_number(e.plan.comparisons)}/s", "comparisons, to find everything"),
        ("memory", str(e.exact), "for an exact answer"),
        ("new rows take", f"{MemoryLimit('bytes', round(e.bytes_per_second))}/s", "of memory"),
    ]
    if e.time is not None and e.time.seconds is not None:
        found.append(("time", f"{format_seconds(e.time.seconds)}/s", "of one core, to find everything"))
    if e.expected_recall is not None:
        found.append(("recall", f"{100 * e.expected_recall:.3g} %", f"within {e.limit}"))
    if e.expected_in_time is not None and e.throttle is not None:
        told = f"in {e.query.deadline}: time for {100 * e.throttle:.3g} % of the work"
        found.append(("recall", f"{100 * e.expected_in_time:.3g} %", told))
    return found


def _curves(e: Explanation) -> list[str]:
    parts = []
    if e.recall is not None:
        top = float(e.recall.memory[-1])
        unit, name = (1.0, "rows") if e.recall.unit == "rows" else _unit(top, BYTES)
        marks = []
        if e.limit is not None and e.expected_recall is not None:
            said = f"{e.limit}: {100 * e.expected_recall:.3g} %"
            marks = [Annotation(float(e.limit.size), e.expected_recall, said)]
        else:
            marks = [Annotation(e.recall.memory_for(0.9), 0.9, f"90 %: {_amount(e, 0.9)}")]
        drawn = chart(
            list(zip(e.recall.memory.tolist(), e.recall.recall.tolist(), strict=True)),
            Axis(f"memory ({name})", top, unit),
            PERCENT,
            marks,
        )
        parts.append(panel("Recall against memory", drawn, "Predicted, by how much windows may hold", "half"))
    if e.time is not None:
        parts.append(_time(e))
    return parts


def _time(e: Explanation) -> str:
    assert e.time is not None
    whole = e.time.comparisons if e.time.seconds is None else e.time.seconds
    if e.time.seconds is None:
        unit, name = _unit(whole, COUNTS)
        axis = Axis(f"work ({f'{name} ' if name else ''}comparisons per second)", whole, unit)
        why = "Predicted, by how much work may be done; how long that takes is known once rows were timed"
    else:
        unit, name = _unit(whole, TIMES)
        axis = Axis(f"time of one core for a second of the streams ({name})", whole, unit)
        why = "Predicted, by how much time there is"
    if e.throttle is not None and e.expected_in_time is not None:
        said = f"deadline {e.query.deadline}: {100 * e.expected_in_time:.3g} %"
        marks = [Annotation(e.throttle * whole, e.expected_in_time, said)]
    else:
        need = e.time.work_for(0.9)
        marks = [Annotation(need * whole, 0.9, f"90 %: {e.time.amount(need)}")]
    points = [(part * whole, recall) for part, recall in zip(e.time.work, e.time.recall, strict=True)]
    return panel("Recall against time", chart(points, axis, PERCENT, marks), why, "half")


def _split(e: Explanation) -> str:
    assert e.split is not None and e.recall is not None
    unit, rows = e.recall.unit, e.plan.rows
    whole = rows if unit == "rows" else tuple(r * b for r, b in zip(rows, e.row_bytes, strict=True))
    lines = [
        (
            alias,
            MemoryLimit(unit, round(part)),
            MemoryLimit(unit, round(all_)),
            f"{part / max(all_, 1e-9):.0%}",
        )
        for alias, part, all_ in zip(e.plan.aliases, e.split, whole, strict=True)
    ]
    return table(("stream", "gets", "whole window", "part"), lines)


def _amount(e: Explanation, level: float) -> MemoryLimit:
    assert e.recall is not None
    return MemoryLimit(e.recall.unit, round(e.recall.memory_for(level)))


def _unit(top: float, units: Sequence[tuple[float, str]]) -> tuple[float, str]:
    return next(((scale, name) for scale, name in units if top >= 2 * scale), units[-1])
