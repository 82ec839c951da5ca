"""Streaming joins under a deadline, for the benchmark: files in, one a batch, and what each batch took.

    python -m windrow.spark.overload DIRECTORY WINDOW DEADLINE ON PARTITIONS POLICY...

DIRECTORY holds a folder of parquet files for each of the streams a, b and c, with columns ts and v. Prints a
line of JSON: for each policy, one after the other, and each batch its results, the seconds its slowest
partition took in the join, throttle and recall.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from windrow.spark.join import join
from windrow.spark.metrics import BatchMetrics, metrics
from windrow.spark.session import local_session


def main(directory: str, window: str, deadline: str, on: str, partitions: str, *policies: str) -> None:
    spark = local_session(int(partitions), "windrow overload", heap="4g")
    told = {}
    for policy in policies:
        frames = {
            alias: spark.readStream.schema("ts timestamp, v double")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(Path(directory) / alias))
            for alias in "abc"
        }
        with tempfile.TemporaryDirectory() as kept:
            joined = join(
                frames, on, "ts", window,
                deadline=deadline, shed=policy, access="scan", partitions=int(partitions),
                partitioning="grid", state=f"{kept}/state",
            )  # fmt: skip
            writer = joined.writeStream.format("noop").option("checkpointLocation", f"{kept}/checkpoint")
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            told[policy] = [_told(batch) for batch in metrics(query)]
    print(json.dumps(told))
    spark.stop()


def _told(batch: BatchMetrics) -> dict[str, float]:
    slowest = max(
        p.seconds_input + p.seconds_load + p.seconds_process + p.seconds_publish for p in batch.partitions
    )
    return {
        "results": batch.results,
        "seconds": slowest,
        "throttle": batch.throttle,
        "recall": batch.recall[0],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
