"""Windrow joins data streams over sliding windows, and says how good the answer is."""

from windrow.engine.explain import explain
from windrow.engine.operator import Operator
from windrow.errors import DataError, QueryError, StateError, WindrowError
from windrow.model.measurements import Measurements, StreamMeasurements
from windrow.model.plan import Plan
from windrow.model.query import Access, Function, Interval, Query, Stream, Window

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
]
