"""Before a query starts, its workers' Python and the place of its windows are checked."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

import windrow as wr
from spark_tools import spark
from windrow.spark import worker_python
from windrow.state.storage import check_reachable


def python_that_prints(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\necho {text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        (f"{sys.version_info[0]} {sys.version_info[1]} windrow", "it has no module windrow"),
        ("3 1", r"it is Python 3\.1, the driver's is 3\."),
    ],
)
def test_workers_without_windrow_are_refused_with_the_line_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, why: str
) -> None:
    context = spark().sparkContext
    monkeypatch.setattr(worker_python, "_checked", set())
    monkeypatch.setattr(context, "pythonExec", python_that_prints(tmp_path / "python", printed))
    rows = spark().sql("select 1 as k, timestamp '2024-01-01' as at")
    with pytest.raises(wr.QueryError, match=rf"{why}.*PYSPARK_PYTHON.*{sys.executable}"):
        wr.join({"a": rows, "b": rows}, on="a.k = b.k", time="at", within="1 minute")


def test_a_python_that_does_not_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(wr.QueryError, match="it does not start"):
        worker_python._check_local(str(tmp_path / "nowhere"))


def test_a_cluster_is_asked_by_a_task() -> None:
    worker_python._check_cluster(spark(), None)


def test_windows_need_a_directory_that_can_be_written(tmp_path: Path) -> None:
    check_reachable(str(tmp_path / "not" / "yet" / "there"))
    (tmp_path / "file").touch()
    with pytest.raises(wr.StateError, match="is not a directory"):
        check_reachable(str(tmp_path / "file" / "state"))
    check_reachable("s3://known-to-the-workers/state")
    if os.geteuid():
        (tmp_path / "closed").mkdir(mode=0o500)
        with pytest.raises(wr.StateError, match="is not writable"):
            check_reachable(str(tmp_path / "closed" / "state"))


def test_the_reason_of_a_failure_is_one_sentence(tmp_path: Path) -> None:
    rows = spark().sql("select 1 as k, timestamp '2024-01-01' as at")
    rows.write.parquet(str(tmp_path / "in"))
    stream = spark().readStream.schema(rows.schema).parquet(str(tmp_path / "in"))

    def run(on: str) -> object:
        joined = wr.join(
            {"a": stream, "b": stream},
            on=on,
            time="at",
            within="1 minute",
            partitions=1,
            state=str(tmp_path / "s"),
        )
        writer = joined.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        query = writer.start()
        with suppress(StreamingQueryException):
            query.processAllAvailable()
        query.stop()
        return query

    first = run("a.k = b.k")
    assert wr.reason(first) is None
    assert wr.metrics(first).to_pandas()["results"].sum() == 1
    assert "<table" in wr.metrics(first)._repr_html_()
    rows.write.mode("append").parquet(str(tmp_path / "in"))
    told = wr.reason(run("a.k = b.k + 1"))
    assert told is not None and "on was 'a.k = b.k', now 'a.k = b.k + 1'" in told and "\n" not in told
    with pytest.raises(wr.QueryError, match="expected a query"):
        wr.reason(rows)
