"""Counters of an operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from windrow.engine.join import Join
from windrow.engine.rows import ArrivingRows, LeftOut
from windrow.model.metric_fields import metrics_of
from windrow.model.metrics import StreamCounts
from windrow.model.stateful import Stateful

SHED = ("rows_evicted", "rows_dropped")
PER_STREAM = [metric.name for metric in metrics_of(StreamCounts) if metric.counter]


class Counters(Stateful):
    saved = ("counts", "results", "sub_batches", "shed_before")

    def __init__(self, streams: int) -> None:
        self.counts = {name: [0] * streams for name in PER_STREAM}
        """Counts per stream, except those the join keeps."""
        self.shed_before: dict[str, list[int]] = {name: [0] * streams for name in SHED}
        """Rows shed under limits that no longer apply, per stream."""
        self.results = 0
        self.sub_batches = 0
        self.compared_before = 0
        """Comparisons of the operator this one was restored from."""

    def count(self, name: str, rows: Sequence[int]) -> None:
        """Add rows of each stream to a counter."""
        self.counts[name] = sums(self.counts[name], rows)

    def admit(self, stream: int, rows: int, left_out: LeftOut) -> None:
        self.counts["rows_in"][stream] += rows
        self.counts["rows_null_time"][stream] += left_out.null_times
        self.counts["rows_late"][stream] += 0 if left_out.late is None else left_out.late.num_rows
        self.counts["rows_ahead"][stream] += 0 if left_out.ahead is None else left_out.ahead.num_rows

    def filtered(self, arrivals: Sequence[ArrivingRows]) -> None:
        useful = [arrived.joinable for arrived in arrivals]
        self.count("rows_filtered", [0 if u is None else int(len(u) - u.sum()) for u in useful])

    def counted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches of results, counted as they pass."""
        for batch in batches:
            self.results += batch.num_rows
            yield batch

    def rows_evaluated(self, join: Join) -> int:
        """Rows stored in the windows so far."""
        shed = (sum(join.evictor.evicted) if join.evictor else 0) + sum(join.conserved)
        before = sum(self.shed_before["rows_evicted"])
        return sum(self.counts["rows_expired"]) + before + shed + sum(map(len, join.windows))

    def count_shed_before(self, name: str, rows: Sequence[int]) -> None:
        """Add rows of each stream that were shed under a limit that no longer applies."""
        self.shed_before[name] = sums(self.shed_before[name], rows)

    def restore(self, values: dict[str, Any]) -> None:
        super().restore(values | {"counts": self.counts | values["counts"]})


def sums(*counts: Sequence[int]) -> list[int]:
    """Sums per stream."""
    return [sum(each) for each in zip(*counts, strict=True)]
