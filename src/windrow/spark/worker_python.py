"""Checks that Spark's workers run a Python that can import Windrow, before a query starts.

By default PySpark runs workers with `python3` from the PATH, often another Python than the driver's. Without
the check, the first micro-batch fails with a Java stack trace.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from windrow.errors import QueryError
from windrow.redaction import cause
from windrow.spark.session import LOCAL, context_of
from windrow.spark.spark_errors import short_message

PROBE = """
import importlib.util as u, sys
missing = [m for m in ("windrow", "pyspark") if u.find_spec(m) is None]
print(*sys.version_info[:2], *missing)
"""
SECONDS = 30
"""Time limit for starting a local Python."""

_checked: WeakSet[Any] = WeakSet()
"""Spark contexts, and sessions of Spark Connect, whose workers can import Windrow."""


def check_worker_python(spark: SparkSession) -> None:
    """Raise a QueryError with the remedy if workers cannot import Windrow. Checks a Spark context once."""
    context = context_of(spark)
    checked = spark if context is None else context
    if checked in _checked:
        return
    if context is not None and LOCAL.fullmatch(context.master or ""):
        _check_local(context.pythonExec)
    else:
        _check_cluster(spark, None if context is None else context.pythonExec)
    _checked.add(checked)


def _check_local(python: str) -> None:
    if python == sys.executable:
        return
    try:
        ended = subprocess.run(
            [python, "-c", PROBE], capture_output=True, text=True, timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise _refused(python, f"it does not start ({error})") from error
    major, minor, *missing = ended.stdout.split()
    if (int(major), int(minor)) != sys.version_info[:2]:
        raise _refused(python, f"it is Python {major}.{minor}, the driver's is {_version()}")
    if missing:
        raise _refused(python, f"it has no module {' or '.join(missing)}")


def _check_cluster(spark: SparkSession, python: str | None) -> None:
    """Run one small task. Its function is nested, so it is sent by value and needs no import of Windrow."""

    def probe(batches: Iterator[Any]) -> Iterator[Any]:
        from importlib.util import find_spec

        if find_spec("windrow") is None:
            raise ModuleNotFoundError("No module named 'windrow'")
        yield from batches

    try:
        spark.range(1, numPartitions=1).mapInArrow(probe, "id long").collect()
    except (PySparkException, Py4JError) as error:
        raise _refused(python, short_message(error), local=False) from cause(error)


def _version() -> str:
    return ".".join(map(str, sys.version_info[:2]))


def _refused(python: str | None, why: str, local: bool = True) -> QueryError:
    remedy = (
        f'before the SparkSession is created: os.environ["PYSPARK_PYTHON"] = "{sys.executable}"'
        if local
        else "install windrow on every executor, and set PYSPARK_PYTHON to that Python before Spark starts"
    )
    which = "" if python is None else f" with {python!r}"
    return QueryError(f"Spark's workers cannot run Windrow{which}: {why}; {remedy}")
