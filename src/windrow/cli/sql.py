"""`windrow sql`: runs the SQL statements of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from windrow.cli.common import (
    MasterOption,
    ParameterOption,
    SetOption,
    UiHostOption,
    UiOption,
    pairs,
    print_json,
)
from windrow.draw.terminal import table
from windrow.errors import Option, QueryError, placed
from windrow.ui.address import LOOPBACK, Address

if TYPE_CHECKING:
    from windrow.sql_frontend.parser import ParsedScript
    from windrow.sql_frontend.statement import Statement


def sql_command(
    file: Annotated[
        str, typer.Argument(help="Statements, a text file; - for standard input.", metavar="FILE")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Validate and print the statements; run nothing.")
    ] = False,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Read sources as streams until stopped; by default all input once."),
    ] = False,
    out: Annotated[
        str | None, typer.Option(help="Write results to this directory; printed by default.")
    ] = None,
    format: Annotated[str, typer.Option(help="Format of the files in --out.")] = "parquet",
    checkpoint: Annotated[
        str | None, typer.Option(help="For streams: directory of the progress and the windows.")
    ] = None,
    trigger: Annotated[
        str | None, typer.Option(help="For streams: 'available now', or a time such as '5 seconds'.")
    ] = None,
    parameters: ParameterOption = None,
    metrics: Annotated[
        Path | None,
        typer.Option(help="For streams: append each batch's metrics here, as windrow run does."),
    ] = None,
    ui: UiOption = None,
    ui_host: UiHostOption = LOOPBACK,
    changes: SetOption = None,
    limit: Annotated[int, typer.Option(help="Rows to print.")] = 20,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print one row per line as JSON; statements and plans as one document."),
    ] = False,
    master: MasterOption = None,
) -> None:
    """Run the SQL statements of a file: CREATE STREAM, SELECT, EXPLAIN SELECT.

    Paths in CREATE STREAM are relative to the file.

    [dim]Examples:[/dim]
      windrow sql hot.sql --check
      windrow sql hot.sql --check --json
      windrow sql hot.sql --limit 5
      windrow sql hot.sql -p threshold=30 --set memory="64 MiB" --json
      windrow sql hot.sql --stream --out results --checkpoint state --trigger "available now"
    """
    if limit < 1:
        raise QueryError(f"must be at least 1, got {limit}", Option("--limit"))
    if stream and not check and not (out and checkpoint):
        raise QueryError("needs --out for the results and --checkpoint for its progress", Option("--stream"))
    if not stream and (checkpoint or trigger):
        raise QueryError("--checkpoint and --trigger are for streams; add --stream")
    if not stream and (metrics or ui is not None):
        raise QueryError("--metrics and --ui are for streams; add --stream")
    values, settings = parameter_values(parameters), replaced_settings(changes)
    parsed = read_script(file)
    if not check:
        parsed.check_selects()

    from windrow.model.execution import Execution
    from windrow.model.sink import Sink
    from windrow.model.source import absolute
    from windrow.pipeline.runner import run_stream
    from windrow.pipeline.spec import Trigger
    from windrow.spark.session import open_session
    from windrow.spark.sources_sinks import Output
    from windrow.spark.spark_errors import as_run_error
    from windrow.spark.sql import bind, relative_to
    from windrow.spark.statement_runner import StatementRunner

    with placed(Option("--trigger")):
        when = Trigger.parse(trigger) or Trigger("always")
        if not when.streaming:
            raise QueryError("'batch' is not a stream; leave --stream out")
    console, page = Console(), None if ui is None else Address(ui, ui_host)
    progress = None if checkpoint is None else absolute(checkpoint, Path.cwd())
    # Checking builds the frames and starts nothing, so the state's path does not matter.
    state = f"{progress.rstrip('/')}/windrow" if progress else "not written" if check else None
    with as_run_error(), open_session(master, "windrow sql", {}, check) as session:
        parsed = relative_to(parsed, folder_of(file))
        frames, script = bind(parsed, session, streaming=stream, parameters=values, settings=settings)
        statements, runner = script.statements, StatementRunner(frames, Execution(state=state))
        if json and not check and all(statement.explain for statement in statements):
            plans = zip(statements, runner.plans(statements), strict=True)
            return print_json([statement_facts(s) | {"plan": plan.to_dict()} for s, plan in plans])
        results: Any = runner.of(statements, session) if statements else None
        if check and json:
            print_json([statement_facts(statement) for statement in statements])
        elif check:
            console.print(Text(str(script)), soft_wrap=True)
        elif any(statement.explain for statement in statements):
            for row in results.collect():
                console.print(Text(row.plan), soft_wrap=True)
        elif out is None:
            _show(results, limit, json, console)
        else:
            output = Output.of(results, Sink(format, absolute(out, Path.cwd())), Option("--out"))
            if stream and progress is not None:
                start = partial(output.start, "sql", progress, when.spark_arguments)
                run_stream("sql", start, console, metrics=metrics, page=page)
            else:
                written = f"{output.write():,} rows written to {output.sink.path}"
                console.print(written, highlight=False, markup=False)


def read_script(file: str) -> ParsedScript:
    """The statements of a file; - for standard input."""
    from windrow.pipeline.toml_reader import read_text
    from windrow.sql_frontend.parser import parse_script

    return (
        parse_script(sys.stdin.read(), "stdin") if file == "-" else parse_script(read_text(Path(file)), file)
    )


def folder_of(file: str) -> Path:
    """The directory that paths in the statements are relative to."""
    return Path.cwd() if file == "-" else Path(file).resolve().parent


def replaced_settings(given: Iterable[str] | None) -> dict[str, Any]:
    """Read `--set NAME=VALUE` for statements."""
    from windrow.model.execution import read_texts
    from windrow.model.source import absolute
    from windrow.pipeline.toml_reader import parse_value
    from windrow.sql_frontend.with_options import KNOWN

    found = {name: parse_value(text) for name, text in pairs("--set", given).items()}
    for name in found.keys() & {"state", "late_rows"}:
        found[name] = absolute(found[name], Path.cwd())
    with placed(Option(section="--set")):
        return read_texts(found, KNOWN)


def parameter_values(given: Iterable[str] | None) -> dict[str, str | int | float]:
    """Read `--parameter NAME=VALUE`, with numbers as numbers."""
    return {name: _number_or_text(value) for name, value in pairs("--parameter", given).items()}


def _number_or_text(value: str) -> str | int | float:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(value)
    return value


def statement_facts(statement: Statement) -> dict[str, Any]:
    """A statement as values for JSON."""
    from windrow.model.limits import memory_text

    query = statement.query
    return {
        "name": statement.name,
        "streams": {
            alias: {"from": statement.sources[alias], "time": stream.time, "window": str(stream.window)}
            for alias, stream in query.streams.items()
        },
        "select": [str(output) for output in statement.outputs],
        "join": list(statement.conditions),
        "filter": list(statement.filters),
        "group": str(statement.grouping.groups) if statement.grouping else None,
        "memory": memory_text(query.memory_limit, query.disk_limit),
        "deadline": str(query.deadline) if query.deadline else None,
    }


def _show(results: Any, limit: int, json: bool, console: Console) -> None:
    if json:
        for row in results.limit(limit).selectExpr("to_json(struct(*))").collect():
            typer.echo(row[0])
        return
    rows = results.limit(limit + 1).collect()
    shown = [["" if value is None else value for value in row] for row in rows[:limit]]
    console.print(table(results.columns, shown, box=None))
    if len(rows) > limit:
        console.print(f"first {limit} rows; --limit shows more, --out writes all", style="dim")
