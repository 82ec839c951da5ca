"""A client of a Spark Connect server that it starts itself: `python -m connect_client DIR`.

One process has either an ordinary session or one of Spark Connect, so this is not the tests' own. It prints
one JSON document: what each way to join said.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import windrow as wr

QUERY = wr.Query({alias: wr.Stream("ts", "5 seconds") for alias in "ab"}, "a.k = b.k")
SCHEMA = "id long, ts timestamp, k long, x double, s string"


class Client:
    def __init__(self, directory: Path, session: SparkSession) -> None:
        self.directory, self.session = directory, session
        self.started = 0

    def frames(self) -> dict[str, DataFrame]:
        reader = self.session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return {alias: reader.parquet(str(self.directory / alias)) for alias in "ab"}

    def files(self) -> dict[str, Any]:
        return {a: wr.files(self.session, str(self.directory / a), files_per_batch=1) for a in "ab"}

    def options(self) -> dict[str, Any]:
        self.started += 1
        return {"partitions": 2, "state": str(self.directory / f"state-{self.started}")}

    def run(self, joined: DataFrame) -> dict[str, Any]:
        out = self.directory / f"out-{self.started}"
        writer = joined.writeStream.option("checkpointLocation", str(self.directory / f"ck-{self.started}"))
        query = writer.format("parquet").option("path", str(out)).trigger(availableNow=True).start()
        query.awaitTermination()
        told = wr.metrics(query)
        with wr.dashboard(query) as page:
            while page.history.state in ("waiting", "running"):
                time.sleep(0.1)
            total = page.history.joins[told[0].join].total
        return {
            "rows": self.session.read.parquet(str(out)).count(),
            "results": [batch.results for batch in told],
            "recall": [batch.recall for batch in told],
            "dashboard": total and total.results,
        }


def refused(call: Callable[[], object]) -> str | None:
    try:
        call()
    except wr.WindrowError as error:
        return str(error)
    return None


def main(directory: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    client = Client(directory, session)
    limited = wr.join(client.frames(), "a.k = b.k", "ts", "5 seconds", memory="20 rows", **client.options())
    report: dict[str, Any] = {"limited": client.run(limited)}
    report["join"] = client.run(wr.join(client.frames(), QUERY, **client.options()))
    report["files"] = client.run(wr.join(client.files(), QUERY, **client.options()))
    report["share"] = client.run(wr.share({"one": QUERY, "two": QUERY}, client.frames(), **client.options()))
    text = "SELECT a.id, b.id AS other FROM a, b WHERE a.k = b.k WINDOW 5 SECONDS"
    options = {"spark": session, "streams": client.frames(), "time": "ts"} | client.options()
    report["sql"] = client.run(wr.sql(text, **options))
    joined = wr.join(client.frames(), QUERY, **client.options())
    report["foreachBatch"] = refused(lambda: joined.writeStream.foreachBatch(lambda frame, batch: None))
    # The client's own disk is not the cluster's.
    far = wr.join(client.frames(), QUERY, partitions=2, state="/proc/not-here")
    report["unreachable"] = len(far.columns)
    batch = {alias: session.read.schema(SCHEMA).parquet(str(directory / alias)) for alias in "ab"}
    report["batch"] = wr.join(batch, QUERY, partitions=2).count()
    print(json.dumps(report))
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
