"""`windrow explain` of pipelines and SQL: from samples of files, from stated rates, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_tools import Stream, rows, spark
from test_explain import Page
from windrow.cli import app

PIPELINE = """
[streams.one]
format = "parquet"
path = "left"
time = "ts"
within = "4 seconds"
filter = "k is not null"

[streams.two]
format = "parquet"
path = "right"
time = "ts"
within = "2 seconds"
select = ["id", "ts", "k as key"]

[join]
on = "one.k = two.key"
partitions = 2
memory = "1 MiB"
deadline = "2 seconds"

[sink]
format = "parquet"
path = "out"

[run]
name = "pairs <b>"
checkpoint = "checkpoint"
trigger = "10 seconds"
"""
SQL = """
CREATE STREAM lefts TIME ts FROM (format = 'parquet', path = 'left');
CREATE STREAM rights TIME ts FROM (format = 'parquet', path = 'right');
SELECT a.id AS a FROM lefts a, rights b WHERE a.k = b.k AND b.x > least WINDOW 2 SECONDS;
SELECT a.id AS a FROM lefts a, rights b WHERE a.k = b.k WINDOW 1 SECOND
"""
FILES = 6


def run(*arguments: str | Path, given: str | None = None):
    spark()  # commands take the session of the process
    return CliRunner().invoke(app, ["explain", *map(str, arguments)], input=given)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("explain")
    left, right = Stream(directory / "left"), Stream(directory / "right")
    for part in range(FILES):
        left.put(rows(1 + part, 100, 10 * part, 10))
        right.put(rows(11 + part, 50, 10 * part, 10))
    (directory / "pairs.toml").write_text(PIPELINE)
    (directory / "pairs.sql").write_text(SQL)
    return directory


def test_a_pipeline_is_learned_from_its_files_and_drawn(place, tmp_path):
    ran = run(place / "pairs.toml", "--html", tmp_path / "plan.html")
    assert ran.exit_code == 0, ran.output
    assert f"from {FILES} of {FILES} files" in ran.stderr and "written to" in ran.stderr and not ran.stdout
    page = Page((tmp_path / "plan.html").read_text())
    assert "pairs <b>" in page.text and "2 partitions" in page.text and "Learned from" in page.text
    told = run(place / "pairs.toml").stdout
    assert "Recall against memory:" in told and "Partitioning:" in told and "leaves time for 100 %" in told


def test_it_reads_no_more_files_than_it_takes(place):
    ran = run(place / "pairs.toml", "--sample-rows", "60", "--json")
    assert f"read 60 rows from 4 of {FILES} files of one" in ran.stderr, ran.stderr
    (found,) = json.loads(ran.stdout)
    assert found["dry_run"]["rows_read"] == {"one": 60, "two": 60}
    assert 5 < found["streams"]["one"]["rows_per_second"] < 15
    assert found["time"]["curve"]["seconds_per_second"] > 0


def test_stated_rates_do_without_data(place, untried):
    stated = ["--sample-rows", "0", "--rate", "one=100", "--rate", "two=50"]
    (found,) = json.loads(run(place / "pairs.toml", "--json", *stated).stdout)
    assert found["dry_run"] is None and found["streams"]["one"]["window_rows"] == 400
    few = ["--distinct", "one.k=10", "--distinct", "two.key=10", "--set", "join.memory='100 rows'"]
    (less,) = json.loads(run(place / "pairs.toml", "--json", *stated, *few).stdout)
    assert less["results_per_second"] == pytest.approx((100 * 100 + 50 * 400) / 10)
    assert less["memory"]["limit"] == {"rows": 100}
    (fast,) = json.loads(run(place / "pairs.toml", "--json", "--rate", "one=100000").stdout)
    assert fast["dry_run"] and fast["streams"]["one"]["rows_per_second"] == 100_000


def test_statements_are_explained_by_the_names_of_their_streams(place, untried):
    ran = run(place / "pairs.sql", "-p", "least=2", "--rate", "lefts=500", "--json", "--set", "partitions=2")
    assert ran.exit_code == 0, ran.output
    one, two = json.loads(ran.stdout)
    assert one["streams"]["a"]["rows_per_second"] == two["streams"]["a"]["rows_per_second"] == 500
    assert two["partitioning"][-1] == "may share its join with query1"
    endless = "CREATE STREAM r TIME timestamp FROM (format = 'rate', rowsPerSecond = 7);"
    asked = "SELECT a.value FROM r a, r b WHERE a.value = b.value WINDOW 1 MINUTE"
    (found,) = json.loads(run("-", "--json", given=f"{endless} {asked}").stdout)
    assert found["streams"]["b"]["rows_per_second"] == 7 and found["dry_run"] is None


def test_what_is_refused(place, tmp_path):
    def told(*arguments: str | Path, given: str | None = None) -> str:
        ran = run(*arguments, given=given)
        assert ran.exit_code == 2 and not ran.stdout, ran.output
        return ran.stderr

    assert "unknown stream 'on'. Did you mean 'one'?" in told(place / "pairs.toml", "--rate", "on=5")
    assert "expected NAME=NUMBER" in told(place / "pairs.toml", "--rate", "one=fast")
    assert "--set: unknown setting 'join.late'. Did you mean 'late'?" in told(
        place / "pairs.sql", "--set", "join.late=1s"
    )
    assert "--set: late: expected a duration" in told(place / "pairs.sql", "--set", "late=1")
    assert "is for SQL" in told(place / "pairs.toml", "-p", "x=1")
    assert "does not exist" in told(place / "pairs.toml", "--html", tmp_path / "no" / "page.html")
    assert "unknown column 'least'" in told(place / "pairs.sql")
    assert "there is no SELECT" in told("-", given="CREATE STREAM a FROM (format = 'rate')")
    (place / "none").mkdir(exist_ok=True)
    empty = run(
        place / "pairs.toml",
        "--set",
        f"streams.one.path={place / 'none'}",
        "--set",
        "streams.one.schema=k long, ts timestamp, id long",
    )
    assert empty.exit_code == 2 and "no rows of stream 'one' to learn from" in empty.stderr, empty.output
