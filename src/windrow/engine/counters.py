"""Counters of an operator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from windrow.engine.adaptive_planner import AdaptivePlanner
from windrow.engine.join import Join
from windrow.engine.limits.deadline_controller import DeadlineController
from windrow.engine.limits.quality import EXACT, quality
from windrow.engine.rows import ArrivingRows, LeftOut
from windrow.model.metric_fields import merged, metrics_of
from windrow.model.metrics import OperatorMetrics, StreamCounts, StreamMetrics
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
        self.counts[name] = _sums(self.counts[name], rows)

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
        self.shed_before[name] = _sums(self.shed_before[name], rows)

    def metrics(
        self,
        aliases: Sequence[str],
        join: Join | None,
        buffered: Sequence[int],
        max_event_times: Sequence[int | None],
        planner: AdaptivePlanner,
        passes: int,
        deadline_controller: DeadlineController | None,
        complete_from: int | None,
    ) -> OperatorMetrics:
        counts = self.counts | {name: _sums(self.counts[name], self.shed_before[name]) for name in SHED}
        known = EXACT
        if join is not None:
            evicted = join.evictor.evicted if join.evictor else [0] * len(aliases)
            # Rows that had no chance of being admitted: of each combination all rows must have been admitted.
            blind = _sums(self.counts["rows_dropped"], join.unsampled)
            admitted = math.prod(1 - d / max(n, 1) for d, n in zip(blind, counts["rows_in"], strict=True))
            known = quality(join, self.results, admitted)
            # Without a limit on disk, what a cold start has mapped counts as memory: it may all be read.
            spilled = [window.bytes_in_files if join.spiller else 0 for window in join.windows]
            counts = counts | {
                "rows_evicted": _sums(evicted, join.conserved, counts["rows_evicted"]),
                "rows_dropped": _sums(counts["rows_dropped"], join.dropped),
                "window_rows": [len(window) for window in join.windows],
                "memory_bytes": [
                    window.nbytes - files + (join.outer.nbytes(s) if join.outer else 0)
                    for s, (window, files) in enumerate(zip(join.windows, spilled, strict=True))
                ],
                "spilled_bytes": spilled,
            }
        streams = {
            alias: StreamMetrics(
                **{name: each[s] for name, each in counts.items()},
                rate=planner.rates[s],
                max_event_time=max_event_times[s],
            )
            for s, alias in enumerate(aliases)
        }
        return OperatorMetrics(
            **merged(StreamCounts, [vars(stream) for stream in streams.values()]),
            rows_buffered=sum(buffered),
            results=self.results,
            **(join.outer.counts if join is not None and join.outer is not None else {}),
            combinations_failed=join.failed.count if join else 0,
            comparisons=self.compared_before + (join.comparisons if join else 0),
            sub_batches=self.sub_batches,
            expiry_passes=passes,
            replans=planner.replans,
            throttle_fraction=deadline_controller.mean_throttle if deadline_controller else 1.0,
            missed_deadlines=deadline_controller.missed_deadlines if deadline_controller else 0,
            quality=known,
            complete_from=complete_from,
            streams=streams,
        )

    def restore(self, values: dict[str, Any]) -> None:
        super().restore(values | {"counts": self.counts | values["counts"]})


def _sums(*counts: Sequence[int]) -> list[int]:
    """Sums per stream."""
    return [sum(each) for each in zip(*counts, strict=True)]
