"""`windrow state`: look at stored states, check them, and look after them."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.progress import Progress
from rich.table import Table

from windrow.cli.common import (
    FAILED,
    USAGE_ERROR,
    AsJson,
    command_group,
    print_error,
    print_json,
    report,
)
from windrow.draw.terminal import table
from windrow.errors import Option, QueryError, StateError
from windrow.model.execution import Execution
from windrow.model.units import SECOND, format_duration, parse_duration
from windrow.redaction import redacted
from windrow.state.inspect import JoinState, joins_in
from windrow.state.inspect import show as show_states
from windrow.state.inspect import verify as verify_states
from windrow.state.late_summary import LateSummary, summarise
from windrow.state.prune import gone_queries, remove
from windrow.state.storage import open_storage

app = command_group(
    """Look at the stored state of joins, check it, and look after it.

    [dim]Examples:[/dim]
      windrow state show /data/state
      windrow state verify /data/state && echo sound
      windrow state rescale /data/state --partitions 16
      windrow state prune /data/state --checkpoint /data/checkpoint
      windrow state export /data/state /data/rows
      windrow state late /data/late
    """
)
LateWhere = Annotated[
    str, typer.Argument(help="The late_rows directory or URL, or a join's directory in it.", metavar="PATH")
]
QueryId = Annotated[str | None, typer.Option(help="Only this query id.", metavar="ID")]
JoinName = Annotated[str | None, typer.Option("--join", help="Only joins of this name.", metavar="NAME")]
Where = Annotated[str, typer.Argument(help="The state path or URL of the query.", metavar="PATH")]


@app.command()
def show(path: Where, as_json: AsJson = False) -> None:
    """List what is stored: batches, rows per stream and partition, bytes, age.

    Exit code 1 if what is there cannot be read, 2 if nothing is there.

    [dim]Examples:[/dim]
      windrow state show /data/state
      windrow state show s3://bucket/state --json
    """
    report(show_states(path), as_json, partial(_stored, now=time.time()), _no_state(path))


@app.command()
def verify(path: Where, as_json: AsJson = False) -> None:
    """Check all that a restart can need; exit code 1 if something is damaged, 2 if nothing is there.

    [dim]Examples:[/dim]
      windrow state verify s3://bucket/state
      windrow state verify /data/state --json
    """
    try:
        verdict = verify_states(path)
    except StateError as error:
        print_error(error)
        raise typer.Exit(USAGE_ERROR) from None
    checked = f"{verdict.manifests} manifests and {verdict.files} files, {decimal(verdict.bytes)}"
    if as_json:
        print_json(asdict(verdict))
    elif verdict.damage:
        rows = [(damage.path, damage.how) for damage in verdict.damage]
        title = f"damaged: {len(verdict.damage)} of {checked}"
        Console().print(table(("file", "damage"), rows, title))
    elif verdict.joins:
        typer.echo(f"sound: {checked}")
    if not verdict.joins:
        _refuse_nothing(path)
    if verdict.damage:
        raise typer.Exit(FAILED)


@app.command()
def rescale(
    path: Where,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions that the query will be started with.")],
    partitioning: Annotated[
        str | None, typer.Option(help="As in wr.join; by default the planner chooses.", metavar="LAYOUT")
    ] = None,
    skewed_keys: Annotated[
        str | None,
        typer.Option(help='As in wr.join, as JSON: \'{"values": [7], "splits": 4}\'.', metavar="JSON"),
    ] = None,
    query: QueryId = None,
    join: JoinName = None,
    threads: Annotated[int | None, typer.Option(min=1, help="By default one for each core.")] = None,
    as_json: AsJson = False,
) -> None:
    """Redistribute the windows of stopped queries, so that they start faster with other partitions.

    A restart with other partitions redistributes them as well. This does the same beforehand. Until it is
    done, and if it fails, the state is as it was. Exit code 1 if it cannot be done, 2 if nothing is there.

    [dim]Examples:[/dim]
      windrow state rescale /data/state --partitions 16
      windrow state rescale s3://bucket/state --partitions 16 --join a_b --json
    """
    from windrow.spark.stored_join import stored_joins

    execution = Execution(partitions, None, None, partitioning, _json(skewed_keys))
    found = stored_joins(path, query, join)
    done = [each.rescale(execution, threads or os.cpu_count() or 1) for each in found]
    report(done, as_json, _rescaled, _no_state(path))


@app.command()
def prune(
    path: Where,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(help="A checkpoint that is in use; repeat it for all. Other queries are gone."),
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(help="Only queries without a commit for so long: '30 days'.")
    ] = None,
    query: Annotated[list[str] | None, typer.Option(help="Only this query id; may be repeated.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete the state of queries that are gone. Lists them first, and asks.

    Name what is gone: every query but those of the checkpoints in use, those that have committed nothing for
    long, or some by their ids. With --json nothing is deleted without --yes. Exit code 2 if nothing is there.

    [dim]Examples:[/dim]
      windrow state prune /data/state --checkpoint /data/checkpoint
      windrow state prune /data/state --older-than "30 days" --yes
    """
    if not (checkpoint or older_than or query):
        typer.echo("Name the queries that are gone: --checkpoint, --older-than or --query.", err=True)
        raise typer.Exit(USAGE_ERROR)
    before = None if older_than is None else time.time() - parse_duration(older_than) / SECOND
    if not joins_in(open_storage(path)):
        _refuse_nothing(path)
    gone = gone_queries(path, checkpoint, before, query or ())
    if as_json:
        print_json({"gone": [asdict(each) for each in gone], "deleted": yes})
    elif gone:
        rows = [
            (g.query, ", ".join(g.joins), f"{g.files:,}", decimal(g.bytes), _ago(g.last_commit)) for g in gone
        ]
        columns = ("query", "joins", "files", "size", "last commit")
        Console().print(table(columns, rows, "queries that are gone"))
    else:
        typer.echo(f"No query in {redacted(path)} is gone.")
    if gone and (yes or (not as_json and typer.confirm("Delete the state of these queries?"))):
        for each in gone:
            remove(path, each)


@app.command()
def export(
    path: Where,
    target: Annotated[str, typer.Argument(help="A new directory or URL for the rows.", metavar="TARGET")],
    query: QueryId = None,
    join: JoinName = None,
    as_json: AsJson = False,
) -> None:
    """Write the rows that windows hold as parquet, one directory per stream, each row once.

    Exit code 1 if it cannot be done, 2 if nothing is there.

    [dim]Examples:[/dim]
      windrow state export /data/state /data/rows
    """
    from windrow.spark.stored_join import stored_joins

    found = {(j.query_id, j.name): j.export(open_storage(target)) for j in stored_joins(path, query, join)}
    if as_json:
        print_json([{"query": q, "join": name, "rows": rows} for (q, name), rows in found.items()])
    for (of, name), rows in () if as_json else found.items():
        counts = ", ".join(f"{count:,} rows of {alias}" for alias, count in rows.items())
        typer.echo(f"join {name} of query {of}: {counts}")
    if not found:
        _refuse_nothing(path)


@app.command()
def late(path: LateWhere, as_json: AsJson = False) -> None:
    """Summarise late rows: how many of each stream, and how many a larger `late` would have kept.

    Exit code 1 if what is there cannot be read, 2 if nothing is there.

    [dim]Examples:[/dim]
      windrow state late /data/late
      windrow state late s3://bucket/late --json
    """
    with Progress(console=Console(stderr=True), transient=True) as progress:
        reading = progress.add_task("reading late rows", total=None)
        found = summarise(path, lambda done, of: progress.update(reading, completed=done, total=of))
    report(found, as_json, _late, f"There are no late rows in {redacted(path)}.")


def _json(given: str | None) -> Any:
    try:
        return None if given is None else json.loads(given)
    except ValueError as error:
        raise QueryError(f"expected JSON, got {given!r} ({error})", Option("skewed_keys")) from None


def _rescaled(done: Any) -> str:
    what = f"join {done.join} of query {done.query}, batch {done.batch}"
    if done.changed:
        return f"{what}: {done.before} partitions before, now {done.layout}"
    return f"{what}: has this layout already: {done.layout}"


def _late(summary: LateSummary) -> Table:
    streams, aliases = summary.streams, [s.stream for s in summary.streams]
    rows: list[list[str] | None] = [["late", *(f"{s.late:,}" for s in streams)]]
    rows += [["too far ahead", *(f"{s.ahead:,}" for s in streams)], None]
    for number, (seconds, _) in enumerate(streams[0].kept):
        counts = ((s.kept[number][1], s.late) for s in streams)
        each = (f"{kept:,} ({100 * kept / late:.0f} %)" if late else "" for kept, late in counts)
        rows.append([f"kept with late = {format_duration(round(seconds * SECOND))}", *each])
    return table(("", *aliases), rows, f"late rows of join {summary.join}", right=aliases)


def _stored(state: JoinState, now: float) -> Table:
    aliases = list(state.stored[0].rows) if state.stored else []
    columns = ("partition", "batches", *(f"rows of {a}" for a in aliases), "live", "on disk", "age")
    rows: list[tuple[str, ...] | None] = []
    for held in state.stored:
        counts = (f"{held.rows[a]:,}" for a in aliases)
        sizes, age = (decimal(held.live_bytes), decimal(held.disk_bytes)), _age(now - held.created)
        batches = f"{held.batches[0]} to {held.batches[-1]}"
        rows.append((str(held.partition), batches, *counts, *sizes, age))
    if len(rows) > 1:
        counts = (f"{sum(held.rows[a] for held in state.stored):,}" for a in aliases)
        live, disk = (sum(getattr(h, size) for h in state.stored) for size in ("live_bytes", "disk_bytes"))
        rows += [None, (f"all {state.partitions}", "", *counts, decimal(live), decimal(disk), "")]
    title = f"join {state.join} of query {state.query}\non {state.on}"
    return table(columns, rows, title, right=columns)


def _ago(commit: float) -> str:
    """The age of a commit; 0 for none, an infinite one for one that cannot be read."""
    if not commit:
        return "none"
    return f"{_age(time.time() - commit)} ago" if math.isfinite(commit) else "unknown"


def _age(seconds: float) -> str:
    """
    >>> _age(59), _age(7300), _age(200_000)
    ('59 s', '2 h', '2 d')
    """
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _no_state(path: str) -> str:
    return f"There is no state in {redacted(path)}."


def _refuse_nothing(path: str) -> None:
    typer.echo(_no_state(path), err=True)
    raise typer.Exit(USAGE_ERROR)
