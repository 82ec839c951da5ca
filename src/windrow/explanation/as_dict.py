"""An explanation as a document: its JSON, which the page is drawn from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windrow.model.query import Window
from windrow.model.units import SECOND, json_value

if TYPE_CHECKING:
    from windrow.explanation.explanation import Explanation


def plain(e: Explanation) -> dict[str, Any]:
    """An explanation as values for JSON."""
    plan, query = e.plan, e.query
    per_stream = zip(plan.aliases, plan.rates, plan.rows, e.row_bytes, e.window_bytes, strict=True)
    found: dict[str, Any] = {
        "name": e.name,
        "on": query.on,
        "streams": {
            alias: {
                "time": query.streams[alias].time,
                "window": str(query.streams[alias].window),
                "window_seconds": _seconds(query.streams[alias].window, rows, rate),
                "rows_per_second": rate,
                "window_rows": rows,
                "bytes_per_row": size,
                "memory_bytes": held,
                "bytes_per_second": rate * size,
            }
            for alias, rate, rows, size, held in per_stream
        },
        "results_per_second": plan.results,
        "comparisons_per_second": plan.comparisons,
        "directions": [
            {
                "arriving": plan.aliases[d.arriving],
                "order": [plan.aliases[s] for s in d.order],
                "comparisons_per_second": d.comparisons,
                "results_per_second": d.results,
                "steps": [
                    {
                        "stream": plan.aliases[step.stream],
                        "access": str(step.access),
                        "by": [str(c) for c in step.driver],
                        "checks": [str(c) for c in (*step.checks, *step.residuals)],
                        "comparisons_per_second": step.comparisons,
                        "rows_on_per_second": step.results,
                    }
                    for step in d.steps
                ],
            }
            for d in plan.directions
        ],
        "harvest": None if plan.harvest is None else plan.harvest.to_dict(),
        "memory": {
            "exact_bytes": e.exact.size,
            "bytes_per_second": e.bytes_per_second,
            "limit": None if e.limit is None else {e.limit.kind: e.limit.size},
            "spilled_bytes": None if e.spilled is None else e.spilled.size,
            "recall": e.expected_recall,
            "binds": e.binds,
            "split": None if e.split is None else dict(zip(plan.aliases, e.split, strict=True)),
            "curve": None
            if e.recall is None
            else {
                "unit": e.recall.unit,
                "memory": e.recall.memory.tolist(),
                "recall": e.recall.recall.tolist(),
            },
        },
        "time": {
            "deadline": None if query.deadline is None else str(query.deadline),
            "throttle": e.throttle,
            "recall": e.expected_in_time,
            "curve": None
            if e.time is None
            else {
                "comparisons_per_second": e.time.comparisons,
                "seconds_per_second": e.time.seconds,
                "work": e.time.work.tolist(),
                "recall": e.time.recall.tolist(),
            },
        },
        "partitioning": None if e.partitioning is None else e.partitioning.splitlines(),
        "source": e.source,
        "learned_from": None,
        "text": str(e),
    }
    if e.learned_from is not None:
        s = e.learned_from
        found["learned_from"] = {
            "rows": dict(s.rows),
            "rows_read": dict(s.read),
            "seconds_of_event_time": s.span,
            "seconds": s.seconds,
            "results": s.results,
            "whole": s.complete,
            "windows_longer_than_sample": list(s.short),
        }
    shown: dict[str, Any] = json_value(found)
    return shown


def _seconds(window: Window, rows: float, rate: float) -> float:
    """Length of a window; of a row window, the time in which its rows arrive."""
    return max(window.size / SECOND if window.is_time else rows / max(rate, 1e-9), 1e-6)
