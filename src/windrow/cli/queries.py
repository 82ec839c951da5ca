"""`windrow queries`: add, remove and list the queries of a running shared join."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from windrow.cli.common import AsJson, command_group, report
from windrow.draw.terminal import table
from windrow.engine.row_windows import NEVER
from windrow.errors import Option, QueryError
from windrow.model.units import format_time
from windrow.redaction import redacted
from windrow.state.queries import QueryListing, list_queries, send

app = command_group(
    """Add, remove and list the queries of a shared join.

    [dim]Examples:[/dim]
      windrow queries add /data/control hourly --within "1 hour"
      windrow queries list /data/state
    """
)
Directory = Annotated[
    Path, typer.Argument(help="The directory that the join's control stream reads.", metavar="CONTROL_DIR")
]
Name = Annotated[str, typer.Argument(help="The query's name.")]
At = Annotated[
    str | None,
    typer.Option(help="Event time of the change, such as 2026-01-31T12:00:00Z; now by default."),
]


@app.command()
def add(
    control: Directory,
    name: Name,
    within: Annotated[list[str], typer.Option(help="'1 hour' for all streams, or alias=window, repeated.")],
    at: At = None,
    where: Annotated[str | None, typer.Option(help="A SQL condition on results.")] = None,
    select: Annotated[
        list[str] | None, typer.Option(help="An expression of the select list, repeated.")
    ] = None,
    like: Annotated[
        str | None, typer.Option(help="A query whose join it shares, if there are several.")
    ] = None,
) -> None:
    """Add a query. It starts with the rows in the windows. If it is refused, the metrics report why.

    [dim]Example:[/dim] windrow queries add /data/control hourly --within "1 hour" --where "b.price > 10"
    """
    query: dict[str, Any] = {"name": name, "within": _windows(within)}
    query |= {k: v for k, v in (("where", where), ("select", select), ("like", like)) if v}
    _send(control, at, {"add": query})


@app.command()
def remove(control: Directory, name: Name, at: At = None) -> None:
    """Remove a query.

    [dim]Example:[/dim] windrow queries remove /data/control hourly --at 2026-01-31T12:00:00Z
    """
    _send(control, at, {"remove": name})


@app.command("list")
def list_(
    path: Annotated[str, typer.Argument(help="The state path or URL of the query.", metavar="STATE")],
    as_json: AsJson = False,
) -> None:
    """List the queries as of the last batch.

    Exit code 1 if the state cannot be read, 2 if there are no queries.

    [dim]Examples:[/dim]
      windrow queries list /data/state
      windrow queries list /data/state --json
    """
    found = list_queries(path)
    if found and not as_json:
        Console().print(_listed(found))
    else:
        report(found, as_json, str, f"There are no shared queries in {redacted(path)}.")


def _send(control: Path, at: str | None, change: dict[str, Any]) -> None:
    typer.echo(f"sent {send(control, {'at': at, **change} if at else change)}")


def _windows(given: list[str]) -> str | dict[str, str]:
    """
    >>> _windows(["1 hour"]), _windows(["a=5 s", "b=1 min"])
    ('1 hour', {'a': '5 s', 'b': '1 min'})
    """
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    wrong = next((text for text in given if "=" not in text), None)
    if wrong is not None:
        raise QueryError(f"expected alias=window for each stream, got {wrong!r}", Option("within"))
    return {alias.strip(): window.strip() for alias, _, window in (text.partition("=") for text in given)}


def _listed(found: list[QueryListing]) -> Table:
    numbers = ("results", "rows behind")
    columns = ("join", "query", "windows", "where", "select", "from", "until", "complete from", *numbers)
    rows = []
    for q in found:
        complete = "not yet" if q.complete_from == NEVER else format_time(q.complete_from)
        times = (format_time(q.since), format_time(q.until), complete)
        texts = (q.join, q.name, ", ".join(q.within), q.where or "", ", ".join(q.select), *times)
        rows.append((*texts, f"{q.results:,}", f"{q.backlog_rows:,}"))
    return table(columns, rows, right=numbers)
