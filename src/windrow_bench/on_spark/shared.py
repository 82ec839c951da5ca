"""One side of the benchmark of shared queries on Spark, as a process of its own; prints its figures.

    python -m windrow_bench.on_spark.shared SIDE FOLDER CORES PARTITIONS WINDOW,WINDOW,...

"largest": the largest window in a join of its own. "seven", "hundred": all windows in one shared join.
"apart": each window in a join of its own, all in one streaming query, so that what Spark does once per batch
counts once for each side: listing files, planning, its logs. As seven streaming queries they would pay it
seven times.
"""

from __future__ import annotations

import json
import sys
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from windrow.model.query import Query, Stream
from windrow.spark.join import join
from windrow.spark.session import local_session
from windrow.spark.shared_join import share
from windrow_bench.on_spark.join import _stream

ON = "a.k = b.k"
WARM_UP = 8
"""Batches that do not count. The JVM compiles what runs often, so a side with seven times the tasks is warm
after fewer batches; after eight of this size none gets faster."""


def main() -> None:
    side, folder = sys.argv[1], Path(sys.argv[2])
    cores, partitions = map(int, sys.argv[3:5])
    windows = [float(w) for w in sys.argv[5].split(",")]
    spark = local_session(cores, f"windrow benchmark: shared, {side}", heap="4g")
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    schema = spark.read.parquet(str(folder / "a")).schema
    frames = {a: _stream(spark, folder / a, schema).select("ts", "k", "p") for a in "ab"}
    state = str(folder / f"state-{side}")
    if side in ("largest", "apart"):
        chosen = windows[-1:] if side == "largest" else windows
        parts = [
            join(frames, ON, "ts", f"{w} seconds", partitions=partitions, state=state, name=f"w{k}").select(
                sf.lit(f"{w:g}").alias("query"), "a", "b"
            )
            for k, w in enumerate(chosen)
        ]
        out = reduce(DataFrame.union, parts)
    else:
        queries = {f"{w:g}": Query({a: Stream("ts", f"{w} seconds") for a in "ab"}, ON) for w in windows}
        out = share(queries, frames, partitions=partitions, state=state)
    print(json.dumps(_run(out, folder / f"checkpoint-{side}")))


def _run(out: DataFrame, checkpoint: Path) -> dict[str, Any]:
    hashes = sf.xxhash64("query", "a.ts", "a.k", "b.ts", "b.k").cast("decimal(38,0)")
    watched = out.observe("check", sf.count("*").alias("results"), sf.sum(hashes).alias("hashes"))
    query = (
        watched.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = [p for p in query.recentProgress if p.numInputRows]
    observed = [p.observedMetrics["check"] for p in progress]
    return {
        "seconds": sum(p.batchDuration for p in progress[WARM_UP:]) / 1000,
        "results": sum(o.results for o in observed),
        "check": [sum(o.results for o in observed), str(sum(o.hashes or 0 for o in observed))],
    }


if __name__ == "__main__":
    main()
