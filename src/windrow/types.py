"""Values that functions of `windrow` take or return, for annotations and for looking things up."""

from typing import TYPE_CHECKING

from windrow.engine.shared.grouping import QueryGroup
from windrow.engine.shared.results import ResultsByQuery
from windrow.errors import Option
from windrow.explanation.allocate import Allocation
from windrow.explanation.dry_run import DryRun
from windrow.explanation.explanation import SharedExplanation
from windrow.harvest.time_curve import TimeCurve
from windrow.lazy import lazy_names
from windrow.model.access import Access
from windrow.model.execution import SkewedKeys
from windrow.model.harvest import Harvest
from windrow.model.interval import Interval
from windrow.model.learned_models import LearnedModels
from windrow.model.limits import Deadline, MemoryLimit
from windrow.model.metrics import OperatorMetrics, Quality, StreamMetrics
from windrow.model.plan import Direction, Plan, Step
from windrow.model.query_metrics import BatchQueryMetrics, QueryMetrics, SearchProgress, SharedMetrics

if TYPE_CHECKING:
    from windrow.spark.files.file_stream import FileStream
    from windrow.spark.metrics import BatchMetrics, MetricsList, PartitionMetrics, PartitionStreamMetrics
    from windrow.ui.dashboard import Dashboard

__all__ = [
    "Access",
    "Allocation",
    "BatchMetrics",
    "BatchQueryMetrics",
    "Dashboard",
    "Deadline",
    "Direction",
    "DryRun",
    "FileStream",
    "Harvest",
    "Interval",
    "LearnedModels",
    "MemoryLimit",
    "MetricsList",
    "OperatorMetrics",
    "Option",
    "PartitionMetrics",
    "PartitionStreamMetrics",
    "Plan",
    "Quality",
    "QueryGroup",
    "QueryMetrics",
    "ResultsByQuery",
    "SearchProgress",
    "SharedExplanation",
    "SharedMetrics",
    "SkewedKeys",
    "Step",
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
        "PartitionStreamMetrics": "windrow.spark.metrics",
        "Dashboard": "windrow.ui.dashboard",
    },
    __all__,
)


def __dir__() -> list[str]:
    return __all__
