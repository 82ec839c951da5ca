"""One side of the benchmark against Spark's own joins: run as a process of its own, print its figures.

    python -m windrow.spark.benchmark SIDE FOLDER STREAMS CORES PARTITIONS

reads the files below FOLDER as streams, one file of each per batch, joins them and throws the results away,
counting them and adding up their hashes on the way.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from windrow.spark.join import join
from windrow.spark.session import local_session

SPAN = 60
WARM_UP = 4
"""Batches that do not count: the windows are filling, and every side is still compiling."""
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
EXTRA = {
    "spark": {},
    "spark-rocksdb": {
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    },
    "windrow": {},
    "windrow-band": {},
    "windrow-theta": {},
    "source": {},
    "hand-over": {},
}
ON = {
    "windrow": lambda names: " and ".join(f"a.k = {n}.k" for n in names[1:]),
    "windrow-band": lambda names: " and ".join(f"abs(a.x - {n}.x) <= 0.5" for n in names[1:]),
    "windrow-theta": lambda names: " and ".join(
        f"a.k < {n}.k and {n}.k - a.k < 40 and a.x <> {n}.x" for n in names[1:]
    ),
}


def main() -> None:
    side, folder, count, cores, partitions = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:6])
    # Spark's own join holds its windows on the heap, and with Spark's default of 1 GB does little but collect
    # garbage; so every side gets what that one needs.
    spark = local_session(cores, f"windrow benchmark: {side}", heap="8g")
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    for key, value in EXTRA[side].items():
        spark.conf.set(key, value)
    names = list("abcdefgh"[:count])
    schema = spark.read.parquet(str(folder / "a")).schema
    # Spark reads only the columns that are used; so the same ones on every side.
    used = ("ts", "k", "p") if side not in ("windrow-band", "windrow-theta") else ("ts", "k", "p", "x")
    frames = {n: _stream(spark, folder / n, schema).select(*used) for n in names}
    if side in ("source", "hand-over"):
        joined = reduce(DataFrame.union, frames.values())
        if side == "hand-over":
            dealt = joined.repartition(partitions, "k")
            joined = dealt.mapInArrow(_only_read, dealt.schema)
        joined = joined.select(sf.struct("k").alias("a"))
        names = names[:1]
    elif side.startswith("windrow"):
        state = str(folder / f"state-{side}")
        joined = join(frames, ON[side](names), "ts", f"{SPAN} seconds", partitions=partitions, state=state)
    else:
        joined = _own_chain(frames)
    print(json.dumps(_run(joined, names, folder / f"checkpoint-{side}")))


def _stream(spark: SparkSession, folder: Path, schema: Any) -> DataFrame:
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def _only_read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What any operator in Python must wait for."""
    for _ in batches:
        pass
    return iter(())


def _own_chain(frames: dict[str, DataFrame]) -> DataFrame:
    """Spark's stream-stream join; for three streams a chain of two, which wants one event time re-made."""
    sides = {n: _own_side(f, n) for n, f in frames.items()}
    joined = _own_join(sides["a"], sides["b"], "a", "b")
    if "c" in sides:
        # Two event times in one frame are refused; re-made, one of them is an ordinary column.
        joined = joined.withColumn("a_ts", sf.timestamp_micros(sf.unix_micros("a_ts")))
        joined = _own_join(joined, sides["c"], "b", "c")
        joined = joined.where(sf.abs(sf.unix_micros("a_ts") - sf.unix_micros("c_ts")) <= SPAN * 1_000_000)
    kept = {n: sf.struct(sf.col(f"{n}_k").alias("k"), f"{n}_ts", f"{n}_p").alias(n) for n in frames}
    return joined.select(*kept.values())


def _own_side(frame: DataFrame, name: str) -> DataFrame:
    renamed = frame.select(*(sf.col(c).alias(f"{name}_{c}") for c in ("ts", "k", "p")))
    return renamed.withColumn(f"{name}_ts", sf.col(f"{name}_ts").cast("timestamp")).withWatermark(
        f"{name}_ts", "0 seconds"
    )


def _own_join(left: DataFrame, right: DataFrame, x: str, y: str) -> DataFrame:
    span = sf.expr(f"interval {SPAN} seconds")
    near = sf.col(f"{y}_ts").between(sf.col(f"{x}_ts") - span, sf.col(f"{x}_ts") + span)
    return left.join(right, (sf.col(f"{x}_k") == sf.col(f"{y}_k")) & near)


def _run(joined: DataFrame, names: list[str], checkpoint: Path) -> dict[str, Any]:
    keys = sf.xxhash64(*(sf.col(f"{n}.k") for n in names)).cast("decimal(38,0)")
    watched = joined.observe("check", sf.count("*").alias("results"), sf.sum(keys).alias("hashes"))
    query = (
        watched.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    began = time.perf_counter()
    query.awaitTermination()
    elapsed = time.perf_counter() - began
    progress = [p for p in query.recentProgress if p.numInputRows]
    observed = [p.observedMetrics["check"] for p in progress]
    later = progress[WARM_UP:]
    return {
        "rows": sum(p.numInputRows for p in later),
        "seconds": sum(p.batchDuration for p in later) / 1000,
        "elapsed": elapsed,
        "batches": len(later),
        "results": sum(o.results for o in observed),
        "hashes": str(sum(o.hashes or 0 for o in observed)),
    }


if __name__ == "__main__":
    main()
