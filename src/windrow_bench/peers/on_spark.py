"""Spark's and Windrow's sides, as a process of their own: files as streams, one of each stream per batch.

    python -m windrow_bench.peers.on_spark SIDE JOIN FOLDER AT CORES PARTITIONS WARM_UP

Checkpoint and state are below AT. The first WARM_UP batches do not count.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from windrow.spark.files.file_stream import files
from windrow.spark.join import join
from windrow_bench.on_spark.streams import ROCKSDB, run, session, stream
from windrow_bench.peers.joins import JOINS, PeerJoin

FORMAT = {"spark.sql.streaming.join.stateFormatVersion": "4"}


def main(side: str, name: str, folder: str, at: str, *numbers: str) -> None:
    cores, partitions, warm_up = map(int, numbers)
    described = JOINS[name]
    # Spark's own join holds its windows on the heap; every side gets what that one needs.
    settings = ROCKSDB | FORMAT if side == "spark-rocksdb" else {}
    spark = session(f"peers, {side}", cores, partitions, "8g", settings)
    read = {alias: Path(folder) / alias for alias in described.aliases}
    if side == "windrow-files":
        streams: dict[str, Any] = {
            a: files(spark, str(path), files_per_batch=1).select(*described.used(a))
            for a, path in read.items()
        }
    else:
        streams = {a: stream(spark, path).select(*described.used(a)) for a, path in read.items()}
    if side.startswith("windrow"):
        within = f"{described.span} seconds"
        joined = join(streams, described.predicate, "ts", within, partitions=partitions, state=f"{at}/state")
    else:
        joined = _own(spark, described, streams)
    print(json.dumps(run(joined, f"{at}/checkpoint", warm_up, sf.expr(described.fingerprint))))


def _own(spark: SparkSession, described: PeerJoin, streams: dict[str, DataFrame]) -> DataFrame:
    """Spark's stream-stream join; for three streams a chain, since it joins two.

    A frame may have one event time, so the rows of two streams become structs, with the event time of the
    second beside them. Rows at the watermark itself are late to Spark, so it stays a millisecond behind.
    """
    for alias, frame in streams.items():
        frame.withWatermark("ts", "1 millisecond").createOrReplaceTempView(alias)
    span = f"interval {described.span} seconds"
    joined = spark.sql(
        f"select struct(a.*) as a, struct(b.*) as b, b.ts as at from a join b on {described.on('b')} "
        f"and b.ts between a.ts - {span} and a.ts + {span}"
    )
    if "c" in described.aliases:
        joined.createOrReplaceTempView("ab")
        joined = spark.sql(
            f"select a, b, struct(c.*) as c from ab join c on {described.on('c')} "
            f"and c.ts between at - {span} and at + {span} and {described.near('a', 'c')}"
        )
    return joined


if __name__ == "__main__":
    main(*sys.argv[1:])
