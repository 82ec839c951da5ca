"""`windrow sql`: what it prints, writes and refuses, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_tools import Stream, rows, spark
from windrow.cli import app

TEXT = """
CREATE STREAM "left" (id BIGINT, ts TIMESTAMP, k BIGINT, x DOUBLE, s STRING) TIME ts
    FROM (format = 'parquet', path = 'left');
CREATE STREAM "right" TIME ts FROM (format = 'parquet', path = 'right');
SELECT a.id AS a, b.id AS b FROM "left" a, "right" b WHERE a.k = b.k AND b.x > least_x WINDOW 1 SECOND
"""


def run(*arguments: str | Path, given: str | None = None):
    spark()  # commands take the session of the process
    return CliRunner().invoke(app, ["sql", *map(str, arguments)], input=given)


@pytest.fixture
def file(tmp_path) -> Path:
    Stream(tmp_path / "left").put(rows(1, 100))
    Stream(tmp_path / "right").put(rows(2, 100))
    path = tmp_path / "pairs.sql"
    path.write_text(TEXT)
    return path


def test_help_has_examples():
    told = run("--help").output
    assert "windrow sql hot.sql --check" in told and "--stream" in told


def test_it_checks_prints_and_writes(file, tmp_path):
    checked = run(file, "--check", "-p", "least_x=2")
    assert checked.exit_code == 0, checked.output
    assert "stream left: parquet" in checked.output and "b.x > 2" in checked.output
    assert not (tmp_path / "found").exists()

    lines = run(file, "--json", "--limit", "1000", "-p", "least_x=2").output.splitlines()
    pairs = {(row["a"], row["b"]) for row in map(json.loads, lines)}
    assert len(pairs) == len(lines) > 5

    shown = run(file, "--limit", "2", "-p", "least_x=2").output.splitlines()
    assert len(shown) == 4 and "first 2 rows" in shown[-1]

    wrote = run(file, "--out", tmp_path / "found", "-p", "least_x=2")
    assert f"{len(pairs)} rows written" in wrote.output.replace("\n", " "), wrote.output
    assert {tuple(row) for row in spark().read.parquet(str(tmp_path / "found")).collect()} == pairs
    again = run(file, "--out", tmp_path / "found", "-p", "least_x=2")
    assert again.exit_code == 2 and "--out" in again.output

    streamed = ["--stream", "--checkpoint", tmp_path / "c", "--trigger", "available now", "-p", "least_x=2"]
    ran = run(file, "--out", tmp_path / "results", *streamed)
    assert ran.exit_code == 0 and "done: 1 batches" in ran.output, ran.output
    assert {tuple(row) for row in spark().read.parquet(str(tmp_path / "results")).collect()} == pairs


def test_standard_input_and_plans(file, tmp_path):
    text = TEXT.replace("'left'", f"'{tmp_path}/left'").replace("'right'", f"'{tmp_path}/right'")
    explained = run("-", "-p", "least_x=2", given=text.replace("SELECT", "EXPLAIN SELECT"))
    assert explained.exit_code == 0, explained.output
    assert "Memory for an exact answer" in explained.output
    plans = run("-", "--json", "-p", "least_x=2", given=text.replace("SELECT", "EXPLAIN SELECT")).stdout
    assert json.loads(plans)[0]["plan"]["memory"]["exact_bytes"] > 0
    (checked,) = json.loads(run("-", "--check", "--json", "-p", "least_x=2", given=text).stdout)
    assert checked["join"] == ["a.k = b.k"] and checked["filter"] == ["b.x > 2"]


def test_what_is_refused(file, tmp_path):
    def told(*arguments: str | Path) -> str:
        ran = run(*arguments)
        assert ran.exit_code == 2, ran.output
        return ran.output

    assert "cannot be read" in told(tmp_path / "none.sql")
    assert "--stream: needs --out" in told(file, "--stream")
    assert "add --stream" in told(file, "--checkpoint", "c")
    assert "expected NAME=VALUE" in told(file, "-p", "least_x")
    assert "--limit" in told(file, "--limit", "0")
    assert "unknown column 'least_x'" in told(file)
    (tmp_path / "binary.sql").write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8 text" in told(tmp_path / "binary.sql")
    broken = tmp_path / "broken.sql"
    broken.write_text("SELECT a.x\nFROM a [RANGE], b")
    message = told(broken)
    assert f"{broken}, line 2, column 14: expected a time" in message.replace("\n", " ").replace("  ", " ")
    assert message.splitlines()[-1].endswith("^")
    broken.write_text("CREATE STREAM a FROM (format = 'rate')")
    assert "there is no SELECT" in told(broken)
    twice = TEXT.replace("b.id AS b", "a.id AS b, a.id + 1").replace("least_x", "2")
    broken.write_text(twice.replace("a.id + 1", "upper(a.ts, 3)"))
    assert "QueryError" in told(broken)
