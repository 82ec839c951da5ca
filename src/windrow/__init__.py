"""Windrow joins data streams over sliding windows, and says how good the answer is."""

from typing import TYPE_CHECKING, Any

from windrow.engine.explain import explain
from windrow.engine.operator import Operator
from windrow.errors import DataError, QueryError, StateError, WindrowError
from windrow.model.measurements import Measurements, StreamMeasurements
from windrow.model.plan import Plan
from windrow.model.query import Access, Function, Interval, Query, Stream, Window

if TYPE_CHECKING:
    from windrow.spark.join import join
    from windrow.spark.metrics import metrics

__version__ = "0.1.0"

__all__ = [
    "Access",
    "DataError",
    "Function",
    "Interval",
    "Measurements",
    "Operator",
    "Plan",
    "Query",
    "QueryError",
    "StateError",
    "Stream",
    "StreamMeasurements",
    "Window",
    "WindrowError",
    "explain",
    "join",
    "metrics",
]


def __getattr__(name: str) -> Any:
    """What needs Spark is imported when it is first asked for."""
    if name == "join":
        from windrow.spark.join import join

        return join
    if name == "metrics":
        from windrow.spark.metrics import metrics

        return metrics
    raise AttributeError(f"module 'windrow' has no attribute {name!r}")
