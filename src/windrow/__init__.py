"""Windrow joins data streams over sliding windows, and says how good the answer is."""

from typing import TYPE_CHECKING

from windrow import policies, testing, types
from windrow.engine.operator import Operator
from windrow.engine.sampled_aggregates import estimate
from windrow.engine.shared.operator import SharedOperator
from windrow.errors import DataError, QueryError, StateError, WindrowError
from windrow.explanation.allocate import allocate
from windrow.explanation.explain import explain
from windrow.explanation.explanation import Explanation
from windrow.lazy import lazy_names
from windrow.memory_models.allocation import RecallCurve
from windrow.model.query import Function, Query, Stream, Window
from windrow.model.sharing import Subscription

if TYPE_CHECKING:
    from windrow.spark.files.file_stream import files
    from windrow.spark.join import join
    from windrow.spark.memory_pool import MemoryPool
    from windrow.spark.metrics import metrics
    from windrow.spark.shared_join import share
    from windrow.spark.spark_errors import reason
    from windrow.spark.sql import sql
    from windrow.ui.dashboard import dashboard

__version__ = "0.1.0"

__all__ = [
    "DataError",
    "Explanation",
    "Function",
    "MemoryPool",
    "Operator",
    "Query",
    "QueryError",
    "RecallCurve",
    "SharedOperator",
    "StateError",
    "Stream",
    "Subscription",
    "Window",
    "WindrowError",
    "allocate",
    "dashboard",
    "estimate",
    "explain",
    "files",
    "join",
    "metrics",
    "policies",
    "reason",
    "share",
    "sql",
    "testing",
    "types",
]

__getattr__ = lazy_names(
    __name__,
    {
        "files": "windrow.spark.files.file_stream",
        "join": "windrow.spark.join",
        "share": "windrow.spark.shared_join",
        "sql": "windrow.spark.sql",
        "metrics": "windrow.spark.metrics",
        "reason": "windrow.spark.spark_errors",
        "MemoryPool": "windrow.spark.memory_pool",
        "dashboard": "windrow.ui.dashboard",
    },
    __all__,
)


def __dir__() -> list[str]:
    """For completion: what is public, and nothing else."""
    return [*__all__, "__version__"]
