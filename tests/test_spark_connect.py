"""Over Spark Connect a client has metrics, SQL, shared joins and files as in an ordinary session."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql.streaming.listener import StreamingQueryProgress

import windrow as wr
from connect_client import QUERY
from spark_tools import Stream, in_process, rows, run
from windrow.spark import session
from windrow.spark.metrics import read_progress
from windrow.spark.spark_errors import short_message

TABLES = {
    alias: [rows(n + 10 * s, 40, start=4 * n, span=4) for n in range(3)] for s, alias in enumerate("ab")
}


def test_metrics_are_read_from_the_json_that_connect_sends(tmp_path: Path) -> None:
    streams = {alias: Stream(tmp_path / alias) for alias in "ab"}
    for alias, stream in streams.items():
        stream.put(TABLES[alias][0])
    frames = {alias: stream.read() for alias, stream in streams.items()}
    query = run(wr.join(frames, QUERY, partitions=2, state=str(tmp_path / "state")), tmp_path)
    (told,) = wr.metrics(query)
    event = query.recentProgress[0]
    assert read_progress(StreamingQueryProgress.fromJson(json.loads(event.json))) == [told]


@pytest.mark.parametrize(
    ("text", "short"),
    [
        (
            "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n"
            '\tdetails = "failed to connect"\n>',
            "failed to connect",
        ),
        (
            "An error occurred while calling o46.collectToPython.\n: org.apache.spark.SparkException: Job "
            "aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost "
            "task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 0): java.io.IOException: Cannot run program "
            '"/nowhere"\n\tat java',
            'java.io.IOException: Cannot run program "/nowhere"',
        ),
    ],
)
def test_errors_of_the_server_and_of_tasks_are_one_sentence(text: str, short: str) -> None:
    assert short_message(RuntimeError(text)) == short


def test_a_server_that_is_not_there_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in session.PROXIES:
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        session._check_server(f"sc://127.0.0.1:{port}")
    with pytest.raises(wr.WindrowError, match=f"no Spark Connect server answers at sc://127.0.0.1:{port}"):
        session._check_server(f"sc://127.0.0.1:{port}")


def test_a_client_of_spark_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect: pip install 'pyspark[connect]'")
    wanted = in_process(QUERY, *({a: TABLES[a][n] for a in "ab"} for n in range(3))).total()
    for alias in "ab":
        Stream(tmp_path / alias).put(*TABLES[alias])
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    ended = subprocess.run(
        [sys.executable, "-m", "connect_client", str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    report = json.loads(ended.stdout.splitlines()[-1])
    for way in ("join", "files", "sql"):
        assert report[way]["rows"] == sum(report[way]["results"]) == wanted, way
    assert report["share"]["rows"] == 2 * wanted
    limited = report["limited"]
    assert 0 < limited["rows"] == sum(limited["results"]) < wanted
    assert all(low <= high for _, low, high in limited["recall"])
    assert limited["dashboard"] == limited["rows"]
    assert "write to a sink" in report["foreachBatch"]
    assert report["unreachable"] == 2
    assert report["batch"] == wanted
