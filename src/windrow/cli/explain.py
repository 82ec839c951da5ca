"""`windrow explain`: the plan of a pipeline or of SQL statements, as text, JSON or HTML."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from windrow.cli.common import AsJson, HtmlOption, MasterOption, ParameterOption, SetOption
from windrow.cli.sql import folder_of, parameter_values, read_script, replaced_settings
from windrow.errors import Option, QueryError

SAMPLE_ROWS = 100_000
"""Maximum of sampled rows per stream."""


def explain_command(
    file: Annotated[
        str,
        typer.Argument(
            help="A pipeline (.toml), or SQL statements; - for SQL on standard input.", metavar="FILE"
        ),
    ],
    html: HtmlOption = None,
    rates: Annotated[
        list[str] | None,
        typer.Option("--rate", help="Rows per second of a stream, by name or alias.", metavar="STREAM=ROWS"),
    ] = None,
    distinct: Annotated[
        list[str] | None,
        typer.Option(
            help="Number of distinct values of a column; no data is read.", metavar="ALIAS.COLUMN=NUMBER"
        ),
    ] = None,
    sample_rows: Annotated[
        int, typer.Option(min=0, help="Maximum of rows to sample per stream; 0 reads no data.")
    ] = SAMPLE_ROWS,
    changes: SetOption = None,
    parameters: ParameterOption = None,
    as_json: AsJson = False,
    master: MasterOption = None,
) -> None:
    """Show a query's plan before it runs, with its expected work and memory and the recall at lower limits.

    With data, it joins a sample in this process and learns from it; stated rates replace the sample's rates.
    Without data (rate, socket and kafka sources, or --sample-rows 0), it uses the stated rates only.

    [dim]Examples:[/dim]
      windrow explain pipeline.toml
      windrow explain pipeline.toml --html plan.html --rate bids=5000
      windrow explain pipeline.toml --set join.memory="64 MiB" --json
      windrow explain hot.sql -p threshold=30 --sample-rows 0 --rate temperature=200
    """
    from windrow.pipeline.toml_reader import read_pipeline

    stated, values = _numbers("--rate", rates), _numbers("--distinct", distinct)
    if html is not None and not html.parent.is_dir():
        raise QueryError(f"directory {html.parent} does not exist; create it first", Option("--html"))
    sample_rows = 0 if values else sample_rows  # stated distinct counts replace what a sample would show
    pipeline = read_pipeline(Path(file), changes or ()) if Path(file).suffix == ".toml" else None
    if pipeline is not None and parameters:
        raise QueryError("is for SQL; use --set for a pipeline", Option("--parameter"))
    parsed = None if pipeline is not None else read_script(file)
    if parsed is not None:
        parsed.check_selects()
        script = (parameter_values(parameters), replaced_settings(changes))

    from windrow.pipeline.explain_target import check_names, of_pipeline, of_statements
    from windrow.spark.session import open_session
    from windrow.spark.spark_errors import as_run_error
    from windrow.spark.sql import relative_to

    console, where = Console(stderr=True), master or (pipeline.run.master if pipeline is not None else None)
    # A progress bar on a terminal; elsewhere a line per stream that was read.
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bars = Progress(*columns, console=console, transient=True)
    with as_run_error(), open_session(where, "windrow explain", {}) as session, bars:
        if parsed is not None:
            targets = of_statements(relative_to(parsed, folder_of(file)), session, *script)
        elif pipeline is not None:
            targets = of_pipeline(pipeline, session)
        check_names(targets, stated)
        found = [each.explained(each.by_alias(stated), values, sample_rows, bars) for each in targets]
    if html is not None:
        from windrow.explanation.html_page import page

        title = found[0].name if len(found) == 1 else Path(file).stem
        html.write_text(page(title, [each.to_dict() for each in found]), encoding="utf-8")
        console.print(f"written to {html}", highlight=False, markup=False, soft_wrap=True)
    if as_json:
        from windrow.explanation.explanation import to_json

        typer.echo(to_json([each.to_dict() for each in found]))
    elif html is None:
        typer.echo("\n\n".join(f"{each.name}: {each.query.on}\n{each}" for each in found))


def _numbers(option: str, given: Sequence[str] | None) -> dict[str, float]:
    """Values of an option NAME=NUMBER that may be repeated. A name may be an expression with = in it."""
    found = {}
    for each in given or ():
        name, _, value = each.rpartition("=")
        with suppress(ValueError):
            found[name.strip()] = float(value.replace("_", ""))
        if not name.strip() or not 0 < found.get(name.strip(), 0.0) < inf:
            raise QueryError(f"expected NAME=NUMBER with a number above 0, got {each!r}", Option(option))
    return found
