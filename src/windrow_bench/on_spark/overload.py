"""Streaming joins under deadlines, for the benchmark: files in, one a batch, and what each batch took.

    python -m windrow_bench.on_spark.overload PLAN

PLAN is a JSON document (`OverloadSpec`). Prints a line of JSON: for each run, one after the other, and each
batch its results, the seconds its slowest partition took in the join, and the recall that the join reported.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from windrow.spark.join import join
from windrow.spark.metrics import BatchMetrics, metrics
from windrow.spark.session import local_session

EXACT = "exact"
"""The run whose median batch, once warmed up, deadlines are fractions of."""


@dataclass(frozen=True)
class OverloadSpec:
    """
    Parameters
    ----------
    directory
        A folder of parquet files for each of the streams.
    columns
        Of the files, as Spark writes them.
    runs
        Name to the settings of `join`: `shed`, and a `deadline` in seconds or as a `part` of the exact time.
    warm_up
        Batches that do not count.
    """

    directory: str
    aliases: str
    columns: str
    on: str
    window: str
    partitions: int
    partitioning: str | None
    access: str | None
    runs: Mapping[str, Mapping[str, float | str]]
    warm_up: int


def main(document: str) -> None:
    plan = OverloadSpec(**json.loads(document))
    spark = local_session(plan.partitions, "windrow overload", heap="4g")
    found: dict[str, list[dict[str, float]]] = {}
    for name, limits in plan.runs.items():
        seconds = limits.get("deadline")
        if "part" in limits:
            spent = median(batch["seconds"] for batch in found[EXACT][plan.warm_up :])
            seconds = float(limits["part"]) * spent
        deadline = None if seconds is None else timedelta(seconds=float(seconds))
        found[name] = _play(spark, plan, deadline, str(limits.get("shed", "auto")))
    print(json.dumps(found))
    spark.stop()


def _play(
    spark: SparkSession, plan: OverloadSpec, deadline: timedelta | None, shed: str
) -> list[dict[str, float]]:
    frames = {
        alias: spark.readStream.schema(plan.columns)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(Path(plan.directory) / alias))
        for alias in plan.aliases
    }
    with tempfile.TemporaryDirectory() as kept:
        joined = join(
            frames, plan.on, "ts", plan.window,
            deadline=deadline, shed=shed, access=plan.access, partitions=plan.partitions,
            partitioning=plan.partitioning, state=f"{kept}/state",
        )  # fmt: skip
        writer = joined.writeStream.format("noop").option("checkpointLocation", f"{kept}/checkpoint")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [_figures(batch) for batch in metrics(query)]


def _figures(batch: BatchMetrics) -> dict[str, float]:
    parts = [
        {
            "reading": p.seconds_read_input,
            "loading": p.seconds_load_state,
            "joining": p.seconds_process,
            "storing": p.seconds_commit_state,
        }
        for p in batch.partitions
    ]
    slowest = max(parts, key=lambda part: sum(part.values()))
    recall, low, high = batch.recall
    return slowest | {
        "seconds": sum(slowest.values()),
        "deadline": max(p.deadline_seconds or 0.0 for p in batch.partitions),
        "batch": batch.seconds,
        "results": batch.results,
        "throttle": batch.throttle_fraction,
        "recall": recall,
        "low": low,
        "high": high,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
