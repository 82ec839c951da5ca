"""`windrow lab`: list and run the experiments, and gather what they found. They are a package of their own,
windrow-lab."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from windrow.cli.common import (
    FAILED,
    AsJson,
    CoresOption,
    HtmlOption,
    command_group,
    output,
    print_json,
    require_lab,
)
from windrow.draw.terminal import table
from windrow.errors import QueryError

app = command_group(
    """Measure what the papers promise.

    [dim]Examples:[/dim]
      windrow lab list
      windrow lab run grubjoin-fig2 --quick
      windrow lab report lab-results --html lab.html
    """
)


@app.callback()
def installed() -> None:
    require_lab()


def _names(incomplete: str) -> list[str]:
    from windrow_lab import experiments

    return [name for name in experiments.names() if name.startswith(incomplete)]


@app.command("list")
def list_experiments(as_json: AsJson = False) -> None:
    """List the experiments and the claims each covers.

    [dim]Examples:[/dim]
      windrow lab list
      windrow lab list --json
    """
    from windrow_lab import experiments

    found = [experiments.find(name) for name in experiments.names()]
    if as_json:
        print_json([{"experiment": e.name, "claims": list(e.claims), "shows": e.title} for e in found])
        return
    rows = [(e.name, ", ".join(e.claims), e.title) for e in found]
    output(False).print(table(("experiment", "claims", "shows"), rows))


@app.command("run")
def run(
    names: Annotated[
        list[str] | None, typer.Argument(help="Experiments; see `list`.", autocompletion=_names)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Seconds instead of minutes.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="All experiments.")] = False,
    out: Annotated[Path, typer.Option(help="Where records and pictures go.")] = Path("lab-results"),
    keep: Annotated[
        Path | None, typer.Option(help="Where records without rows go as well, as evidence.")
    ] = None,
    cores: CoresOption = 2,
    as_json: AsJson = False,
) -> None:
    """Run experiments; exit code 1 if a claim misses that is not known to, 2 for a wrong name.

    [dim]Examples:[/dim]
      windrow lab run grubjoin-fig2 memory-age-fig6
      windrow lab run --all --quick --out quick-results
      windrow lab run grubjoin-fig2 --quick --json
    """
    from windrow_lab import experiments
    from windrow_lab.claims import promises
    from windrow_lab.run import run_all

    chosen = list(experiments.names()) if everything else list(names or ())
    if not chosen:
        raise QueryError("nothing to run: name experiments (see `windrow lab list`), or pass --all")
    found = [experiments.find(name) for name in chosen]
    outcomes = run_all(found, "quick" if quick else "full", out, cores, output(as_json), keep)
    if as_json:
        print_json(
            [
                {
                    "experiment": outcome.experiment,
                    "holds": outcome.holds,
                    "record": str(out / f"{outcome.experiment}.json"),
                    "claims": [asdict(claim) for claim in outcome.claims],
                }
                for outcome in outcomes
            ]
        )
    missed = [(outcome, claim) for outcome in outcomes for claim in outcome.claims if not claim.holds]
    if any(promises()[c.id].known_miss(o.experiment, str(o.parameters["size"])) is None for o, c in missed):
        raise typer.Exit(FAILED)


@app.command("report")
def report(
    results: Annotated[
        Path, typer.Argument(help="Where `lab run --out` left its records.", metavar="RESULTS")
    ] = Path("lab-results"),
    html: HtmlOption = None,
    into: Annotated[
        Path | None, typer.Option(help="Renew the claims that a Markdown page lists.", metavar="PAGE")
    ] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print all claims as Markdown.")] = False,
    as_json: AsJson = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit code 1 if a claim is missed or has no result.")
    ] = False,
) -> None:
    """Show how many of the papers' claims hold, and of each that misses by how much and why.

    It works on what is there, and lists what was not run.

    [dim]Examples:[/dim]
      windrow lab report
      windrow lab report quick-results --html quick.html
      windrow lab report lab-results --markdown > results.md
      windrow lab report lab-results --json --strict
    """
    from windrow_lab.papers_page import markdown, written_into
    from windrow_lab.records import read_records, verdicts
    from windrow_lab.report import page, text, to_dict

    records = read_records(results)
    if html is not None:
        html.write_text(page(records), encoding="utf-8")
    if into is not None:
        into.write_text(written_into(into.read_text(encoding="utf-8"), records), encoding="utf-8")
    if as_json:
        print_json(to_dict(records))
    else:
        typer.echo(markdown(records) if as_markdown else text(records))
    if strict and not all(verdict.holds for verdict in verdicts(records) if verdict.promise.counted):
        raise typer.Exit(FAILED)
