"""Windrow joins data streams over sliding windows, and says how good the answer is."""

from typing import TYPE_CHECKING, Any

from windrow.engine.operator import Operator
from windrow.engine.sampled_aggregates import estimate
from windrow.engine.shared.operator import SharedOperator
from windrow.errors import DataError, QueryError, StateError, WindrowError
from windrow.explanation.allocate import Allocation, allocate
from windrow.explanation.explain import explain
from windrow.explanation.explanation import Explanation
from windrow.memory_models.allocation import RecallCurve
from windrow.model.access import Access
from windrow.model.interval import Interval
from windrow.model.limits import Deadline, MemoryLimit
from windrow.model.metrics import OperatorMetrics, Quality, StreamMetrics
from windrow.model.plan import Plan
from windrow.model.policies.baselines import Fifo, Random, UntilExpiry
from windrow.model.policies.importance import Greedy, Importance, Lookup, Size
from windrow.model.policies.learned import Age, Auto, Frequency
from windrow.model.policies.sampling import Cluster, PpsCluster, Uniform
from windrow.model.policies.time_policies import Dropping, Harvesting
from windrow.model.query import Function, Query, Stream, Window
from windrow.model.sharing import Subscription

if TYPE_CHECKING:
    from windrow.spark.join import join
    from windrow.spark.memory_pool import MemoryPool
    from windrow.spark.metrics import metrics
    from windrow.spark.shared_join import share
    from windrow.spark.sql import sql
    from windrow.ui.dashboard import Dashboard, dashboard

__version__ = "0.1.0"

__all__ = [
    "Access",
    "Age",
    "Allocation",
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
    "MemoryLimit",
    "MemoryPool",
    "Operator",
    "OperatorMetrics",
    "Plan",
    "PpsCluster",
    "Quality",
    "Query",
    "QueryError",
    "Random",
    "RecallCurve",
    "SharedOperator",
    "Size",
    "StateError",
    "Stream",
    "StreamMetrics",
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
    if name == "MemoryPool":
        from windrow.spark.memory_pool import MemoryPool

        return MemoryPool
    if name == "share":
        from windrow.spark.shared_join import share

        return share
    if name == "sql":
        from windrow.spark.sql import sql

        return sql
    if name == "metrics":
        from windrow.spark.metrics import metrics

        return metrics
    if name in ("dashboard", "Dashboard"):
        from windrow.ui import dashboard

        return getattr(dashboard, name)
    raise AttributeError(f"module 'windrow' has no attribute {name!r}")
