"""The `windrow` command. Commands import heavy modules only when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import windrow
from windrow.cli.common import FAILED, AsJson, CoresOption, command_group, output, print_json, require_lab
from windrow.cli.explain import explain_command
from windrow.cli.lab import app as lab
from windrow.cli.queries import app as queries
from windrow.cli.run import run_command
from windrow.cli.sql import sql_command
from windrow.cli.state import app as state

app = command_group(
    """Windrow joins data streams over sliding windows, and reports how complete the results are.

    [dim]Examples:[/dim]
      windrow demo
      windrow explain pipeline.toml --html plan.html
      windrow run pipeline.toml
      windrow --install-completion
    """
)
app.command("run")(run_command)
app.command("sql")(sql_command)
app.command("explain")(explain_command)
app.add_typer(lab, name="lab")
app.add_typer(state, name="state")
app.add_typer(queries, name="queries")


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"windrow {windrow.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of `windrow` itself."""


@app.command()
def demo(
    seconds: Annotated[int, typer.Option(min=10, help="Event time to generate, in seconds.")] = 300,
    rate: Annotated[float, typer.Option(min=1, help="Bids per second of event time.")] = 5000,
    seed: Annotated[int, typer.Option(help="Seed of the generated streams.")] = 0,
    out: Annotated[Path, typer.Option(help="Directory for files, state and results; emptied first.")] = Path(
        "demo-results"
    ),
    cores: CoresOption = 2,
    as_json: AsJson = False,
) -> None:
    """Join generated auctions with their bids on local Spark, live, and check the results.

    Exit code 1 if the results differ from a recomputation from scratch.

    [dim]Examples:[/dim]
      windrow demo --seconds 120 --rate 20000
      windrow demo --json | jq .exact
    """
    from windrow.demo.run import run_demo

    summary = run_demo(seconds, rate, seed, out, cores, output(as_json))
    if as_json:
        print_json(summary)
    if not summary["exact"]:
        raise typer.Exit(FAILED)


def _benchmarks(incomplete: str) -> list[str]:
    from windrow_bench.run import BENCHMARKS

    return [name for name in BENCHMARKS if name.startswith(incomplete)]


@app.command()
def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Benchmarks; all by default.", autocompletion=_benchmarks),
    ] = None,
    rows: Annotated[int, typer.Option(min=10_000, help="Rows of the large benchmarks.")] = 7_200_000,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the rows.")] = False,
    case: Annotated[
        str | None, typer.Option(help="Only cases or data sets whose name contains this.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory for the figures, as JSON.")] = Path("bench-results"),
    as_json: AsJson = False,
) -> None:
    """Measure speed and memory as ratios to other implementations, in one run.

    [dim]Examples:[/dim]
      windrow bench equality band
      windrow bench harvest --quick --json
    """
    require_lab()
    from windrow_bench import run_benchmarks

    figures = run_benchmarks(names or [], rows // 10 if quick else rows, out, case, output(as_json))
    if as_json:
        print_json(figures)


@app.command()
def report(
    run: Annotated[
        Path,
        typer.Argument(help="The file that --metrics wrote, or its directory.", metavar="RUN"),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The HTML file to write; by default beside the metrics.")
    ] = None,
) -> None:
    """Write the dashboard of a recorded run as one self-contained HTML file.

    Record a run with `windrow run pipeline.toml --metrics runs/today`.

    [dim]Examples:[/dim]
      windrow report runs/today
      windrow report metrics.jsonl --out page.html
    """
    from windrow.ui.report import metrics_file, read_run, write_page

    history = read_run(run)
    written = write_page(history, out or metrics_file(run).with_suffix(".html"))
    typer.echo(f"{written}: {history.batches:,} batches of {', '.join(history.joins) or 'no join'}")


def main() -> None:
    """Entry point of the `windrow` command."""
    app()
