"""One side of the benchmark against Spark's own joins: run as a process of its own, print its figures.

    python -m windrow_bench.on_spark.join SIDE JOIN FOLDER STREAMS CORES PARTITIONS WARM_UP MEMORY

reads the files below FOLDER as streams, one file of each per batch, joins them and throws the results away,
counting them and adding up their hashes on the way. The first WARM_UP batches do not count: the windows are
filling, and every side is still compiling.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from windrow.spark.files.file_stream import files
from windrow.spark.join import join
from windrow_bench.on_spark.streams import ROCKSDB, row_hash, run, session, stream

SPAN = 60
STORES = {"spark": {}, "spark-rocksdb": ROCKSDB}
WINDROW = ("windrow", "windrow-spill", "windrow-limited", "windrow-empty", "windrow-files")
"""From DataFrames, the second to fourth with windows that spill beyond MEMORY bytes, that evict beyond it, or
that hold next to nothing under that limit; and from files that Windrow reads itself."""
LIMITED: dict[str, dict[str, Any]] = {
    "windrow-spill": {"disk": "unlimited"},
    "windrow-limited": {},
    "windrow-empty": {},
}
Equalities = dict[tuple[str, str], str]
EQUALITIES: dict[str, Equalities] = {
    "key": {("a", "b"): "k", ("b", "c"): "k"},
    "triangle": {("a", "b"): "i", ("b", "c"): "j", ("a", "c"): "k"},
    "left": {("a", "b"): "k"},
}
"""Joins that Spark knows too: which column two streams have in common."""
OTHERS = {
    "band": "abs(a.x - {n}.x) <= 0.5",
    "theta": "a.k < {n}.k and {n}.k - a.k < 40 and a.x <> {n}.x",
}
"""Joins that it does not: a with each other stream."""
COLUMNS = {
    "key": ("k",),
    "left": ("k",),
    "triangle": ("i", "j", "k"),
    "band": ("k", "x"),
    "theta": ("k", "x"),
}


def main() -> None:
    side, name, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    count, cores, partitions, warm_up, memory = map(int, sys.argv[4:9])
    # Spark's own join holds its windows on the heap, and with Spark's default of 1 GB does little but collect
    # garbage; so every side gets what that one needs.
    spark = session(side, cores, partitions, "8g", STORES.get(side))
    aliases = list("abc"[:count])
    schema = spark.read.parquet(str(folder / "a")).schema
    # Spark reads only the columns that are used; so the same ones on every side.
    used = ("ts", *COLUMNS[name], "p")
    frames = {n: stream(spark, folder / n).select(*used) for n in aliases}
    read = {n: files(spark, str(folder / n), schema=schema, files_per_batch=1).select(*used) for n in aliases}
    how = "left" if name == "left" else "inner"
    if side in STORES:
        joined = _own_chain(frames, EQUALITIES[name], used, how)
    elif side in WINDROW:
        given = read if side == "windrow-files" else frames
        limits = LIMITED[side] | {"memory": memory} if side in LIMITED else {}
        state = str(folder / f"state-{side}")
        within = "1 microsecond" if side == "windrow-empty" else f"{SPAN} seconds"
        on = predicate(name, aliases)
        joined = join(given, on, "ts", within, partitions=partitions, state=state, how=how, **limits)
    else:
        joined, aliases = _no_join(side, frames, partitions), ["a"]
    # A row is known by its time and its keys: all of them together say which rows a result is made of.
    known = [f"{n}.{column}" for n in aliases for column in ("ts", *COLUMNS[name])]
    # Rows that only move time on have negative keys. A filter would keep them from the join as well.
    counted = sf.col("a.k") >= 0
    value, checkpoint = sf.when(counted, row_hash(*known)), str(folder / f"checkpoint-{side}")
    print(json.dumps(run(joined, checkpoint, warm_up, value, sf.count_if(counted))))


def predicate(name: str, aliases: list[str]) -> str:
    """
    >>> predicate("triangle", ["a", "b", "c"])
    'a.i = b.i and b.j = c.j and a.k = c.k'
    """
    if name in OTHERS:
        return " and ".join(OTHERS[name].format(n=n) for n in aliases[1:])
    pairs = {pair: column for pair, column in EQUALITIES[name].items() if {*pair} <= {*aliases}}
    return " and ".join(f"{x}.{column} = {y}.{column}" for (x, y), column in pairs.items())


def _no_join(side: str, frames: dict[str, DataFrame], partitions: int) -> DataFrame:
    """What comes before any join: reading; for "shuffle" and "hand-over" dealing the rows to partitions; and
    for "hand-over" giving them to Python."""
    rows = reduce(DataFrame.union, frames.values())
    if side != "source":
        rows = rows.repartition(partitions, "k")
    if side == "hand-over":
        rows = rows.mapInArrow(_only_read, rows.schema)
    return rows.select(sf.struct("*").alias("a"))


def _only_read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    return iter(())


def _own_chain(frames: dict[str, DataFrame], equal: Equalities, used: tuple[str, ...], how: str) -> DataFrame:
    """Spark's stream-stream join; for three streams a chain of two, which wants one event time re-made."""
    sides = {n: _own_side(f, n, used) for n, f in frames.items()}
    joined = sides["a"].join(sides["b"], _equal("a", "b", equal) & _near("a", "b"), how)
    if "c" in sides:
        # Two event times in one frame are refused; re-made, one of them is an ordinary column.
        joined = joined.withColumn("a_ts", sf.timestamp_micros(sf.unix_micros("a_ts")))
        on = _equal("b", "c", equal) & _near("b", "c")
        joined = joined.join(sides["c"], on & _equal("a", "c", equal) if ("a", "c") in equal else on)
        joined = joined.where(sf.abs(sf.unix_micros("a_ts") - sf.unix_micros("c_ts")) <= SPAN * 1_000_000)
    return joined.select(*(sf.struct(*(sf.col(f"{n}_{c}").alias(c) for c in used)).alias(n) for n in frames))


def _own_side(frame: DataFrame, name: str, used: tuple[str, ...]) -> DataFrame:
    renamed = frame.select(*(sf.col(c).alias(f"{name}_{c}") for c in used))
    return renamed.withWatermark(f"{name}_ts", "0 seconds")


def _equal(x: str, y: str, equal: Equalities) -> sf.Column:
    column = equal[x, y]
    return sf.col(f"{x}_{column}") == sf.col(f"{y}_{column}")


def _near(x: str, y: str) -> sf.Column:
    span = sf.expr(f"interval {SPAN} seconds")
    return sf.col(f"{y}_ts").between(sf.col(f"{x}_ts") - span, sf.col(f"{x}_ts") + span)


if __name__ == "__main__":
    main()
