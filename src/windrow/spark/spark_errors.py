"""Shortens Spark's long errors to one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from windrow.errors import Option, QueryError, WindrowError
from windrow.model.keywords import checks_keywords
from windrow.redaction import cause, redacted

# Errors of a worker reach the driver only as text, in a Java exception.
_OURS = re.compile(r"^\s*windrow\.errors\.(\w+): (.+)$", re.MULTILINE)
_PYTHON = re.compile(r"^((?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
_CLASS = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ")
_STATE = re.compile(r"\.?\s*SQLSTATE: \w+.*$")
_RPC = re.compile(r'^\s*details = "(.+)"$', re.MULTILINE)
"""The message of a failed call to a Spark Connect server."""
# What Py4J and Spark's scheduler put in front of the cause.
_CALL = re.compile(r"^An error occurred while calling \S+\s+: ")
_TASK = re.compile(r"^.*most recent failure: Lost task \S+ in stage \S+ \(TID \d+\) \(.*?\): ")


def short_message(error: BaseException) -> str:
    """The cause of an error, without stack trace, plan and credentials.

    The error of a failed micro-batch quotes the traceback of its Python worker. The cause is Windrow's own
    error if there is one, else the traceback's last line. Other errors begin with a condition in brackets.
    """
    text = _CALL.sub("", redacted(str(error)))
    if ours := _OURS.findall(text):
        return ": ".join(ours[-1])
    if "Traceback (most recent call last)" in text and (raised := _PYTHON.findall(text)):
        return ": ".join(raised[-1])
    if refused := _RPC.search(text):
        return refused[1]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # The innermost condition is the cause; "[STREAM_FAILED] Query ... terminated with exception:" is not.
    line = next((line for line in lines if _CLASS.search(line)), lines[0] if lines else type(error).__name__)
    line = line[list(_CLASS.finditer(line))[-1].end() :] if _CLASS.search(line) else line
    return _STATE.sub("", _TASK.sub("", line)).strip().rstrip(".")


class RunError(WindrowError):
    """A correct query failed while running. `report` is Spark's complete message."""

    def __init__(self, message: str, report: str) -> None:
        super().__init__(message)
        self.report = redacted(report)


@contextmanager
def as_query_error(
    place: Option | None, kinds: tuple[type[Exception], ...] = (PySparkException, Py4JError)
) -> Iterator[None]:
    """Turn Spark's errors of these kinds into a QueryError at `place`."""
    try:
        yield
    except kinds as error:
        raise QueryError(short_message(error), place) from cause(error)


@contextmanager
def as_run_error() -> Iterator[None]:
    """Turn Spark's errors into a RunError: a task, a machine or the connection to the cluster failed."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise RunError(short_message(error), str(error)) from cause(error)


def check_started(query: object) -> None:
    """Raise a QueryError if this is not a streaming query."""
    if not hasattr(query, "recentProgress"):
        raise QueryError(
            f"expected a query as writeStream.start() returns it, got {type(query).__name__}", Option("query")
        )


@checks_keywords("wr.reason")
def reason(query: StreamingQuery) -> str | None:
    """Why a streaming query failed, in one sentence without Java; None while it runs or if it was stopped.

    Examples
    --------
    >>> query.awaitTermination(60)                                                     # doctest: +SKIP
    >>> print(wr.reason(query))                                                        # doctest: +SKIP
    """
    check_started(query)
    failed = query.exception()
    return None if failed is None else short_message(failed)
