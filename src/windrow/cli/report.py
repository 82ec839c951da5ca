"""`windrow report`: the dashboard of a recorded run as an HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report_command(
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
