"""On Spark: the same files joined by Windrow and by Spark's own join, each in its own process."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from windrow.errors import WindrowError
from windrow_bench.data import batches, streams, with_numbers
from windrow_bench.measure import chosen
from windrow_bench.process_tree import watched

CORES = 2
PARTITIONS = 4
BATCHES = 26
WARM_UP = 16
"""Batches that do not count: the JVM compiles for so long, and ratios before flatter what compiles less."""
ALONE = ("source", "shuffle", "hand-over")
"""What Spark does before any join: reading; reading and shuffling; and handing rows to Python as well."""
BATCH_SECONDS = 20
"""Event time in a batch: windows of 60 seconds hold three batches."""
WINDOW_BATCHES = 3
MATCHES = 20
"""In a triangle, about how many rows of each other stream a row matches."""
ENDING = 3
"""Files that only move time on: a side may decide a batch later than the other."""


@dataclass(frozen=True)
class SparkCase:
    """
    Parameters
    ----------
    join
        As `windrow_bench.on_spark.join` knows it.
    rows
        Of each stream, in a batch.
    keys
        Values of each key column.
    batches
        How many, the first few of which do not count.
    """

    name: str
    join: str
    streams: int
    rows: int
    keys: int
    sides: tuple[str, ...] = ("spark", "windrow", "windrow-files")
    batches: int = BATCHES
    warm_up: int = WARM_UP
    memory: int = 0
    """Bytes of memory for the sides under a limit."""
    partitions: int = PARTITIONS
    alike: bool = True
    """Whether all sides return the same rows."""

    def with_sides(self, sides: tuple[str, ...], memory: int) -> SparkCase:
        return replace(self, sides=sides, memory=memory)


def cases(rows: int) -> list[SparkCase]:
    full = max(2_000, rows // 36)
    some, less = full // 4, 3 * full // 16
    every = (*ALONE, "spark", "spark-rocksdb", "windrow", "windrow-files")
    return [
        SparkCase("2-way, few matches", "key", 2, full, 50 * full, every),
        SparkCase("2-way, dense", "key", 2, full, max(1, 3 * full // 4)),
        SparkCase("3-way, one key", "key", 3, some, max(1, full // 2)),
        # Whatever two streams are joined first, their results are many and those of all three few.
        # Spark then takes most of a minute for a batch, so there are few of them.
        SparkCase(
            "3-way, triangle",
            "triangle",
            3,
            less,
            max(1, WINDOW_BATCHES * less // MATCHES),
            batches=7,
            warm_up=4,
        ),
        SparkCase("2-way band", "band", 2, some, 50 * full, ("windrow",)),
        SparkCase("3-way theta", "theta", 3, 2_000, 50 * full, ("windrow",)),
        SparkCase("almost empty batches", "key", 2, 10, 100),
    ]


def run(rows: int, console: Console, case: str | None = None) -> list[dict[str, Any]]:
    """Every case, or those whose names hold the words of `case`."""
    return [figures(c.name, measure(c, console)) for c in chosen(cases(rows), case)]


def measure(case: SparkCase, console: Console) -> dict[str, dict[str, Any]]:
    """What each side measured; all must have returned the same rows."""
    folder = Path(tempfile.mkdtemp(prefix="windrow-bench-"))
    try:
        _write(folder, case)
        measured = {}
        for side in case.sides:
            with console.status(f"{case.name}: {side}"):
                measured[side] = _measure(side, case, folder)
        compared = {s: m for s, m in measured.items() if s not in ALONE}
        answers = {tuple(m["answer"]) for m in compared.values()}
        if case.alike and len(answers) > 1:
            raise WindrowError(f"{case.name}: the sides differ: {compared}")
        return measured
    finally:
        shutil.rmtree(folder, ignore_errors=True)


RATES = {
    "windrow": "windrow",
    "windrow-files": "windrow files",
    "spark": "Spark",
    "spark-rocksdb": "Spark RocksDB",
    "source": "source alone",
    "shuffle": "shuffle alone",
    "hand-over": "hand-over alone",
}
RATIOS = {
    "windrow : Spark": ("windrow", "spark"),
    "windrow files : Spark": ("windrow-files", "spark"),
    "windrow : hand-over": ("windrow", "hand-over"),
    "windrow files : hand-over": ("windrow-files", "hand-over"),
    "windrow : Spark RocksDB": ("windrow", "spark-rocksdb"),
}


def figures(name: str, measured: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Empty where a side was not measured."""
    rate = {side: m["rows"] / m["seconds"] for side, m in measured.items()}
    each = {side: m["seconds"] / m["batches"] for side, m in measured.items()}
    peak = {side: m["peak"] / 2**20 for side, m in measured.items()}
    ratios = {n: rate[a] / rate[b] if {a, b} <= {*rate} else "" for n, (a, b) in RATIOS.items()}
    return {
        "join": name,
        "results": measured["windrow"]["answer"][0],
        **{f"{title} rows/s": rate.get(side, "") for side, title in RATES.items()},
        **ratios,
        "windrow : Spark": ratios["windrow : Spark"] or "Spark refuses",
        **{f"{RATES[side]} seconds a batch": each.get(side, "") for side in ("windrow", "spark")},
        **{f"{RATES[side]} peak MiB": peak.get(side, "") for side in ("windrow", "windrow-files", "spark")},
    }


def _write(folder: Path, case: SparkCase) -> None:
    seconds = case.batches * BATCH_SECONDS
    made = streams(case.rows * case.streams * case.batches, case.keys, case.streams, seconds)
    tables = _with_keys(with_numbers(made, 50.0 * case.rows), case.keys)
    for alias in tables:
        (folder / alias).mkdir()
    for k, part in enumerate(batches(tables, case.rows * case.streams, seconds)):
        for alias, table in part.items():
            pq.write_table(_utc(table), folder / alias / f"{k:04d}.parquet")
            time.sleep(0.01)  # files are taken in the order of their times
    if case.join == "left":
        _move_time_on(folder, tables, case.batches)


def _move_time_on(folder: Path, tables: dict[str, pa.Table], files: int) -> None:
    """Write files of one row each that matches nothing, so far ahead that all rows before are decided."""
    last = max(int(t["ts"].cast(pa.int64()).to_numpy().max()) for t in tables.values())
    for n in range(ENDING):
        for side, (alias, table) in enumerate(tables.items()):
            at = pa.array([last + (n + 1) * 10 * BATCH_SECONDS * 1_000_000], pa.timestamp("us", "UTC"))
            row = _utc(table.slice(0, 1)).set_column(0, "ts", at)
            key = pa.array([-1 - side], table.schema.field("k").type)
            row = row.set_column(table.column_names.index("k"), "k", key)
            pq.write_table(row, folder / alias / f"{files + n:04d}.parquet")
            time.sleep(0.01)


def _with_keys(tables: dict[str, pa.Table], keys: int, seed: int = 2) -> dict[str, pa.Table]:
    """Two more keys beside `k`, of as many values."""
    random = np.random.default_rng(seed)
    for name in ("i", "j"):
        tables = {
            a: t.append_column(name, pa.array(random.integers(0, keys, t.num_rows)))
            for a, t in tables.items()
        }
    return tables


def _utc(table: pa.Table) -> pa.Table:
    return table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us", "UTC")))


def _measure(side: str, case: SparkCase, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "windrow_bench.on_spark.join", side, case.join, str(folder)]
    numbers = (case.streams, CORES, case.partitions, case.warm_up, case.memory)
    run = watched([*command, *map(str, numbers)], side)
    # Counted here: to Spark, a file that Windrow reads is one row.
    rows = run.printed["batches"] * case.rows * case.streams
    return {**run.printed, "rows": rows, "peak": run.memory, "workers": run.workers}
