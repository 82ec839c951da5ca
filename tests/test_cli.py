"""The command line as a user meets it, and what importing the package may cost."""

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

import windrow
from spark_tools import spark
from windrow.cli import app
from windrow.errors import QueryError
from windrow_bench.run import BENCHMARKS, run_benchmarks


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_help_names_every_command():
    told = run("--help").output
    assert all(word in told for word in ("demo", "lab", "bench", "run", "sql"))


def test_version():
    assert run("--version").output.strip() == f"windrow {windrow.__version__}"


def test_demo_is_exact_and_leaves_its_results_and_the_session_it_found(tmp_path, monkeypatch):
    monkeypatch.setattr("windrow.demo.run.FILES", 4)
    session = spark()
    found = run("demo", "--seconds", "30", "--rate", "200", "--json", "--out", str(tmp_path))
    assert found.exit_code == 0, found.output
    assert "exact" in found.stderr and "hottest auctions" in found.stderr
    summary = json.loads(found.stdout)
    assert summary["exact"] is True
    assert [run["true"] <= 1 for run in summary["limited"]] == [True] * 5
    assert pq.read_table(tmp_path / "hot_bids").num_rows > 100
    assert session.range(1).count() == 1


@pytest.mark.parametrize("name", ["equality", "band", "scan", "memory", "harvest"])
def test_benchmarks_check_their_results_and_write_figures(name, tmp_path):
    found = run("bench", name, "--rows", "40000", "--json", "--out", str(tmp_path))
    assert found.exit_code == 0, found.output
    figures = json.loads((tmp_path / f"{name}.json").read_text())["figures"]
    assert figures and json.loads(found.stdout)[name] == figures


def test_memory_per_row_stays_within_forty_bytes_beyond_its_columns():
    figures = BENCHMARKS["memory"][1](200_000, Console(quiet=True))
    assert all(f["beyond payload and predicate"] <= 40 for f in figures), figures


def test_unknown_benchmark_ends_with_a_sentence():
    done = subprocess.run(
        [sys.executable, "-c", "from windrow.cli import main; main()", "bench", "equalty"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.strip().startswith("QueryError: unknown benchmark 'equalty'. Did you mean 'equality'?")


def test_an_unknown_data_set_is_refused_before_any_is_read(tmp_path):
    with pytest.raises(QueryError, match=r"one of \['weather', 'aircraft', .*got 'wether'"):
        run_benchmarks(["coverage"], 180_000, tmp_path, "wether", Console(quiet=True))


def test_import_brings_in_neither_spark_nor_pandas_nor_plots():
    script = (
        "import sys, windrow; print([m for m in ('pyspark', 'pandas', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_documented():
    for name in windrow.__all__:
        assert getattr(windrow, name).__doc__, name
