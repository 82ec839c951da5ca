"""Running experiments: tasks side by side on Spark, a table of claims, a record and a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from windrow.lab.experiment import Experiment, Outcome, Row, Size, Task


def _advancing(progress: Progress, bar: TaskID) -> Callable[[Task], None]:
    return lambda _: progress.advance(bar)


def run_experiment(
    experiment: Experiment,
    size: Size,
    cores: int = 2,
    on_done: Callable[[Task], None] = lambda _: None,
) -> Outcome:
    """Runs all tasks of an experiment and reads its claims.

    A quick run, or one with a single task, stays in this process: starting Spark would take longer.
    """
    tasks = experiment.tasks(size)
    if size == "quick" or len(tasks) == 1:
        results: list[list[Row]] = []
        for task in tasks:
            results.append(experiment.run(task))
            on_done(task)
    else:
        from windrow.spark.parallel_tasks import run_tasks

        results = run_tasks(experiment.run, tasks, cores, on_done)
    return experiment.outcome(size, results)


def run_all(
    experiments: Sequence[Experiment], size: Size, out: Path, cores: int, console: Console
) -> list[Outcome]:
    """Runs experiments one after the other, printing and keeping what each found."""
    out.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for experiment in experiments:
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        ) as progress:
            bar = progress.add_task(experiment.name, total=len(experiment.tasks(size)))
            outcome = run_experiment(experiment, size, cores, _advancing(progress, bar))
        save(experiment, outcome, out)
        console.print(claims_table(experiment, outcome) if outcome.claims else _no_claims(experiment))
        console.print(f"[dim]{out / experiment.name}.json, .png[/dim]\n")
        outcomes.append(outcome)
    return outcomes


def save(experiment: Experiment, outcome: Outcome, out: Path) -> None:
    """Writes `<out>/<experiment>.json` and `.png`."""
    (out / f"{experiment.name}.json").write_text(outcome.to_json() + "\n")
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    experiment.plot(outcome.rows, figure)
    figure.suptitle(experiment.title)
    figure.savefig(out / f"{experiment.name}.png", dpi=120)


def claims_table(experiment: Experiment, outcome: Outcome) -> Table:
    """The claims and what was measured, for a terminal."""
    table = Table(title=f"{experiment.name}: {experiment.title}", title_justify="left", show_lines=True)
    table.add_column("claim")
    table.add_column("says", ratio=2)
    table.add_column("measured", ratio=2)
    table.add_column("holds")
    for claim in outcome.claims:
        holds = "[green]yes[/green]" if claim.holds else "[red]no[/red]"
        table.add_row(claim.id, claim.says, shown(claim.measured), holds)
    return table


def _no_claims(experiment: Experiment) -> str:
    return f"{experiment.name}: {experiment.title}. It makes no claim: its figure is for you to judge."


def shown(measured: object) -> str:
    """As people read it."""
    if isinstance(measured, dict):
        return ", ".join(f"{key} {shown(value)}" for key, value in measured.items())
    if isinstance(measured, list | tuple):
        return " ".join(shown(each) for each in measured)
    return f"{measured:,.4g}" if isinstance(measured, float) else str(measured)
