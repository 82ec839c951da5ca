"""Band joins: with the number of matches held constant, a probe must not cost more in a larger window."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console

from windrow.engine.operator import Operator
from windrow.model.query import Query, Stream
from windrow_bench.data import batches, streams, with_numbers

MATCHES = 4
SECONDS = 240
SPAN = 60
BATCH = 20_000


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    figures: list[dict[str, Any]] = []
    for size in (rows // 100, rows // 20, rows // 4):
        with console.status(f"band join of {size:,} rows"):
            figures.append(_measure(size))
        figures[-1]["cost : smallest window"] = (
            figures[-1]["microseconds a row"] / figures[0]["microseconds a row"]
        )
    return figures


def _measure(rows: int) -> dict[str, Any]:
    tables = with_numbers(streams(rows, 1_000_000, 2, SECONDS), 1e6)
    window = rows // 2 * SPAN // SECONDS
    epsilon = MATCHES / window / 2 * 1_000_000
    query = Query({a: Stream("ts", f"{SPAN} seconds") for a in "ab"}, on=f"abs(a.x - b.x) <= {epsilon}")
    parts = batches(tables, BATCH, SECONDS)
    Operator(query).process(parts[0])
    operator = Operator(query)
    began = time.perf_counter()
    results = sum(operator.process(part).num_rows for part in parts)
    elapsed = time.perf_counter() - began
    return {
        "rows in a window": window,
        "matches a row": results / rows,
        "rows/s": rows / elapsed,
        "microseconds a row": elapsed / rows * 1e6,
    }
