"""Equality joins over 60-second windows: rows per second, as ratios.

The operator takes Arrow tables of about 100,000 rows and gives Arrow tables with all payloads, on one thread
and on two. The bare kernel gets plain arrays in order and only finds index pairs, on one thread. DuckDB has
all rows in memory at once, and two threads, and returns a count and the total length of the payloads.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from windrow_bench import baseline_kernels
from windrow_bench.data import SECOND, batches, streams, times_of
from windrow_bench.measure import Calls, timed, window_query

SECONDS = 240
SPAN = 60
BATCH = 100_000
RUNS = 2
"""Of each the faster counts: the first one also pays for fresh memory."""


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    scale = rows / 7_200_000
    cases = [
        ("2-way, few matches", 2, int(10_000_000 * scale)),
        ("2-way, many matches", 2, int(100_000 * scale)),
        ("3-way", 3, int(240_000 * scale)),
    ]
    return [_compare(name, rows, keys, count, console) for name, count, keys in cases]


def _compare(name: str, rows: int, keys: int, count: int, console: Console) -> dict[str, Any]:
    with console.status(f"{name}: generating {rows:,} rows"):
        tables = streams(rows, keys, count, SECONDS)
        parts = batches(tables, BATCH, SECONDS)
    with console.status(f"{name}: operator"):
        # In turn, so that a change of the machine's load meets both.
        aliases = "".join(tables)
        on = " and ".join(f"a.k = {alias}.k" for alias in aliases[1:])
        runs = [[_operator(on, parts, aliases, threads) for threads in (1, 2)] for _ in range(RUNS)]
        (results, ours), (same_results, both) = (min(each, key=_seconds) for each in zip(*runs, strict=True))
    with console.status(f"{name}: bare kernel"):
        bare_results, kernel = min((_bare(tables) for _ in range(RUNS)), key=_seconds)
    with console.status(f"{name}: DuckDB"):
        duck_results, duck = min((_duckdb(tables) for _ in range(RUNS)), key=_seconds)
    if not results == same_results == bare_results == duck_results:
        ours_of = f"operator {results}, on two threads {same_results}"
        raise AssertionError(f"{name}: {ours_of}, bare kernel {bare_results}, DuckDB {duck_results}")
    return {
        "join": name,
        "rows": rows,
        "results a row": results / rows,
        "operator rows/s": rows / ours,
        "on two threads": rows / both,
        "bare kernel rows/s": rows / kernel,
        "DuckDB rows/s": rows / duck,
        "operator : bare": kernel / ours,
        "operator : DuckDB": duck / ours,
        "two threads : one": ours / both,
        "two threads : DuckDB": duck / both,
    }


def _seconds(measured: tuple[int, float]) -> float:
    return measured[1]


def _operator(on: str, parts: Calls, aliases: str, threads: int) -> tuple[int, float]:
    run = timed(window_query(on, SPAN, aliases), parts, threads=threads)
    return run.results, run.seconds


def _bare(tables: dict[str, pa.Table]) -> tuple[int, float]:
    ts = np.concatenate([times_of(t) for t in tables.values()])
    key = np.concatenate([t["k"].to_numpy() for t in tables.values()])
    stream = np.repeat(np.arange(len(tables)), [t.num_rows for t in tables.values()])
    order = np.argsort(ts, kind="stable")
    ts, key, stream = ts[order], key[order], stream[order]
    kernel = baseline_kernels.pairs if len(tables) == 2 else baseline_kernels.triples
    out = np.empty((100_000, len(tables)), np.int64)
    buckets = 1 << int(np.ceil(np.log2(len(ts) * SPAN / SECONDS)))
    kernel(stream[:1000], ts[:1000], key[:1000], SPAN * SECOND, buckets, out)
    began = time.perf_counter()
    found = kernel(stream, ts, key, SPAN * SECOND, buckets, out)
    return int(found), time.perf_counter() - began


def _duckdb(tables: dict[str, pa.Table]) -> tuple[int, float]:
    import duckdb

    connection = duckdb.connect()
    connection.execute("set threads to 2")
    for alias, table in tables.items():
        connection.register("given", table)
        connection.execute(f"create table {alias} as select epoch_us(ts) as ts, k, p from given")
    names = list(tables)
    keys = " and ".join(f"a.k = {n}.k" for n in names[1:])
    newest = f"greatest({', '.join(f'{n}.ts' for n in names)})"
    times = " and ".join(f"{newest} - {n}.ts <= {SPAN * SECOND}" for n in names)
    lengths = " + ".join(f"length({n}.p)" for n in names)
    sql = f"select count(*), sum({lengths}) from {', '.join(names)} where {keys} and {times}"
    began = time.perf_counter()
    found = connection.execute(sql).fetchone()
    assert found is not None
    return int(found[0]), time.perf_counter() - began
