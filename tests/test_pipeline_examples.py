"""The three examples on a real Spark, against DuckDB and the oracle; as streams, as a batch, cut short."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from pipelines import COMMAND, in_microseconds, run, set_up
from windrow.cli import app
from windrow.spark.session import local_session
from windrow.testing.oracle import SECOND, Term, admit, expected

PATIENCE = 120
HOT_BIDS = """
    select a.id, b.bidder, b.price from auctions a join bids b
    on a.id = b.auction_id and b.price >= 1.5 * a.reserve
    where b.bid_at - a.opened_at <= 120e6 and a.opened_at - b.bid_at <= 10e6
"""


@pytest.fixture(scope="module")
def spark():
    return local_session(2, "windrow tests")


def over(tables: dict[str, pa.Table], sql: str) -> list[tuple]:
    with duckdb.connect() as database:
        for name, table in tables.items():
            database.register(name, table)
        return database.sql(sql).fetchall()


def hot_bids(parts) -> Counter:
    tables = {name: in_microseconds(pa.concat_tables(cut)) for name, cut in parts.items()}
    found = Counter(over(tables, HOT_BIDS))
    assert len(found) > 20
    return found


def written(spark, path: Path) -> Counter:
    """What a reader of the sink sees."""
    rows = spark.read.parquet(str(path)).select("auction", "bidder", "price").collect()
    return Counter(tuple(row) for row in rows)


def read_metrics(path: Path, join: str) -> list[dict]:
    return [json.loads(line)["joins"][join] for line in path.read_text().splitlines()]


def check_memory_is_explained(file: Path, joins: list[dict]) -> None:
    """What the windows of all partitions held at most, within 10 %."""
    told = CliRunner().invoke(app, ["explain", str(file), "--json"])
    assert told.exit_code == 0, told.output
    [explained] = json.loads(told.stdout)
    held = max(join["memory_bytes"] for join in joins)
    assert explained["memory"]["exact_bytes"] == pytest.approx(held, rel=0.1)


def test_auctions_as_a_stream_and_as_a_batch(spark, tmp_path, untried):
    file, parts = set_up(tmp_path, "auctions", seconds=120, rate=10, files=3)
    ran = run(file, "--metrics", tmp_path / "made" / "metrics.jsonl", "--per-partition")
    assert ran.exit_code == 0, ran.output
    assert written(spark, tmp_path / "results/auctions") == hot_bids(parts)

    joins = read_metrics(tmp_path / "made" / "metrics.jsonl", "hot_bids")
    assert len(joins) == 3
    assert sum(join["results"] for join in joins) == hot_bids(parts).total()
    assert sum(join["rows_in"] for join in joins) == sum(t.num_rows for cut in parts.values() for t in cut)
    assert sum(p["rows_in"] for p in joins[0]["partitions"]) == joins[0]["rows_in"]
    assert (
        "hot_bids batch 2" in ran.output
        and "  partition 1: " in ran.output
        and "done: 3 batches" in ran.output
    )

    check_memory_is_explained(file, joins)
    again = run(file, "--quiet")
    assert (again.exit_code, again.output) == (0, "")
    batch = run(file, "--set", "run.trigger=batch", "--set", f"sink.path={tmp_path / 'batch'}")
    assert batch.exit_code == 0, batch.output
    assert f"{hot_bids(parts).total():,} rows written" in batch.output
    assert written(spark, tmp_path / "batch") == hot_bids(parts)


def test_queries_of_a_pipeline_share_its_join(spark, tmp_path, untried):
    file, parts = set_up(tmp_path, "auctions", seconds=120, rate=10, files=3)
    queries = (
        "[queries.all]\n[queries.dear]\nwhere = 'b.price > 100'\n[queries.none]\nwithin = '1 us'\n[join]\n"
    )
    settings = "deadline = '1 us'\nschedule = 'swf'\nmax_backlog = 100000\n"
    file.write_text(file.read_text().replace("[join]\n", queries + settings))
    select = "sink.select=['query', 'a.id as auction', 'b.bidder', 'b.price']"
    checked = run(file, "--set", select, "--check")
    assert checked.exit_code == 0 and "for 3 queries" in checked.output, checked.output
    for change in ("run.trigger=available now", "join.deadline=1 hour"):
        ran = run(file, "--set", select, "--set", change, "--metrics", tmp_path / "metrics.jsonl")
        assert ran.exit_code == 0, ran.output
    joins = read_metrics(tmp_path / "metrics.jsonl", "hot_bids")
    assert any(q["backlog_rows"] for join in joins for q in join["queries"].values())
    every, path = hot_bids(parts), tmp_path / "batch"
    batch = run(file, "--set", select, "--set", "run.trigger=batch", "--set", f"sink.path={path}")
    assert batch.exit_code == 0, batch.output
    columns = ("query", "auction", "bidder", "price")
    rows = Counter(tuple(row) for row in spark.read.parquet(str(path)).select(*columns).collect())
    assert rows == Counter({("all", *row): n for row, n in every.items()}) + Counter(
        {("dear", *row): n for row, n in every.items() if row[2] > 100}
    )
    assert written(spark, tmp_path / "results/auctions") <= written(spark, path)


def test_sensors_in_a_band_are_counted_per_minute(spark, tmp_path, untried):
    file, parts = set_up(tmp_path, "sensors", seconds=240, rate=8, files=3)
    ran = run(file, "--metrics", tmp_path / "metrics.jsonl")
    assert ran.exit_code == 0, ran.output
    columns = ("window_start", "window_end", "sensor", "pairs", "fahrenheit")
    rows = spark.read.parquet(str(tmp_path / "results/sensors")).select(*columns).collect()
    tables = {hall: in_microseconds(pa.concat_tables(cut)) for hall, cut in parts.items()}
    want = over(
        tables,
        """
        with pairs as (
            select a.sensor, greatest(a.at, b.at) as t, b.temperature * 1.8 + 32 as fahrenheit
            from north a join south b on abs(a.temperature - b.temperature) <= 0.5 and abs(a.at - b.at) <= 5e6
        ), windows as (
            select *, (t // 30000000 - k) * 30000000 as starts from pairs, (select unnest([0, 1]) as k)
        )
        select starts, starts + 60000000, sensor, count(*), round(avg(fahrenheit), 6) from windows
        group by all having starts + 60000000 <= (select max(t) - 10e6 from pairs)
    """,
    )
    assert len(want) > 40
    got = [(micros(r[0]), micros(r[1]), r[2], r[3], round(r[4], 6)) for r in rows]
    assert sorted(got) == sorted(want)
    check_memory_is_explained(file, read_metrics(tmp_path / "metrics.jsonl", "sensors"))


def micros(at) -> int:
    """Spark hands out local times."""
    return round(at.timestamp() * 1e6)


def test_clicks_join_three_ways_and_count_what_is_late(spark, tmp_path, untried):
    file, parts = set_up(tmp_path, "clicks", seconds=240, rate=3, files=4)
    ran = run(file)
    assert ran.exit_code == 0, ran.output
    rows = spark.read.json(str(tmp_path / "results/clicks")).select("impression", "click", "value").collect()

    names = {"i": "impressions", "c": "clicks", "v": "conversions"}
    calls = [
        {
            alias: [
                row | {"ts": row["at"], "id": row.get("id", row.get("value"))} for row in part.to_pylist()
            ]
            for alias, part in ((alias, in_microseconds(parts[name][n])) for alias, name in names.items())
        }
        for n in range(4)
    ]
    admitted = admit(calls, late=30 * SECOND, idle=600 * SECOND)
    terms = [
        Term("", ("i", "c"), lambda r: r["i"]["id"] == r["c"]["impression_id"]),
        Term("", ("c", "v"), lambda r: r["c"]["id"] == r["v"]["click_id"]),
    ]
    windows = {"i": 600 * SECOND, "c": 300 * SECOND, "v": SECOND}
    want = expected({alias: admitted.rows(alias) for alias in names}, windows, terms)
    assert want.total() > 20 and admitted.late["c"] > 3
    assert Counter(tuple(row) for row in rows) == want

    joins = read_metrics(tmp_path / "clicks-metrics.jsonl", "clicks")
    assert sum(join["rows_late"] for join in joins) == admitted.late.total()
    check_memory_is_explained(file, joins)
    assert f"lost: {admitted.late.total()} late" in ran.output


@pytest.mark.faults
def test_killed_and_terminated_in_mid_run_every_result_comes_exactly_once(spark, tmp_path):
    file, parts = set_up(tmp_path, "auctions", seconds=160, rate=15, files=8)
    checkpoint = tmp_path / "checkpoints/auctions"

    killed = start(file, tmp_path)
    wait_for(checkpoint / "offsets/2", killed)
    time.sleep(0.3)
    os.killpg(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL

    terminated = start(file, tmp_path)
    wait_for(checkpoint / "commits/3", terminated)
    terminated.send_signal(signal.SIGTERM)
    output, _ = terminated.communicate(timeout=PATIENCE)
    assert terminated.returncode == 0, output
    assert "stopped: " in output

    if not (checkpoint / "commits/7").exists():  # a fast machine may have come to the end meanwhile
        refused = run(file, "--set", "join.how=left", "--quiet")
        assert refused.exit_code == 1
        assert refused.output.startswith("StateError: ") and refused.output.count("\n") == 1, refused.output

    ended = run(file, "--set", "join.partitions=3")
    assert ended.exit_code == 0, ended.output
    assert written(spark, tmp_path / "results/auctions") == hot_bids(parts)


def start(file: Path, directory: Path) -> subprocess.Popen:
    """`windrow run` in a process group of its own, Java and Python workers included."""
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "run", str(file), "--master", "local[2]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        cwd=directory,
    )


def wait_for(path: Path, process: subprocess.Popen) -> None:
    until = time.monotonic() + PATIENCE
    while not path.exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until, f"{path} did not come"
        time.sleep(0.01)
