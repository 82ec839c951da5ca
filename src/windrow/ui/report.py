"""The page of a run that was recorded, as one HTML file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from windrow.errors import DataError, QueryError
from windrow.ui.assets import standalone
from windrow.ui.history import History

METRICS = "metrics.jsonl"
"""In a directory of a run."""
SCRIPTS = ("panels.js", "page.js")


def metrics_file(path: Path) -> Path:
    """Where metrics are written or read: a directory holds them under one name. A path that does not exist is
    a directory if its name has no suffix."""
    return path / METRICS if path.is_dir() or not (path.exists() or path.suffix) else path


def read_run(path: Path) -> History:
    """What was recorded by `--metrics`.

    Parameters
    ----------
    path
        The file, or a directory with `metrics.jsonl` in it.
    """
    try:
        if not path.exists():
            raise QueryError(f"report: {path} does not exist; `windrow run FILE --metrics {path}` writes it")
        file = metrics_file(path)
        if not file.exists():
            raise QueryError(
                f"report: {path} holds no {METRICS}; `windrow run FILE --metrics {path}` puts it there"
            )
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise QueryError(f"report: {error.filename} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise QueryError(f"report: {file} is no text in UTF-8; expected a JSON document a line") from None
    history = History(file.stem if file.name != METRICS else path.resolve().name)
    for number, line in enumerate(lines, 1):
        if line.strip():
            _add(history, line, f"report: {file}, line {number}", last=number == len(lines))
    if not history.batches:
        raise QueryError(f"report: {file} is empty: no batch of the run had ended")
    if len(history.joins) == 1:
        (history.name,) = history.joins
    history.end("recorded")
    return history


def _add(history: History, line: str, where: str, last: bool) -> None:
    try:
        shown: Any = json.loads(line)
    except json.JSONDecodeError as error:
        if last and history.batches:
            return  # A run that was killed while it wrote: all before it counts.
        raise DataError(f"{where}: no JSON: {error.msg} at column {error.colno}") from None
    try:
        history.add(shown)
    except DataError as error:
        raise DataError(f"{where}: {error}; expected what `windrow run --metrics` writes") from None


def page(history: History) -> str:
    """The page as one file: the text of it."""
    return standalone(f"{history.name} · windrow", SCRIPTS, history.look())


def write_page(history: History, out: Path) -> Path:
    """Writes it."""
    try:
        out.write_text(page(history), encoding="utf-8")
    except OSError as error:
        raise QueryError(f"report: {out} cannot be written: {error.strerror}") from None
    return out
