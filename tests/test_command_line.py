"""Habits of the command line: help with examples, exit codes, errors on standard error, JSON alone."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer.main
from typer.testing import CliRunner

import windrow
from windrow.cli import app
from windrow.cli.common import CODES

DOCS = Path(__file__).parent.parent / "docs/command-line.md"


def walk(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, *path, name)


COMMANDS = list(walk(typer.main.get_command(app)))
LEAVES = [(path, command) for path, command in COMMANDS if not hasattr(command, "commands")]


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(p) or "windrow" for p, _ in COMMANDS])
def test_every_command_has_help_with_an_example_that_parses(path, command):
    told = run(*path, "--help")
    assert told.exit_code == 0
    spelled = " ".join(("windrow", *path))
    examples = [
        line.strip() for line in (command.help or "").splitlines() if line.strip().startswith("windrow ")
    ]
    examples += [
        line.split("[/dim]")[1].strip()
        for line in (command.help or "").splitlines()
        if "[/dim] windrow" in line
    ]
    assert examples, f"{spelled} has no example"
    assert any(each.startswith(spelled) for each in examples)
    assert examples[0].split()[1] in told.output
    if hasattr(command, "commands"):
        assert "Exit codes" in told.output
    for option in command.params:
        assert getattr(option, "help", None) or option.name in ("help", "version"), (
            f"{spelled}: {option.name}"
        )


BAD = {
    ("run",): ["missing.toml"],
    ("sql",): ["missing.sql"],
    ("explain",): ["missing.toml"],
    ("demo",): ["--seconds", "1"],
    ("bench",): ["equalty"],
    ("lab", "list"): ["extra"],
    ("lab", "run"): ["grubjoin-fgi2"],
    ("lab", "report"): ["missing"],
    ("state", "show"): ["missing"],
    ("state", "verify"): ["missing"],
    ("state", "rescale"): ["missing", "--partitions", "2"],
    ("state", "prune"): ["missing", "--older-than", "1 day"],
    ("state", "export"): ["missing", "target"],
    ("state", "late"): ["missing"],
    ("queries", "add"): ["control", "name", "--within", "1 parsec"],
    ("queries", "remove"): ["control", "name", "--at", "noon"],
    ("queries", "list"): ["missing"],
    ("report",): ["missing"],
}


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(p) for p, _ in LEAVES])
def test_bad_input_ends_with_a_sentence_and_code_2(path, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = run(*path, *BAD[path])
    assert ran.exit_code == 2, ran.output
    assert ran.stderr.strip() and not ran.stdout.strip()
    assert "Traceback" not in ran.stderr
    unknown_option = run(*path, "--no-such-option")
    assert unknown_option.exit_code == 2 and not unknown_option.stdout.strip()


def test_what_prints_data_prints_json_and_nothing_else(tmp_path):
    said = {path for path, command in LEAVES if any("--json" in p.opts for p in command.params)}
    expected = {("run",), ("sql",), ("explain",), ("demo",), ("bench",), ("lab", "list"), ("lab", "run")}
    expected |= {("lab", "report"), ("state", "show"), ("state", "verify"), ("state", "late")}
    expected |= {("state", "rescale"), ("state", "prune"), ("state", "export"), ("queries", "list")}
    assert expected <= said
    ran = run("lab", "run", "multijoin-table3", "--quick", "--json", "--out", str(tmp_path))
    assert ran.exit_code == 0 and json.loads(ran.stdout)[0]["holds"] is True
    assert "multijoin-table3" in ran.stderr
    assert {e["experiment"] for e in json.loads(run("lab", "list", "--json").stdout)} > {"grubjoin-fig2"}


def test_paths_that_are_wrong_are_told_without_a_traceback(tmp_path):
    (tmp_path / "file").write_text("")
    ran = run("bench", "harvest", "--out", str(tmp_path / "file"))
    assert ran.exit_code == 2 and ran.stderr.strip().endswith("File exists")
    ran = run("run", "x.toml", "--json")
    assert ran.exit_code == 2 and "--check" in ran.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_there(shell):
    """The script asks the command itself, through this variable."""
    told = _complete(f"source_{shell}", "windrow ", 1)
    assert "_WINDROW_COMPLETE" in told


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("windrow ex", "explain"),
        ("windrow lab run grubjoin-fig2", "grubjoin-fig2"),
        ("windrow bench eq", "equality"),
    ],
)
def test_names_are_completed(line, wanted):
    assert wanted in _complete("complete_bash", line, len(line.split()) - 1).split()


def _complete(instruction: str, line: str, word: int) -> str:
    asked = {"_WINDROW_COMPLETE": instruction, "COMP_WORDS": line, "COMP_CWORD": str(word)}
    told = CliRunner().invoke(app, [], prog_name="windrow", env=asked)
    return told.output


def test_the_page_about_the_command_line_knows_every_command_and_the_codes():
    page = DOCS.read_text(encoding="utf-8")
    for path, _ in LEAVES:
        assert f"windrow {' '.join(path)}" in page, path
    assert "--install-completion" in page
    assert all(f"| {code} |" in page for code in (0, 1, 2))
    assert "0 success" in CODES


def test_the_typed_program_uses_every_public_name():
    """mypy checks it with the rest of the code; here, that nothing public is left out."""
    program = ast.parse((Path(__file__).parent / "typed_use.py").read_text())
    used = {
        n.attr
        for n in ast.walk(program)
        if isinstance(n, ast.Attribute) and getattr(n.value, "id", "") == "wr"
    }
    assert not set(windrow.__all__) - used
