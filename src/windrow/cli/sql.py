"""`windrow sql`: done or stopped is fine; a run that fails is not; a text that is wrong does not run."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from windrow.cli.common import MasterOption, print_json
from windrow.cli.run import UiHostOption, UiOption, metrics_place
from windrow.errors import Option, QueryError, placed
from windrow.ui.address import LOOPBACK, Address

if TYPE_CHECKING:
    from windrow.sql_frontend.parser import ParsedScript
    from windrow.sql_frontend.statement import Statement

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Replace a setting: of a pipeline SECTION.KEY, of SQL a name of WITH.",
        metavar="NAME=VALUE",
    ),
]


@dataclass(frozen=True)
class OutputOptions:
    """What is done with the answer."""

    check: bool
    stream: bool
    out: str | None
    format: str
    checkpoint: str | None
    trigger: str | None
    limit: int
    json: bool
    metrics: Path | None = None
    page: Address | None = None

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise QueryError(f"--limit: expected a number from 1, got {self.limit}")
        if self.stream and not self.check and not (self.out and self.checkpoint):
            raise QueryError("--stream: give --out for the results and --checkpoint for how far it has come")
        if not self.stream and (self.checkpoint or self.trigger):
            raise QueryError("--checkpoint and --trigger are for streams; add --stream")
        if not self.stream and (self.metrics or self.page):
            raise QueryError("--metrics and --ui are for streams; add --stream")


def sql_command(
    file: Annotated[
        str, typer.Argument(help="Statements, a text file; - for standard input.", metavar="FILE")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Validate and print the statements; run nothing.")
    ] = False,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Read sources as streams, until stopped; else all there is, once."),
    ] = False,
    out: Annotated[
        str | None, typer.Option(help="Write results to this directory; printed if left out.")
    ] = None,
    format: Annotated[str, typer.Option(help="Of the files in --out.")] = "parquet",
    checkpoint: Annotated[
        str | None, typer.Option(help="Of a stream: how far it has come, and its windows.")
    ] = None,
    trigger: Annotated[
        str | None, typer.Option(help="Of a stream: 'available now', or a time such as '5 seconds'.")
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--parameter", "-p", help="A value for a name in the text.", metavar="NAME=VALUE"),
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(help="Of a stream: append each batch's metrics here, as windrow run."),
    ] = None,
    ui: UiOption = None,
    ui_host: UiHostOption = LOOPBACK,
    changes: SetOption = None,
    limit: Annotated[int, typer.Option(help="Most rows that are printed.")] = 20,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print rows as JSON, one a line; statements and plans as one document."),
    ] = False,
    master: MasterOption = None,
) -> None:
    """Answer the SQL statements of a file: CREATE STREAM, SELECT, EXPLAIN SELECT.

    Relative paths of CREATE STREAM are relative to the file.

    [dim]Examples:[/dim]

      windrow sql hot.sql --check

      windrow sql hot.sql --check --json

      windrow sql hot.sql --limit 5

      windrow sql hot.sql -p threshold=30 --set memory="64 MiB" --json

      windrow sql hot.sql --stream --out results --checkpoint state --trigger "available now"
    """
    page = None if ui is None else Address(ui, ui_host)
    places = (_place(out), format, _place(checkpoint), trigger)
    wanted = OutputOptions(check, stream, *places, limit, json, metrics_place(metrics), page)
    values = parameter_values(parameters or ())
    parsed = read_script(file)
    if not check:
        parsed.check_selects()
    _run(parsed, folder_of(file), wanted, values, replaced_settings(changes or ()), master)


def read_script(file: str) -> ParsedScript:
    """The statements of a file; - for standard input."""
    from windrow.sql_frontend.parser import parse_script

    return parse_script(_text(file), "stdin" if file == "-" else file)


def folder_of(file: str) -> Path:
    """What relative paths in the statements are relative to."""
    return Path.cwd() if file == "-" else Path(file).resolve().parent


def _text(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise QueryError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise QueryError(f"{file}: is no text in UTF-8") from None


def _place(path: str | None) -> str | None:
    """A local path from here, wherever Spark runs; URLs as they are."""
    return path if path is None or "://" in path else str(Path(path).resolve())


def replaced_settings(given: Iterable[str]) -> dict[str, Any]:
    """What `--set NAME=VALUE` says of statements."""
    from windrow.model.execution import read_texts
    from windrow.pipeline.toml_reader import absolute, parse_value
    from windrow.sql_frontend.with_options import KNOWN

    found = {}
    for change in given:
        name, equals, text = change.partition("=")
        if not equals or not name.strip():
            raise QueryError(f"expected NAME=VALUE such as memory='64 MiB', got {change!r}", Option("--set"))
        value = parse_value(text)
        found[name.strip()] = absolute(value, Path.cwd()) if name.strip() == "state" else value
    with placed(Option(section="--set")):
        return read_texts(found, KNOWN)


def parameter_values(given: Iterable[str]) -> dict[str, str | int | float]:
    """What `--parameter NAME=VALUE` says, with numbers as numbers."""
    return dict(_parameter(each) for each in given)


def _parameter(given: str) -> tuple[str, str | int | float]:
    name, equals, value = given.partition("=")
    if not equals or not name.strip():
        raise QueryError(f"--parameter: expected NAME=VALUE, got {given!r}")
    for kind in (int, float):
        try:
            return name.strip(), kind(value)
        except ValueError:
            continue
    return name.strip(), value


def _run(
    parsed: ParsedScript,
    base: Path,
    wanted: OutputOptions,
    values: dict[str, Any],
    settings: dict[str, Any],
    master: str | None,
) -> None:
    from windrow.model.execution import Execution
    from windrow.spark.session import open_session
    from windrow.spark.spark_errors import as_run_error
    from windrow.spark.sql import bind, relative_to
    from windrow.spark.statement_runner import StatementRunner

    console = Console()
    state = f"{wanted.checkpoint.rstrip('/')}/windrow" if wanted.checkpoint else None
    with as_run_error(), open_session(master, "windrow sql", {}, wanted.check) as session:
        parsed = relative_to(parsed, base)
        frames, script = bind(parsed, session, streaming=wanted.stream, parameters=values, settings=settings)
        if wanted.check:
            # Building the frames checks everything and starts nothing: any place for the state will do.
            if script.statements:
                anywhere = Execution(state=state or "not written")
                StatementRunner(frames, anywhere).of(script.statements, session)
            if wanted.json:
                print_json([statement_facts(s) for s in script.statements])
            else:
                console.print(Text(str(script)), soft_wrap=True)
            return
        answers = StatementRunner(frames, Execution(state=state))
        if wanted.json and all(statement.explain for statement in script.statements):
            plans = zip(script.statements, answers.plans(script.statements), strict=True)
            print_json([statement_facts(s) | {"plan": plan.to_dict()} for s, plan in plans])
            return
        answer = answers.of(script.statements, session)
        if any(statement.explain for statement in script.statements):
            for row in answer.collect():
                console.print(Text(row.plan), soft_wrap=True)
        elif wanted.stream:
            _stream(answer, wanted, console)
        elif wanted.out is not None:
            _write(answer, wanted, console)
        else:
            _show(answer, wanted, console)


def statement_facts(statement: Statement) -> dict[str, Any]:
    """As values that JSON can hold."""
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
        "group": str(statement.grouping) if statement.grouping else None,
        "memory": str(query.memory_limit) if query.memory_limit else None,
        "deadline": str(query.deadline) if query.deadline else None,
    }


def _stream(answer: Any, wanted: OutputOptions, console: Console) -> None:
    from windrow.pipeline.builder import spark_trigger
    from windrow.pipeline.runner import run_stream
    from windrow.pipeline.spec import Trigger
    from windrow.spark.query_progress import QueryWatcher
    from windrow.spark.sources_sinks import check_sink, start

    with placed(Option("--trigger")):
        trigger = Trigger.parse(wanted.trigger) or Trigger("always")
    if not trigger.streaming:
        raise QueryError("--trigger: 'batch' is no stream; leave --stream out")
    assert wanted.checkpoint is not None
    check_sink(answer, Option("--out"), wanted.format)
    place, at = wanted.checkpoint, spark_trigger(trigger)

    def begin() -> QueryWatcher:
        return QueryWatcher(
            start(answer, Option("--out"), wanted.format, wanted.out, {}, "append", "sql", place, at)
        )

    run_stream("sql", begin, console, metrics=wanted.metrics, page=wanted.page)


def _write(answer: Any, wanted: OutputOptions, console: Console) -> None:
    from windrow.spark.sources_sinks import check_sink, write

    check_sink(answer, Option("--out"), wanted.format)
    rows = write(answer, Option("--out"), wanted.format, wanted.out, {}, "error")
    console.print(f"{rows:,} rows written to {wanted.out}", highlight=False, markup=False)


def _show(answer: Any, wanted: OutputOptions, console: Console) -> None:
    if wanted.json:
        for row in answer.limit(wanted.limit).selectExpr("to_json(struct(*))").collect():
            typer.echo(row[0])
        return
    rows = answer.limit(wanted.limit + 1).collect()
    table = Table(box=None, header_style="bold")
    for name in answer.columns:
        table.add_column(Text(name), overflow="fold")
    for row in rows[: wanted.limit]:
        table.add_row(*(Text("" if value is None else str(value)) for value in row))
    console.print(table)
    if len(rows) > wanted.limit:
        console.print(f"the first {wanted.limit} rows; --limit shows more, --out writes all", style="dim")
