"""Windrow joins data streams over sliding windows, and says how good the answer is."""

from typing import TYPE_CHECKING, Any

from windrow.engine.allocate import Allotted, allocate
from windrow.engine.estimate import estimate
from windrow.engine.explain import explain
from windrow.engine.explanation import Explanation
from windrow.engine.operator import Operator
from windrow.engine.shared.operator import SharedOperator
from windrow.errors import DataError, QueryError, StateError, WindrowError
from windrow.model.access import Access
from windrow.model.deadline import Deadline
from windrow.model.importance import Greedy, Importance, Lookup, Size
from windrow.model.interval import Interval
from windrow.model.learned import Age, Auto, Frequency
from windrow.model.limit import MemoryLimit
from windrow.model.measurements import Measurements, Quality, StreamMeasurements
from windrow.model.plan import Plan
from windrow.model.policies import Fifo, Random, UntilExpiry
from windrow.model.query import Function, Query, Stream, Window
from windrow.model.samples import Cluster, PpsCluster, Sample, Uniform
from windrow.model.sharing import Subscription
from windrow.model.time_policies import Dropping, Harvesting
from windrow.planning.allocation import RecallCurve

if TYPE_CHECKING:
    from windrow.page.dashboard import Dashboard, dashboard
    from windrow.spark.join import join
    from windrow.spark.metrics import metrics
    from windrow.spark.pool import Pool
    from windrow.spark.share import share
    from windrow.spark.sql import sql

__version__ = "0.1.0"

__all__ = [
    "Access",
    "Age",
    "Allotted",
    "Auto",
    "Cluster",
    "Dashboard",
    "DataError",
    "Deadline",
    "Dropping",
    "Explanation",
    "Fifo",
    "Frequency",
    "Function",
    "Greedy",
    "Harvesting",
    "Importance",
    "Interval",
    "Lookup",
    "Measurements",
    "MemoryLimit",
    "Operator",
    "Plan",
    "Pool",
    "PpsCluster",
    "Quality",
    "Query",
    "QueryError",
    "Random",
    "RecallCurve",
    "Sample",
    "SharedOperator",
    "Size",
    "StateError",
    "Stream",
    "StreamMeasurements",
    "Subscription",
    "Uniform",
    "UntilExpiry",
    "Window",
    "WindrowError",
    "allocate",
    "dashboard",
    "estimate",
    "explain",
    "join",
    "metrics",
    "share",
    "sql",
]


def __getattr__(name: str) -> Any:
    """What needs Spark is imported when it is first asked for."""
    if name == "join":
        from windrow.spark.join import join

        return join
    if name == "Pool":
        from windrow.spark.pool import Pool

        return Pool
    if name == "share":
        from windrow.spark.share import share

        return share
    if name == "sql":
        from windrow.spark.sql import sql

        return sql
    if name == "metrics":
        from windrow.spark.metrics import metrics

        return metrics
    if name in ("dashboard", "Dashboard"):
        from windrow.page import dashboard

        return getattr(dashboard, name)
    raise AttributeError(f"module 'windrow' has no attribute {name!r}")
