"""Memory per window row beyond payload and predicate columns, and cost per row over many small batches."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.console import Console

from windrow.engine.operator import Operator
from windrow_bench.data import batches, streams, with_numbers
from windrow_bench.measure import window_query

SECONDS = 240
SPAN = 60
JOINS = {
    "hash, integer key": "a.k = b.k",
    "hash, text key": "a.p = b.p",
    "sorted, band": "abs(a.x - b.x) <= 0.5",
    "scan, comparison": "a.x < b.x - 990000",
}
PREDICATE_BYTES = 8
"""Each of these predicates has one column per stream, kept as one number."""


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    with console.status("memory"):
        return [_measure(name, on, min(rows // 20, 200_000)) for name, on in JOINS.items()]


def _measure(name: str, on: str, rows: int) -> dict[str, Any]:
    tables = with_numbers(streams(rows, 1_000_000, 2, SECONDS), 1e6)
    parts = batches(tables, rows // 1000, SECONDS)
    payload = sum(t.nbytes for t in tables.values()) / rows
    operator = Operator(window_query(on, SPAN))
    seconds, sizes = [], []
    for part in parts:
        began = time.perf_counter()
        operator.process(part)
        seconds.append(time.perf_counter() - began)
        m = operator.metrics()
        sizes.append(m.memory_bytes / m.window_rows)
    full = slice(len(parts) * 2 * SPAN // SECONDS, None)
    early, late = np.array_split(np.array(seconds[full]), 2)
    return {
        "join": name,
        "window rows": operator.metrics().window_rows,
        "payload bytes a row": payload,
        "bytes a row": float(np.mean(sizes[full])),
        "beyond payload and predicate": float(np.mean(sizes[full])) - payload - PREDICATE_BYTES,
        "batches": len(parts),
        "last : first half, time": float(np.median(late) / np.median(early)),
    }
