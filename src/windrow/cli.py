"""The command line: `windrow run`, `sql`, `demo`, `lab`, `bench`. Heavy imports wait for their command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import windrow
from windrow.lab.cli import app as lab
from windrow.page.cli import report_command
from windrow.pipeline.cli import run_command
from windrow.pipeline.sql_cli import sql_command
from windrow.state.cli import app as state
from windrow.state.queries_cli import app as queries

app = typer.Typer(
    help="Windrow joins data streams over sliding windows, and says how good the answer is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("run")(run_command)
app.command("sql")(sql_command)
app.command("report")(report_command)
app.add_typer(lab, name="lab")
app.add_typer(state, name="state")
app.add_typer(queries, name="queries")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"windrow {windrow.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Windrow joins data streams over sliding windows, and says how good the answer is."""


@app.command()
def demo(
    seconds: Annotated[int, typer.Option(min=10, help="Event time to generate, in seconds.")] = 300,
    rate: Annotated[float, typer.Option(min=1, help="Bids per second of event time.")] = 5000,
    seed: Annotated[int, typer.Option(help="Seed of the generated streams.")] = 0,
    out: Annotated[Path, typer.Option(help="Where files, state and results go; emptied first.")] = Path(
        "demo-results"
    ),
    cores: Annotated[int, typer.Option(min=1, help="Tasks at the same time.")] = 2,
) -> None:
    """Join generated auctions with the bids on them, on local Spark, live, and check the answer.

    [dim]Example:[/dim] windrow demo --seconds 120 --rate 20000
    """
    from windrow.demo import run_demo

    run_demo(seconds, rate, seed, out, cores)


@app.command()
def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Benchmarks; all when none is named.")] = None,
    rows: Annotated[int, typer.Option(min=10_000, help="Rows of the large benchmarks.")] = 7_200_000,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the rows.")] = False,
    case: Annotated[str | None, typer.Option(help="Of spark: only cases with this in their name.")] = None,
    out: Annotated[Path, typer.Option(help="Where the figures go, as JSON.")] = Path("bench-results"),
) -> None:
    """Measure speed and memory as ratios to what they are compared with, in one run.

    [dim]Example:[/dim] windrow bench equality band
    """
    from windrow.bench import run_benchmarks

    run_benchmarks(names or [], rows // 10 if quick else rows, out, case)


def main() -> None:
    """Entry point of the `windrow` command: errors made by the user end it with a sentence and code 2."""
    try:
        app()
    except windrow.WindrowError as error:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
        raise SystemExit(2) from None
