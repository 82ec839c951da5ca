"""`windrow lab`: list and run the experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from windrow.errors import WindrowError
from windrow.lab import experiments
from windrow.lab.run import run_all

app = typer.Typer(help="Measure what the papers promise.", no_args_is_help=True)
WRONG_NAME = 2
CLAIM_MISSED = 1


@app.command("list")
def list_experiments() -> None:
    """List the experiments and the claims each covers."""
    table = Table()
    for column in ("experiment", "claims", "shows"):
        table.add_column(column)
    for name in experiments.names():
        experiment = experiments.find(name)
        table.add_row(name, ", ".join(experiment.claims), experiment.title)
    Console().print(table)


@app.command("run")
def run(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments; see `list`.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Seconds instead of minutes.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="All experiments.")] = False,
    out: Annotated[Path, typer.Option(help="Where records and pictures go.")] = Path("lab-results"),
    cores: Annotated[int, typer.Option(min=1, help="Tasks at the same time.")] = 2,
) -> None:
    """Run experiments; exit code 1 if a claim does not hold, 2 for a wrong name."""
    errors = Console(stderr=True)
    chosen = list(experiments.names()) if everything else list(names or ())
    if not chosen:
        errors.print("Nothing to run. Name experiments (see `windrow lab list`), or say --all.")
        raise typer.Exit(WRONG_NAME)
    try:
        found = [experiments.find(name) for name in chosen]
    except WindrowError as error:
        errors.print(str(error), markup=False)
        raise typer.Exit(WRONG_NAME) from None
    outcomes = run_all(found, "quick" if quick else "full", out, cores, Console())
    if not all(outcome.holds for outcome in outcomes):
        raise typer.Exit(CLAIM_MISSED)
