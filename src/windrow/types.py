"""Values that functions of `windrow` take or return, for annotations and for looking things up."""

from typing import TYPE_CHECKING

from windrow.engine.shared.grouping import QueryGroup
from windrow.explanation.allocate import Allocation
from windrow.explanation.dry_run import DryRun
from windrow.explanation.explanation import SharedExplanation
from windrow.harvest.time_curve import TimeCurve
from windrow.lazy import lazy_names
from windrow.model.access import Access
from windrow.model.interval import Interval
from windrow.model.limits import Deadline, MemoryLimit
from windrow.model.metrics import OperatorMetrics, Quality, StreamMetrics
from windrow.model.plan import Plan
from windrow.model.sharing import QueryMetrics, SharedMetrics

if TYPE_CHECKING:
    from windrow.spark.files.file_stream import FileStream
    from windrow.spark.metrics import BatchMetrics, MetricsList, PartitionMetrics
    from windrow.ui.dashboard import Dashboard

__all__ = [
    "Access",
    "Allocation",
    "BatchMetrics",
    "Dashboard",
    "Deadline",
    "DryRun",
    "FileStream",
    "Interval",
    "MemoryLimit",
    "MetricsList",
    "OperatorMetrics",
    "PartitionMetrics",
    "Plan",
    "Quality",
    "QueryGroup",
    "QueryMetrics",
    "SharedExplanation",
    "SharedMetrics",
    "StreamMetrics",
    "TimeCurve",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BatchMetrics": "windrow.spark.metrics",
        "FileStream": "windrow.spark.files.file_stream",
        "MetricsList": "windrow.spark.metrics",
        "PartitionMetrics": "windrow.spark.metrics",
        "Dashboard": "windrow.ui.dashboard",
    },
    __all__,
)


def __dir__() -> list[str]:
    return __all__
