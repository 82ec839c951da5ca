"""The code on the page about SQL runs, in the order of the page, and says what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import windrow as wr
from spark_tools import spark
from windrow.cli import app

PAGE = Path(__file__).parent.parent / "docs/sql.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_block_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    blocks = BLOCK.findall(page)
    assert page.count("```") == 2 * len(blocks)
    names: dict[str, Any] = {"spark": spark()}
    for kind, text in blocks:
        RUNNERS[kind](text, names, tmp_path)
    assert {kind for kind, _ in blocks} == set(RUNNERS)
    found, results = (spark().read.parquet(str(tmp_path / name)).collect() for name in ("found", "results"))
    assert sorted(found) == sorted(results) and len(found) > 3


def run_python(text: str, names: dict[str, Any], directory: Path) -> None:
    # Spark's own working directory is that of the process when it began.
    exec(text.replace('"data/', f'"{directory}/data/'), names)


def run_sql(text: str, names: dict[str, Any], directory: Path) -> None:
    if "CREATE STREAM" in text:
        (directory / "hot.sql").write_text(text, encoding="utf-8")
        return
    out = wr.sql(text, spark=names["spark"], streams=names["streams"], time="at")
    assert out.count() > 0


def run_console(text: str, names: dict[str, Any], directory: Path) -> None:
    for line in text.splitlines():
        command, *arguments = shlex.split(line)
        assert command == "windrow"
        ran = CliRunner().invoke(app, arguments)
        assert ran.exit_code == 0 and ran.output, (line, ran.output)


def run_text(text: str, names: dict[str, Any], directory: Path) -> None:
    assert text == names["message"] + "\n"


RUNNERS = {"python": run_python, "sql": run_sql, "console": run_console, "text": run_text}
