"""Streaming queries of the benchmarks: a file of each stream a batch, results counted and thrown away."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from windrow.spark.session import local_session

ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def session(
    name: str, cores: int, partitions: int, heap: str, settings: Mapping[str, str] | None = None
) -> SparkSession:
    spark = local_session(cores, f"windrow benchmark: {name}", heap)
    for key, value in {"spark.sql.shuffle.partitions": str(partitions), **(settings or {})}.items():
        spark.conf.set(key, value)
    return spark


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(
    results: DataFrame, checkpoint: str, warm_up: int, value: Column, count: Column | None = None
) -> dict[str, Any]:
    """Run to the end of the files. The answer is the number of results and the sum of a value that tells them
    apart. The first `warm_up` batches do not count for the time."""
    number = sf.count("*") if count is None else count
    watched = results.observe("check", number.alias("results"), sf.sum(value).alias("total"))
    writer = watched.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    observed = [p.observedMetrics["check"] for p in query.recentProgress]
    counted = [p for p in query.recentProgress if p.numInputRows][warm_up:]
    return {
        "seconds": sum(p.batchDuration for p in counted) / 1000,
        "batches": len(counted),
        "answer": [sum(o.results for o in observed), sum(int(o.total or 0) for o in observed)],
    }


def row_hash(*columns: str) -> Column:
    return sf.xxhash64(*columns).cast("decimal(38,0)")
