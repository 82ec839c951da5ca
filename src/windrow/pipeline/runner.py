"""Runs a pipeline to its end, or until it is stopped."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console

from windrow.errors import Option, QueryError
from windrow.pipeline.builder import BuiltPipeline
from windrow.pipeline.console import ConsoleView
from windrow.spark.query_progress import BatchProgress, QueryWatcher
from windrow.spark.spark_errors import RunError
from windrow.ui.address import Address
from windrow.ui.history import History
from windrow.ui.report import metrics_file
from windrow.ui.server import Server

POLL_SECONDS = 0.2


def run_batch(built: BuiltPipeline, console: Console, quiet: bool) -> None:
    """Read all input once, and write the results."""
    began = time.monotonic()
    rows = built.write()
    if not quiet:
        console.print(f"{rows:,} rows written in {time.monotonic() - began:.1f} s", highlight=False)


def run_stream(
    name: str,
    start: Callable[[], QueryWatcher],
    console: Console,
    quiet: bool = False,
    per_partition: bool = False,
    metrics: Path | None = None,
    max_batches: int | None = None,
    page: Address | None = None,
) -> None:
    """Run until the trigger is done, `max_batches` have ended, or Ctrl-C or SIGTERM is received.

    Stopping during a micro-batch loses nothing. The next run repeats it from its offsets and the windows
    before it, and the sink writes it once.
    """
    history, metrics = History(name), metrics and metrics_file(metrics)
    if metrics is not None:
        _create_directory(metrics.parent)
    with _stop_signals() as stop_requested, _served(history, page, console, quiet):
        with ConsoleView(console, history, quiet, per_partition) as view:
            running = start()
            while running.active and not stop_requested.wait(POLL_SECONDS):
                _report(running.progress(), view, history, metrics)
                if max_batches is not None and history.batches >= max_batches:
                    break
            # A query that is stopped during a micro-batch reports an error, which is not a failure.
            failure = None if running.active else running.failure()
            running.stop()
            _report(running.progress(), view, history, metrics)
        ended = "failed" if failure else "stopped" if stop_requested.is_set() else "done"
        history.end(ended, failure[0] if failure else None)
    if failure is not None:
        raise RunError(*failure)
    if not quiet:
        console.print(f"{ended}: {view.summary}", highlight=False, soft_wrap=True)


def _create_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise QueryError(
            f"directory {path} cannot be created: {error.strerror}; give another", Option("metrics")
        ) from None


def _report(news: Sequence[BatchProgress], view: ConsoleView, history: History, metrics: Path | None) -> None:
    batches = [progress.to_dict() for progress in news]
    for batch in batches:
        history.add(batch)
    view.update(news)
    if metrics is not None and batches:
        with metrics.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(batch) + "\n" for batch in batches)


@contextmanager
def _served(history: History, page: Address | None, console: Console, quiet: bool) -> Iterator[None]:
    """Serve the dashboard while the block runs."""
    if page is None:
        yield
        return
    server = Server(history, page)
    try:
        if not quiet:
            console.print(f"page at {server.url}", highlight=False)
        yield
    except BaseException as error:
        history.end("failed", str(error))
        raise
    finally:
        server.close()


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, in place of Spark's handler, which cancels jobs and raises."""
    requested = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield requested
        return

    def request(_signal: int, _frame: FrameType | None) -> None:
        requested.set()

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
