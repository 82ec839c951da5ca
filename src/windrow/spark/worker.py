"""The process from which Spark forks its Python workers, with the engine loaded and its kernels compiled.

`session.SETTINGS` sets `spark.python.daemon.module` to this module. A new worker can then join at once.
Without the setting each worker's first task imports the engine and loads its kernels.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark import daemon

from windrow.engine.operator import Operator
from windrow.engine.shared.operator import SharedOperator
from windrow.model.query import Query, Stream
from windrow.spark.files.places import spark_hash
from windrow.spark.task import freeze_loaded_objects


def warm() -> None:
    """Join a few rows, so that kernels are compiled before the first fork."""
    times = pa.array([0, 1, 2], pa.timestamp("us", "UTC"))
    rows = pa.record_batch({"t": times, "k": pa.array([1, 2, 3]), "s": pa.array(["x", "y", "z"])})
    streams = {alias: Stream("t", "1 second") for alias in ("a", "b")}
    for on in ("a.k = b.k", "a.s = b.s", "abs(a.k - b.k) <= 1"):
        Operator(Query(streams, on)).process({"a": rows, "b": rows})
    shared = {w: Query({a: Stream("t", w) for a in streams}, "a.k = b.k") for w in ("1 us", "1 second")}
    dict(SharedOperator(shared).process({"a": rows, "b": rows}))
    spark_hash(rows.columns, rows.num_rows)


if __name__ == "__main__":
    warm()
    freeze_loaded_objects()
    daemon.manager()
