"""Outer and as-of joins over 60-second windows beside the inner join of the same streams.

In one process, each side takes the same Arrow tables of about 100,000 rows and gives Arrow tables with all
payloads, on one thread. The left join is checked against DuckDB, which has all rows at once. Memory is what
the windows hold at most, between calls, with the combinations that wait. On Spark, the left join runs beside
Spark's own left outer stream-stream join of the same files; both must return the same rows.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from rich.console import Console

from windrow_bench.data import batches, streams
from windrow_bench.measure import timed, window_query
from windrow_bench.spark import SparkCase, measure

SECONDS = 240
SPAN = 60
BATCH = 100_000
RUNS = 2
"""Of each the faster counts: the first one also pays for fresh memory."""
KINDS: dict[str, dict[str, Any]] = {
    "inner": {},
    "left": {"how": "left"},
    "full": {"how": "full"},
    "semi": {"how": "semi"},
    "anti": {"how": "anti"},
    "as-of, last": {"how": "left", "match": {"b": "last"}},
}


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    scale = rows / 7_200_000
    alone = [
        figures
        for name, keys in (("few matches", 10_000_000), ("many matches", 100_000))
        for figures in _compare(name, rows, max(1, int(keys * scale)), console)
    ]
    return [*alone, *_on_spark(rows, console)]


def _on_spark(rows: int, console: Console) -> list[dict[str, Any]]:
    """The left join on Spark and Spark's own."""
    each = max(2_000, rows // 36)
    case = SparkCase("left outer", "left", 2, each, 50 * each)
    measured = measure(case, console)
    own, found = measured["spark"], []
    for side, title in (("spark", "Spark's own"), ("windrow", "windrow")):
        m = measured[side]
        rate = m["rows"] / m["seconds"]
        found.append(
            {
                "join": f"left on Spark: {title}",
                "results a row": m["answer"][0] / (each * 2 * case.batches),
                "rows/s": rate,
                "speed : inner": "",
                "peak memory, bytes": m["peak"],
                "memory : inner": "",
                "speed : Spark": rate / (own["rows"] / own["seconds"]),
                "memory : Spark": m["peak"] / own["peak"],
            }
        )
    return found


def _compare(name: str, rows: int, keys: int, console: Console) -> list[dict[str, Any]]:
    with console.status(f"{name}: generating {rows:,} rows"):
        tables = streams(rows, keys, 2, SECONDS)
        parts = batches(tables, BATCH, SECONDS)
        expected = _left_results(tables)
    figures: list[dict[str, Any]] = []
    for kind, options in KINDS.items():
        with console.status(f"{name}: {kind}"):
            query = window_query("a.k = b.k", SPAN, **options)
            run = min((timed(query, parts, finish=True) for _ in range(RUNS)), key=lambda run: run.seconds)
        if kind == "left" and run.results != expected:
            raise AssertionError(f"{name}: {run.results} results of the left join, DuckDB has {expected}")
        figures.append(
            {
                "join": f"{kind}, {name}",
                "results a row": run.results / rows,
                "rows/s": rows / run.seconds,
                "speed : inner": 1.0,
                "peak memory, bytes": run.peak_bytes,
                "memory : inner": 1.0,
                "speed : Spark": "",
                "memory : Spark": "",
            }
        )
        figures[-1]["speed : inner"] = figures[-1]["rows/s"] / figures[0]["rows/s"]
        figures[-1]["memory : inner"] = run.peak_bytes / figures[0]["peak memory, bytes"]
    return figures


def _left_results(tables: dict[str, pa.Table]) -> int:
    import duckdb

    with duckdb.connect() as connection:
        for alias, table in tables.items():
            connection.register(alias, table)
        near = f"abs(epoch_us(a.ts) - epoch_us(b.ts)) <= {SPAN * 1_000_000}"
        found = connection.sql(f"select count(*) from a left join b on a.k = b.k and {near}").fetchall()
    return int(found[0][0])
