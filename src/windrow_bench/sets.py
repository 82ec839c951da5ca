"""Set joins: the inverted index against a scan that merges the two sets of every pair in the windows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from windrow.engine.operator import Operator
from windrow.errors import WindrowError
from windrow.model.query import Query, Stream
from windrow_bench.data import batches, streams

SECONDS = 240
SPAN = 60
BATCH = 2_000
WORDS = 50_000
MEAN_SIZE = 8
CONDITIONS = ("jaccard(a.w, b.w) >= 0.5", "jaccard(a.w, b.w) >= 0.8", "overlap(a.w, b.w) >= 3")


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    tables = with_words(streams(min(rows // 500, 20_000), 1_000_000, 2, SECONDS))
    return [_measure(on, tables, console) for on in CONDITIONS]


def with_words(tables: dict[str, pa.Table], seed: int = 2) -> dict[str, pa.Table]:
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


def _measure(on: str, tables: dict[str, pa.Table], console: Console) -> dict[str, Any]:
    parts = batches(tables, BATCH, SECONDS)
    rows = sum(t.num_rows for t in tables.values())
    seconds, results, compared, bytes_ = {}, {}, {}, {}
    for path in ("inverted", "scan"):
        with console.status(f"{on} by {path}"):
            query = Query({a: Stream("ts", f"{SPAN} s", path) for a in "ab"}, on)
            Operator(query).process(parts[0])
            operator = Operator(query)
            began = time.perf_counter()
            results[path] = sum(operator.process(part).num_rows for part in parts)
            seconds[path] = time.perf_counter() - began
            measured = operator.metrics()
            compared[path], bytes_[path] = measured.comparisons, measured.memory_bytes / measured.window_rows
    if results["inverted"] != results["scan"]:
        raise WindrowError(f"bench sets: {on} has {results} results; both paths must find the same")
    return {
        "condition": on,
        "rows in a window": rows // 2 * SPAN // SECONDS,
        "results a row": results["scan"] / rows,
        "rows/s by inverted": rows / seconds["inverted"],
        "rows/s by scan": rows / seconds["scan"],
        "inverted : scan": seconds["scan"] / seconds["inverted"],
        "postings visited : pairs": compared["inverted"] / compared["scan"],
        "bytes a row": bytes_["inverted"],
    }
