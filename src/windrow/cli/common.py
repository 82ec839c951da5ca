"""Exit codes and output that all commands share.

Exit code 0: success. 1: a result, a check or a run failed. 2: the command, a file or a name was wrong, and
nothing was done. Errors go to standard error as one sentence. With `--json`, standard output is JSON only.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from windrow.errors import DataError, QueryError, WindrowError
from windrow.redaction import redacted

FAILED, USAGE_ERROR = 1, 2
CODES = (
    "[dim]Exit codes:[/dim] 0 success; 1 a result, a check or a run failed; 2 wrong usage or input. "
    "Errors go to standard error; with --json, standard output is JSON only."
)
PATH_ERRORS = (FileNotFoundError, NotADirectoryError, IsADirectoryError, FileExistsError, PermissionError)
"""Errors of a wrong path, not of the machine."""

AsJson = Annotated[bool, typer.Option("--json", help="Print only JSON to standard output.")]

MasterOption = Annotated[
    str | None,
    typer.Option(
        help="Spark's master: spark://host:7077, sc://host:15002, local[4]. By default all local cores."
    ),
]


class CommandGroup(TyperGroup):
    """Commands that report expected errors as one sentence and an exit code, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except WindrowError as error:
            print_error(error)
            raise typer.Exit(exit_code(error)) from None
        except OSError as error:
            if error.filename is None:
                raise
            typer.echo(redacted(f"{error.filename}: {error.strerror}"), err=True)
            raise typer.Exit(USAGE_ERROR if isinstance(error, PATH_ERRORS) else FAILED) from None


def require_lab() -> None:
    """The experiments, and the data of some benchmarks, are a package of their own."""
    if find_spec("windrow_lab") is None:
        raise QueryError(
            "lab: not installed; `pip install windrow-lab` brings the experiments and their data"
        )


def exit_code(error: WindrowError) -> int:
    """Wrong input, or a failure."""
    return USAGE_ERROR if isinstance(error, QueryError | DataError) else FAILED


def print_error(error: WindrowError) -> None:
    """Print the error and its notes to standard error."""
    kind = "" if type(error).__name__ == "RunError" else f"{type(error).__name__}: "
    typer.echo(f"{kind}{error}", err=True)
    for note in getattr(error, "__notes__", ()):
        typer.echo(note, err=True)


def output(as_json: bool) -> Console:
    """The console for messages: standard error if standard output is JSON."""
    return Console(stderr=as_json)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False))
