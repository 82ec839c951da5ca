"""Scans: comparisons per second where no index is used, against a bare loop that only counts matches."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console

from windrow.engine.operator import Operator
from windrow.model.query import Query, Stream
from windrow_bench import baseline_kernels
from windrow_bench.data import batches, streams, with_numbers

SECONDS = 240
SPAN = 60
BATCH = 10_000


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    size = min(rows // 20, 200_000)
    tables = with_numbers(streams(size, 1_000_000, 2, SECONDS), 1e6)
    query = Query({a: Stream("ts", f"{SPAN} s", access="scan") for a in "ab"}, on="abs(a.x - b.x) <= 20")
    parts = batches(tables, BATCH, SECONDS)
    with console.status("scanning"):
        Operator(query).process(parts[0])
        operator = Operator(query)
        began = time.perf_counter()
        results = sum(operator.process(part).num_rows for part in parts)
        ours = operator.metrics().comparisons / (time.perf_counter() - began)
        values = tables["a"]["x"].to_numpy()[: size // 2 * SPAN // SECONDS]
        centres = tables["b"]["x"].to_numpy()
        baseline_kernels.in_band(values[:10], centres[:10], 20.0)
        began = time.perf_counter()
        baseline_kernels.in_band(values, centres, 20.0)
        loop = len(values) * len(centres) / (time.perf_counter() - began)
    return [
        {
            "rows in a window": len(values),
            "matches a row": results / size,
            "operator comparisons/s": ours,
            "bare loop comparisons/s": loop,
            "operator : bare": ours / loop,
        }
    ]
