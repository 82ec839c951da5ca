"""A task that fails after it has published and handed on part of its results, in a Spark with retries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import windrow as wr
from spark_tools import in_process, rows
from windrow.spark.java import find_java

pytestmark = pytest.mark.faults

PROGRAM = '''
import json, sys
from pathlib import Path
import pyarrow.parquet as pq
from windrow.spark import session
from windrow.spark.join import join
from windrow.spark.metrics import metrics

path = Path(sys.argv[1])
builder = session.SparkSession.builder
spark = builder.master("local[2,3]").config("spark.sql.shuffle.partitions", "2")
for key, value in session.SETTINGS.items():
    spark = spark.config(key, value)
spark = spark.getOrCreate()
schema = "id long, ts timestamp, k long, x double, s string"
read = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
frames = {alias: read.parquet(str(path / alias)) for alias in "ab"}
out = join(frames, "a.k = b.k", "ts", "4 seconds", late="1 second", partitions=2, state=str(path / "state"))

def fail_sometimes(batches):
    """Fails the first two attempts at every task of batch 1, after some results have gone by."""
    from pyspark import TaskContext
    context = TaskContext.get()
    doomed = context.getLocalProperty("streaming.sql.batchId") == "1" and context.attemptNumber() < 2
    for batch in batches:
        yield batch.slice(0, batch.num_rows // 2)
        if doomed:
            (path / f"failed-{context.partitionId()}-{context.attemptNumber()}").touch()
            raise RuntimeError("injected")
        yield batch.slice(batch.num_rows // 2)

pairs = out.selectExpr("a.id as a", "b.id as b").mapInArrow(fail_sometimes, "a long, b long")
query = pairs.writeStream.format("parquet").option("path", str(path / "out"))
query = query.option("checkpointLocation", str(path / "ck")).trigger(availableNow=True).start()
query.awaitTermination()
rows = [list(row) for row in spark.read.parquet(str(path / "out")).collect()]
print("RESULT", json.dumps({"rows": rows, "results": [m.results for m in metrics(query)]}))
'''


def test_attempts_that_fail_after_publishing_repeat_nothing_and_lose_nothing(tmp_path: Path):
    calls = []
    for alias in "ab":
        (tmp_path / alias).mkdir()
    for n in range(3):
        call = {alias: rows(10 * k + n, 80, start=6 * n, span=9) for k, alias in enumerate("ab", 1)}
        for alias, table in call.items():
            pq.write_table(table, tmp_path / alias / f"{n}.parquet")
        calls.append(call)
    python = {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java(os.environ).home)}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    ran = subprocess.run(
        command, env=os.environ | python, capture_output=True, text=True, timeout=600, check=False
    )
    line = next((x for x in ran.stdout.splitlines() if x.startswith("RESULT ")), None)
    assert line is not None, ran.stderr[-3000:]
    told = json.loads(line.removeprefix("RESULT "))
    query = wr.Query({a: wr.Stream("ts", "4 seconds") for a in "ab"}, "a.k = b.k", late="1 second")
    want = in_process(query, *calls)
    assert sorted(map(tuple, told["rows"])) == sorted(want.elements())
    assert sum(told["results"]) == want.total()
    assert len(list(tmp_path.glob("failed-*"))) >= 2
