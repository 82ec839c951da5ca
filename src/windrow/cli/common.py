"""Exit codes and output that all commands share.

Exit code 0: fine. 1: an answer, a check or a run is not fine. 2: the command, a file or a name was wrong, and
nothing was done. Errors go to standard error as a sentence; with `--json` standard output has JSON and
nothing else.
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

FINE, FAILED, USAGE_ERROR = 0, 1, 2
CODES = (
    "[dim]Exit codes:[/dim] 0 fine; 1 an answer, a check or a run is not fine; 2 wrong usage or input. "
    "Errors go to standard error; with --json, standard output is JSON and nothing else."
)
PATH_ERRORS = (FileNotFoundError, NotADirectoryError, IsADirectoryError, FileExistsError, PermissionError)
"""A path that was given is wrong, not the machine."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, to standard output.")]

MasterOption = Annotated[
    str | None, typer.Option(help="Spark's master: spark://host:7077, local[4]. By default all cores here.")
]


class CommandGroup(TyperGroup):
    """A group whose commands end with a sentence and a code when a user's mistake is met."""

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
    """What was asked is wrong, or what came of it."""
    return USAGE_ERROR if isinstance(error, QueryError | DataError) else FAILED


def print_error(error: WindrowError) -> None:
    """As a sentence, on standard error, with the notes it was given below."""
    kind = "" if type(error).__name__ == "RunError" else f"{type(error).__name__}: "
    typer.echo(f"{kind}{error}", err=True)
    for note in getattr(error, "__notes__", ()):
        typer.echo(note, err=True)


def output(as_json: bool) -> Console:
    """Where a command talks: beside its JSON, if that is what it prints."""
    return Console(stderr=as_json)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False))
