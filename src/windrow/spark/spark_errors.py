"""Spark's long errors, shortened to the one sentence a user needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from windrow.errors import Option, QueryError, WindrowError
from windrow.redaction import cause, redacted

_OURS = re.compile(r"^\s*windrow\.errors\.(\w+): (.+)$", re.MULTILINE)
_PYTHON = re.compile(r"^((?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
_CLASS = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ")
_STATE = re.compile(r"\.?\s*SQLSTATE: \w+.*$")


def short_message(error: BaseException) -> str:
    """What went wrong, without stack, plan and credentials.

    A failed batch quotes the traceback of its Python worker, whose last line is the cause: an error of ours
    if there is one. Everything else opens with a condition in brackets and its text.
    """
    text = redacted(str(error))
    if ours := _OURS.findall(text):
        return ": ".join(ours[-1])
    if "Traceback (most recent call last)" in text and (raised := _PYTHON.findall(text)):
        return ": ".join(raised[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # The innermost condition is the cause; "[STREAM_FAILED] Query ... terminated with exception:" is not.
    line = next((line for line in lines if _CLASS.search(line)), lines[0] if lines else type(error).__name__)
    line = line[list(_CLASS.finditer(line))[-1].end() :] if _CLASS.search(line) else line
    return _STATE.sub("", line).strip().rstrip(".")


class RunError(WindrowError):
    """The query was right, but it failed while running; `report` is all that Spark says."""

    def __init__(self, message: str, report: str) -> None:
        super().__init__(message)
        self.report = redacted(report)


@contextmanager
def as_query_error(
    place: Option, kinds: tuple[type[Exception], ...] = (PySparkException, Py4JError)
) -> Iterator[None]:
    """What Spark refuses in here, with an error of these kinds, is a mistake in the query at this place."""
    try:
        yield
    except kinds as error:
        raise QueryError(short_message(error), place) from cause(error)


@contextmanager
def as_run_error() -> Iterator[None]:
    """What fails in here is no mistake in the query: a task, a machine, the way to the cluster."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise RunError(short_message(error), str(error)) from cause(error)
