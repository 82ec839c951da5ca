"""`windrow run`: runs the pipeline that a TOML file describes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from windrow.cli.common import MasterOption, SetOption, UiHostOption, UiOption, print_json
from windrow.errors import Option, QueryError, WindrowError
from windrow.redaction import redacted
from windrow.ui.address import LOOPBACK, Address


def run_command(
    file: Annotated[Path, typer.Argument(help="The pipeline, a TOML file.", metavar="FILE")],
    check: Annotated[
        bool, typer.Option("--check", help="Validate, print streams, partitioning and plan; start nothing.")
    ] = False,
    master: MasterOption = None,
    metrics: Annotated[
        Path | None,
        typer.Option(
            help="Append each batch's metrics to this file, one JSON document per line, or to metrics.jsonl "
            "in this directory. `windrow report` turns it into a page."
        ),
    ] = None,
    ui: UiOption = None,
    ui_host: UiHostOption = LOOPBACK,
    per_partition: Annotated[
        bool, typer.Option("--per-partition", help="Show every partition, not only totals.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only errors.")] = False,
    changes: SetOption = None,
    max_batches: Annotated[
        int | None, typer.Option(min=1, help="Stop a stream after this number of batches.")
    ] = None,
    stacktrace: Annotated[
        bool, typer.Option("--stacktrace", help="If the run fails, print Spark's complete message.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --check: print only JSON to standard output.")
    ] = False,
) -> None:
    """Run the pipeline that a TOML file describes: streams, their join, an aggregation, a sink.

    After Ctrl-C, SIGTERM or a crash, start it again with the same checkpoint. Sinks that support it, such as
    files, receive every result exactly once.

    [dim]Examples:[/dim]
      windrow run pipeline.toml --check
      windrow run pipeline.toml --check --json
      windrow run pipeline.toml --metrics metrics.jsonl
      windrow run pipeline.toml --ui 4040
      windrow run pipeline.toml --set run.trigger="available now" --set join.partitions=8
      windrow run pipeline.toml --master spark://host:7077 --quiet
    """
    from windrow.pipeline.toml_reader import read_pipeline

    if as_json and not check:
        raise QueryError(
            "needs --check; for a run, --metrics FILE writes each batch as JSON", Option("--json")
        )
    pipeline = read_pipeline(file, changes or ())
    run = pipeline.run
    metrics = metrics or (Path(run.metrics) if run.metrics else None)
    page = None if ui is None else Address(ui, ui_host)
    if page is not None and not pipeline.streaming:
        raise QueryError("needs a stream; this pipeline's trigger is 'batch'", Option("--ui"))

    from windrow.engine.compile_notice import announce_first_batch
    from windrow.pipeline.builder import build
    from windrow.pipeline.console import check_facts, print_check
    from windrow.pipeline.runner import run_batch, run_stream
    from windrow.spark.session import open_session
    from windrow.spark.spark_errors import as_run_error

    console = Console()
    with _full_report(stacktrace), as_run_error(), ExitStack() as ended:
        with Console(stderr=True).status("starting Spark"):
            opened = open_session(master or run.master, run.name, run.spark_conf, check)
            built = build(pipeline, ended.enter_context(opened))
        if check:
            facts = check_facts(built)
            if as_json:
                print_json(facts)
            elif not quiet:
                print_check(console, facts)
        elif pipeline.streaming:
            if not quiet:
                announce_first_batch(partial(Console(stderr=True).print, style="dim", highlight=False))
            run_stream(run.name, built.start, console, quiet, per_partition, metrics, max_batches, page)
        else:
            run_batch(built, console, quiet)


@contextmanager
def _full_report(wanted: bool) -> Iterator[None]:
    """Add Spark's complete message to errors of the block."""
    try:
        yield
    except WindrowError as error:
        report = getattr(error, "report", None) or str(error.__cause__ or "")
        if wanted and report:
            error.add_note(redacted(report))
        raise
