"""Running experiments: tasks side by side on Spark, a table of claims, a record and a picture."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
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

from windrow_lab.experiment import Experiment, Outcome, Row, Size, Task


def _advancing(progress: Progress, bar: TaskID) -> Callable[[Task], None]:
    return lambda _: progress.advance(bar)


def run_experiment(
    experiment: Experiment,
    size: Size,
    cores: int = 2,
    on_done: Callable[[Task], None] = lambda _: None,
) -> Outcome:
    """Runs all tasks of an experiment and reads its claims.

    A quick run stays in this process, since starting Spark would take longer; so do tasks one at a time.
    """
    began, tasks = time.monotonic(), experiment.tasks(size)
    if size == "quick" or min(cores, len(tasks)) == 1:
        results: list[list[Row]] = []
        for task in tasks:
            results.append(experiment.run(task))
            on_done(task)
    else:
        from windrow_lab.parallel_tasks import run_tasks

        results = run_tasks(experiment.run, tasks, cores, on_done)
    ran = {
        "commit": _commit(),
        "at": datetime.now(UTC).isoformat(timespec="minutes"),
        "seconds": round(time.monotonic() - began),
    }
    return replace(experiment.outcome(size, results), ran=ran)


def _commit() -> str:
    """Of the sources, if they are in a repository."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=10"]
    ran = subprocess.run(git, capture_output=True, text=True, check=False)
    return ran.stdout.strip() or "unknown"


def run_all(
    experiments: Sequence[Experiment],
    size: Size,
    out: Path,
    cores: int,
    console: Console,
    keep: Path | None = None,
) -> list[Outcome]:
    """Runs experiments one after the other, printing what each found. `out` gets records and pictures, `keep`
    records, with rows only where nothing is claimed."""
    outcomes = []
    began = time.monotonic()
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
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{experiment.name}.json").write_text(outcome.to_json(rows=not outcome.claims) + "\n")
        console.print(claims_table(experiment, outcome) if outcome.claims else _no_claims(experiment))
        console.print(f"[dim]{out / experiment.name}.json, .png; {outcome.ran['seconds']} s[/dim]\n")
        outcomes.append(outcome)
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    console.print(f"{len(outcomes)} experiments took {minutes} min {seconds} s")
    return outcomes


def save(experiment: Experiment, outcome: Outcome, out: Path) -> None:
    """Writes `<out>/<experiment>.json` and `.png`."""
    out.mkdir(parents=True, exist_ok=True)
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
