"""The dashboard of a recorded run as one HTML file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windrow.errors import DataError, Option, QueryError, located
from windrow.ui.assets import standalone
from windrow.ui.history import History

METRICS = "metrics.jsonl"
"""Name of the file in a run's directory."""
SCRIPTS = ("panels.js", "page.js")
REPORT = Option(section="report")


@dataclass(frozen=True)
class LineLocation:
    """A line of a recorded run."""

    file: Path
    line: int

    def show(self, place: Option | None, message: str) -> str:
        return f"{REPORT}: {self.file}, line {self.line}: {message}"


def metrics_file(path: Path) -> Path:
    """The file of a run's metrics, from the file or its directory. A path that does not exist is a directory
    if its name has no suffix."""
    return path / METRICS if path.is_dir() or not (path.exists() or path.suffix) else path


def read_run(path: Path) -> History:
    """Read a run that `--metrics` recorded.

    Parameters
    ----------
    path
        The file, or a directory with `metrics.jsonl` in it.
    """
    try:
        if not path.exists():
            raise QueryError(f"{path} does not exist; `windrow run FILE --metrics {path}` writes it", REPORT)
        file = metrics_file(path)
        if not file.exists():
            raise QueryError(
                f"{path} holds no {METRICS}; `windrow run FILE --metrics {path}` writes it", REPORT
            )
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise QueryError(f"{error.filename} cannot be read: {error.strerror}", REPORT) from None
    except UnicodeDecodeError:
        raise QueryError(f"{file} is not UTF-8 text; expected one JSON document per line", REPORT) from None
    history = History(file.stem if file.name != METRICS else path.resolve().name)
    for number, line in enumerate(lines, 1):
        if line.strip():
            _add(history, line, LineLocation(file, number), last=number == len(lines))
    if not history.batches:
        raise QueryError(f"{file} is empty: no batch of the run had ended", REPORT)
    if len(history.joins) == 1:
        (history.name,) = history.joins
    history.end("recorded")
    return history


def _add(history: History, line: str, location: LineLocation, last: bool) -> None:
    try:
        report: Any = json.loads(line)
    except json.JSONDecodeError as error:
        if last and history.batches:
            return  # The run was killed while writing this line. The lines before it count.
        raise DataError(f"not JSON: {error.msg} at column {error.colno}", location=location) from None
    with located(lambda place: location):
        history.add(report)


def page(history: History) -> str:
    """The self-contained page, as text."""
    return standalone(f"{history.name} · windrow", SCRIPTS, history.page_data())


def write_page(history: History, out: Path) -> Path:
    """Write the page to a file."""
    try:
        out.write_text(page(history), encoding="utf-8")
    except OSError as error:
        raise QueryError(f"{out} cannot be written: {error.strerror}", REPORT) from None
    return out
