"""Exit codes, options and output that commands share.

Exit code 0: success. 1: a result, a check or a run failed. 2: the command, a file or a name was wrong, and
nothing was done. Errors go to standard error as one sentence. With `--json`, standard output is JSON only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from windrow.errors import DataError, Option, QueryError, WindrowError
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
CoresOption = Annotated[int, typer.Option(min=1, help="Tasks at the same time.")]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", "-o", help="Write a page, one HTML file.", metavar="PAGE")
]
UiOption = Annotated[
    int | None,
    typer.Option(
        "--ui",
        help="Serve a dashboard on this port (0: any free port), and Prometheus metrics at /metrics.",
        metavar="PORT",
    ),
]
UiHostOption = Annotated[
    str,
    typer.Option(
        "--ui-host",
        help="Address of the dashboard. With 0.0.0.0 everyone who reaches this machine sees it: no password.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Replace a setting: SECTION.KEY of a pipeline, or a name in WITH of SQL.",
        metavar="NAME=VALUE",
    ),
]
ParameterOption = Annotated[
    list[str] | None,
    typer.Option("--parameter", "-p", help="A value for a name in the SQL text.", metavar="NAME=VALUE"),
]


class CommandGroup(TyperGroup):
    """Commands that report expected errors as one sentence and an exit code, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except WindrowError as error:
            print_error(error)
            wrong_input = isinstance(error, QueryError | DataError)
            raise typer.Exit(USAGE_ERROR if wrong_input else FAILED) from None
        except OSError as error:
            if error.filename is None:
                raise
            typer.echo(redacted(f"{error.filename}: {error.strerror}"), err=True)
            raise typer.Exit(USAGE_ERROR if isinstance(error, PATH_ERRORS) else FAILED) from None


def command_group(help: str) -> typer.Typer:
    """Commands with the exit codes and errors of all commands."""
    return typer.Typer(
        cls=CommandGroup,
        help=help,
        no_args_is_help=True,
        epilog=CODES,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
    )


def require_lab() -> None:
    """The experiments, and the data of some benchmarks, are a package of their own."""
    if find_spec("windrow_lab") is None:
        remedy = "`pip install windrow-lab` brings the experiments and their data"
        raise QueryError(f"not installed; {remedy}", Option(section="lab"))


def print_error(error: WindrowError) -> None:
    """Print the error and its notes to standard error."""
    kind = "" if type(error).__name__ == "RunError" else f"{type(error).__name__}: "
    typer.echo(f"{kind}{error}", err=True)
    for note in getattr(error, "__notes__", ()):
        typer.echo(note, err=True)


def output(as_json: bool) -> Console:
    """The console for messages: standard error if standard output is JSON. In a file nothing is cut."""
    found = Console(stderr=as_json)
    if not found.is_terminal:
        found.width = max(found.width, 200)
    return found


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False))


def report(found: Sequence[Any], as_json: bool, show: Callable[[Any], object], nothing: str) -> None:
    """Print dataclasses, as JSON or each as `show` renders it; without any, `nothing` is a usage error."""
    if as_json:
        print_json([asdict(each) for each in found])
    for each in () if as_json else found:
        Console().print(show(each), highlight=False, soft_wrap=True)
    if not found:
        typer.echo(nothing, err=True)
        raise typer.Exit(USAGE_ERROR)


def pairs(option: str, given: Iterable[str] | None) -> dict[str, str]:
    """Values of an option NAME=VALUE that may be repeated."""
    found = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise QueryError(f"expected NAME=VALUE, got {each!r}", Option(option))
        found[name.strip()] = value
    return found
