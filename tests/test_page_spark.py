"""The page of queries that run on Spark: from Python, from `windrow run`, and what `windrow report` makes of
what they recorded."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import urllib.request

import pytest
from typer.testing import CliRunner

import windrow as wr
from pipelines import run, set_up
from spark_tools import Stream, rows
from windrow.cli import app


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def start(tmp_path, streams):
    frames = {alias: stream.read() for alias, stream in streams.items()}
    joined = wr.join(
        frames, on="a.k = b.k", time="ts", within="8 seconds", memory="60 rows", shed="age", partitions=2,
        state=str(tmp_path / "state"), name="pairs",
    )  # fmt: skip
    writer = joined.selectExpr("a.id as a", "b.id as b").writeStream.format("parquet").queryName("<b>pairs")
    writer = writer.option("path", str(tmp_path / "out")).option("checkpointLocation", str(tmp_path / "ck"))
    return writer.start()


def wait(ready):
    until = time.monotonic() + 60
    while not (found := ready()):
        assert time.monotonic() < until
        time.sleep(0.1)
    return found


def test_a_dashboard_follows_a_query_and_its_restart(tmp_path):
    streams = {alias: Stream(tmp_path / alias) for alias in "ab"}
    for k in range(3):
        for n, stream in enumerate(streams.values()):
            stream.put(rows(2 * k + n, 80, 5 * k, 5))
    query = start(tmp_path, streams)
    with wr.dashboard(query) as page:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", page.url) and page.url in repr(page)
        query.processAllAvailable()
        told = wait(lambda: (d := json.loads(fetch(page.url + "data")))["run"]["batches"] == 3 and d)
        join = told["joins"]["pairs"]
        assert told["run"]["name"] == "<b>pairs" and told["run"]["state"] == "running"
        expected = wr.metrics(query)
        assert [p["results"] for p in join["points"]] == [b.results for b in expected]
        assert join["total"]["rows_evicted"] == sum(b.rows_evicted for b in expected) > 0
        assert join["latest"]["memory_size"] <= join["latest"]["memory_limit_size"] <= 60
        for known in join["learned_models"].values():
            assert known["on"] == "a.k = b.k" and known["memory"] == "60 rows"
            assert set(known["ages"]) <= {"a", "b"} and "when a arrives" in known["plan"]
        assert f'windrow_results_total{{join="pairs"}} {join["total"]["results"]}' in fetch(
            page.url + "metrics"
        )
        query.stop()
        wait(lambda: json.loads(fetch(page.url + "data"))["run"]["state"] == "stopped")

        for n, stream in enumerate(streams.values()):
            stream.put(rows(10 + n, 80, 15, 5))
        again = start(tmp_path, streams)
        page.follow(again)
        again.processAllAvailable()
        wait(lambda: json.loads(fetch(page.url + "data"))["run"]["batches"] == 4)
        later = json.loads(fetch(page.url + "data"))
        assert later["run"]["id"] != told["run"]["id"]
        again.stop()
        written = page.save(tmp_path / "page.html").read_text()
        assert "<title>&lt;b&gt;pairs" in written and "<b>pairs" not in written
    with pytest.raises(OSError):
        fetch(page.url)
    with wr.dashboard(again) as page:
        page.save(tmp_path / "later.html")
        assert page.history.state == "stopped" and page.history.batches == 1, "all of it, though just begun"


def test_a_pipeline_serves_its_page_and_leaves_what_a_report_needs(tmp_path):
    file, _ = set_up(tmp_path, "auctions", seconds=60, rate=5, files=2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run(file, "--ui", port)
        assert ran.exit_code == 2 and f"port {port} of 127.0.0.1 is in use" in ran.output
    seen: list[str] = []

    def look() -> None:
        while not seen:
            try:
                seen.append(fetch(f"http://127.0.0.1:{port}/data"))
            except OSError:
                time.sleep(0.05)

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    (tmp_path / "runs").mkdir()
    ran = run(file, "--ui", port, "--metrics", tmp_path / "runs")
    assert ran.exit_code == 0 and f"page at http://127.0.0.1:{port}/" in ran.output, ran.output
    looking.join(10)
    assert json.loads(seen[0])["run"]["name"] == "hot_bids"
    made = CliRunner().invoke(app, ["report", str(tmp_path / "runs")])
    assert made.exit_code == 0 and "2 batches of hot_bids" in made.output
    assert "when a arrives" in (tmp_path / "runs" / "metrics.html").read_text()


def test_a_page_is_for_streams(tmp_path):
    file, _ = set_up(tmp_path, "auctions", seconds=20, rate=5, files=1)
    ran = run(file, "--ui", "0", "--set", "run.trigger=batch")
    assert ran.exit_code == 2 and "--ui: needs a stream" in ran.output
    ran = run(file, "--ui", "70000")
    assert ran.exit_code == 2 and "to 65535, got 70000" in ran.output
    (tmp_path / "one.sql").write_text("select 1")
    ran = CliRunner().invoke(app, ["sql", str(tmp_path / "one.sql"), "--ui", "0"])
    assert ran.exit_code == 2 and "--metrics and --ui are for streams; add --stream" in ran.output
