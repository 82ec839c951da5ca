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

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from windrow.spark.join import join
from windrow.spark.shared_join import share
from windrow_bench.measure import window_query
from windrow_bench.on_spark.streams import row_hash, run, session, stream

ON = "a.k = b.k"
WARM_UP = 8
"""Batches that do not count. The JVM compiles what runs often, so a side with seven times the tasks is warm
after fewer batches; after eight of this size none gets faster."""


def main() -> None:
    side, folder = sys.argv[1], Path(sys.argv[2])
    cores, partitions = map(int, sys.argv[3:5])
    windows = [float(w) for w in sys.argv[5].split(",")]
    spark = session(f"shared, {side}", cores, partitions, "4g")
    frames = {a: stream(spark, folder / a).select("ts", "k", "p") for a in "ab"}
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
        queries = {f"{w:g}": window_query(ON, w) for w in windows}
        out = share(queries, frames, partitions=partitions, state=state)
    value = row_hash("query", "a.ts", "a.k", "b.ts", "b.k")
    print(json.dumps(run(out, str(folder / f"checkpoint-{side}"), WARM_UP, value)))


if __name__ == "__main__":
    main()
