"""Windows ten times as large as the memory limit, which spill to files, beside the same without a limit.

Two streams are joined on a key with few matches, in one process, until the windows have turned over once.
Runs with and without a limit take turns. The limit is a tenth of the most that the windows take without one.
`windrow bench state --case rocksdb` joins such rows on Spark instead, beside Spark's own join with RocksDB,
and `--case resident` measures the memory of Spark's Python workers under a limit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from windrow.engine.operator import Operator
from windrow.errors import WindrowError
from windrow.model.query import Query, Stream
from windrow_bench import spark
from windrow_bench.data import batches, streams

SECONDS = 90
WINDOW = 45
BATCHES = 60
ROWS = 3_000_000
PART = 10
"""The windows take so many times the memory limit."""
TURNS = 3
ROW_BYTES = 100
"""About what a row of the join on Spark takes in its window."""
PAYLOADS = {"payload of 20 characters": 1, "payload of 200 characters": 10}
Batches = list[dict[str, pa.Table]]


@dataclass(frozen=True)
class Run:
    seconds: float
    processor: float
    """Seconds of the processor, the system's for files included."""
    memory: int
    """The most bytes in memory after a batch."""
    spilled: int
    results: int
    ids: int
    """Sum over the rows of all results, to compare answers."""


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    return [_measure(name, _parts(min(rows, ROWS), times), console) for name, times in PAYLOADS.items()]


def _parts(rows: int, times: int) -> Batches:
    """Both streams in batches, with the text of the payload repeated."""
    tables = streams(rows, 25 * rows, 2, SECONDS)
    for alias, table in tables.items():
        longer = pc.binary_repeat(table["p"], times)
        tables[alias] = table.set_column(2, "p", longer).append_column("id", pa.array(range(table.num_rows)))
    return batches(tables, rows // BATCHES, SECONDS)


def _measure(name: str, parts: Batches, console: Console) -> dict[str, Any]:
    found: dict[str, list[Run]] = {"memory": [], "spill": []}
    with console.status(f"{name}: windows in memory, and in files"):
        whole = _run(parts, {}).memory  # also loads the kernels
        limits = {"memory": {}, "spill": {"memory": whole // PART, "disk": "unlimited"}}
        for _ in range(TURNS):
            for side, given in limits.items():
                found[side].append(_run(parts, given))
    if len({(r.results, r.ids) for runs in found.values() for r in runs}) > 1:
        raise WindrowError(f"{name}: the answers differ: {found}")
    rows = sum(table.num_rows for part in parts for table in part.values())
    seconds = {side: median(r.seconds for r in runs) for side, runs in found.items()}
    processor = {side: min(r.processor for r in runs) for side, runs in found.items()}
    return {
        "windows in files": name,
        "rows": rows,
        "results": found["spill"][0].results,
        "windows, in memory (MiB)": whole / 2**20,
        "memory limit (MiB)": whole / PART / 2**20,
        "windows, most in memory (MiB)": max(r.memory for r in found["spill"]) / 2**20,
        "windows, most in files (MiB)": max(r.spilled for r in found["spill"]) / 2**20,
        "rows/s, without a limit": rows / seconds["memory"],
        "rows/s, spilling": rows / seconds["spill"],
        "spilling : without a limit": seconds["memory"] / seconds["spill"],
        "the same, by the processor's time": processor["memory"] / processor["spill"],
    }


def _run(parts: Batches, limits: dict[str, Any]) -> Run:
    query = Query({alias: Stream("ts", f"{WINDOW} s") for alias in "ab"}, "a.k = b.k", **limits)
    operator = Operator(query, {alias: table.schema for alias, table in parts[0].items()})
    memory = spilled = results = ids = 0
    began, used = time.perf_counter(), time.process_time()
    for part in parts:
        found = operator.process(part)
        results += found.num_rows
        ids += sum(pc.sum(pc.struct_field(found[alias], "id")).as_py() or 0 for alias in "ab")
        now = operator.metrics()
        memory, spilled = max(memory, now.memory_bytes), max(spilled, now.spilled_bytes)
    seconds = time.perf_counter() - began
    return Run(seconds, time.process_time() - used, memory, spilled, results, ids)


def on_spark(rows: int, console: Console) -> list[dict[str, Any]]:
    """Few matches on Spark: Windrow in memory, Windrow with a tenth of that, and Spark with RocksDB."""
    case = next(c for c in spark.cases(rows) if c.name == "2-way, few matches")
    window = 2 * case.rows * spark.WINDOW_BATCHES
    parts = batches(streams(window, case.keys, 2, WINDOW), window // spark.WINDOW_BATCHES, WINDOW)
    limit = _run([{a: t.append_column("id", t["k"]) for a, t in part.items()} for part in parts], {}).memory
    sides = ("spark-rocksdb", "windrow", "windrow-spill")
    measured = spark.measure(case.with_sides(sides, limit // PART), console)
    rate = {side: m["rows"] / m["seconds"] for side, m in measured.items()}
    return [
        {
            "windows in files, on Spark": case.name,
            "results": measured["windrow"]["answer"][0],
            "memory limit (MiB)": limit / PART / 2**20,
            **{f"{side} rows/s": rate[side] for side in sides},
            **{f"{side} peak MiB": measured[side]["peak"] / 2**20 for side in sides},
            "windrow-spill : windrow": rate["windrow-spill"] / rate["windrow"],
            "windrow-spill : spark-rocksdb": rate["windrow-spill"] / rate["spark-rocksdb"],
        }
    ]


def resident(rows: int, console: Console) -> list[dict[str, Any]]:
    """What the Python workers of a join with 8 partitions hold of their own, evicting and spilling under a
    limit, beyond what they hold with empty windows. Complete windows take about twice the limit, which is
    1 GiB with the usual number of rows."""
    sides = ("windrow-empty", "windrow-limited", "windrow-spill")
    case = spark.SparkCase("resident", "key", 2, rows // 2, 50 * rows, batches=8, warm_up=0, partitions=8)
    limit = 2 * case.rows * spark.WINDOW_BATCHES * ROW_BYTES // 2
    measured = spark.measure(replace(case.with_sides(sides, limit), alike=False), console)
    empty, limited, spilling = (measured[side]["workers"] for side in sides)
    return [
        {
            "memory of all workers": f"{case.partitions} partitions, {spark.CORES} cores",
            "memory limit (MiB)": limit / 2**20,
            "empty windows (MiB)": empty / 2**20,
            "evicting (MiB)": limited / 2**20,
            "spilling (MiB)": spilling / 2**20,
            "evicting, beyond empty : limit": (limited - empty) / limit,
            "spilling, beyond empty : limit": (spilling - empty) / limit,
        }
    ]
