"""Access paths in the operator: bands by sorted index, scans, and sets by inverted index.

With the number of matches held constant, a probe of a sorted index must not cost more in a larger window. A
scan is compared with a bare loop that only counts matches, the inverted index with a scan that merges the two
sets of every pair in the windows.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from windrow.errors import WindrowError
from windrow_bench import baseline_kernels
from windrow_bench.data import batches, streams, with_numbers
from windrow_bench.measure import Figures, timed, window_query

SECONDS = 240
SPAN = 60
MATCHES = 4
"""Of a row in a band join."""
WORDS = 50_000
MEAN_SIZE = 8
"""Of a set."""
CONDITIONS = ("jaccard(a.w, b.w) >= 0.5", "jaccard(a.w, b.w) >= 0.8", "overlap(a.w, b.w) >= 3")


def band(rows: int, console: Console) -> Figures:
    figures: Figures = []
    for size in (rows // 100, rows // 20, rows // 4):
        window = size // 2 * SPAN // SECONDS
        with console.status(f"band join of {size:,} rows"):
            parts = batches(_numbers(size), 20_000, SECONDS)
            run = timed(window_query(f"abs(a.x - b.x) <= {MATCHES / window / 2 * 1_000_000}", SPAN), parts)
        cost = run.seconds / size * 1e6
        figures.append(
            {
                "rows in a window": window,
                "matches a row": run.results / size,
                "rows/s": size / run.seconds,
                "microseconds a row": cost,
            }
        )
        figures[-1]["cost : smallest window"] = cost / figures[0]["microseconds a row"]
    return figures


def scan(rows: int, console: Console) -> Figures:
    size = min(rows // 20, 200_000)
    tables = _numbers(size)
    with console.status("scanning"):
        query = window_query("abs(a.x - b.x) <= 20", SPAN, access="scan")
        run = timed(query, batches(tables, 10_000, SECONDS))
        ours = run.metrics.comparisons / run.seconds
        values = tables["a"]["x"].to_numpy()[: size // 2 * SPAN // SECONDS]
        centres = tables["b"]["x"].to_numpy()
        baseline_kernels.in_band(values[:10], centres[:10], 20.0)
        began = time.perf_counter()
        baseline_kernels.in_band(values, centres, 20.0)
        loop = len(values) * len(centres) / (time.perf_counter() - began)
    return [
        {
            "rows in a window": len(values),
            "matches a row": run.results / size,
            "operator comparisons/s": ours,
            "bare loop comparisons/s": loop,
            "operator : bare": ours / loop,
        }
    ]


def sets(rows: int, console: Console) -> Figures:
    tables = _with_words(streams(min(rows // 500, 20_000), 1_000_000, 2, SECONDS))
    return [_sets(on, tables, console) for on in CONDITIONS]


def _sets(on: str, tables: dict[str, pa.Table], console: Console) -> dict[str, Any]:
    parts = batches(tables, 2_000, SECONDS)
    rows = sum(t.num_rows for t in tables.values())
    runs = {}
    for path in ("inverted", "scan"):
        with console.status(f"{on} by {path}"):
            runs[path] = timed(window_query(on, SPAN, access=path), parts)
    inverted, scanned = runs["inverted"], runs["scan"]
    if inverted.results != scanned.results:
        results = {path: run.results for path, run in runs.items()}
        raise WindrowError(f"bench sets: {on} has {results} results; both paths must find the same")
    return {
        "condition": on,
        "rows in a window": rows // 2 * SPAN // SECONDS,
        "results a row": scanned.results / rows,
        "rows/s by inverted": rows / inverted.seconds,
        "rows/s by scan": rows / scanned.seconds,
        "inverted : scan": scanned.seconds / inverted.seconds,
        "postings visited : pairs": inverted.metrics.comparisons / scanned.metrics.comparisons,
        "bytes a row": inverted.metrics.memory_bytes / inverted.metrics.window_rows,
    }


def _numbers(rows: int) -> dict[str, pa.Table]:
    return with_numbers(streams(rows, 1_000_000, 2, SECONDS), 1e6)


def _with_words(tables: dict[str, pa.Table], seed: int = 2) -> dict[str, pa.Table]:
    """The same streams with a list `w` of words, as frequent as in texts: the n-th about 1 / n."""
    random = np.random.default_rng(seed)
    weights = 1 / np.arange(1, WORDS + 1)
    words = pa.array([f"word-{k}" for k in range(WORDS)])
    found = {}
    for alias, table in tables.items():
        bounds = np.append(0, np.cumsum(random.poisson(MEAN_SIZE, table.num_rows)))
        drawn = random.choice(WORDS, bounds[-1], p=weights / weights.sum())
        lists = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), words.take(pa.array(drawn)))
        found[alias] = table.append_column("w", lists)
    return found
