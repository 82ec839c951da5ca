"""Metrics of a running join: what it has counted itself, and what its parts keep."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from windrow.engine.counters import SHED, sums
from windrow.engine.limits.quality import EXACT, quality
from windrow.model.metric_fields import merged
from windrow.model.metrics import OperatorMetrics, StreamCounts, StreamMetrics

if TYPE_CHECKING:
    from windrow.engine.runner import JoinRunner


def operator_metrics(runner: JoinRunner) -> OperatorMetrics:
    counters, join, controller = runner.counters, runner.join, runner.deadline_controller
    aliases = runner.query.aliases
    counts = counters.counts | {n: sums(counters.counts[n], counters.shed_before[n]) for n in SHED}
    known = EXACT
    if join is not None:
        evicted = join.evictor.evicted if join.evictor else [0] * len(aliases)
        # Rows with probability 0 of admission: of each combination all rows must have been admitted.
        blind = sums(counters.counts["rows_dropped"], join.unsampled)
        admitted = math.prod(1 - d / max(n, 1) for d, n in zip(blind, counts["rows_in"], strict=True))
        known = quality(join, counters.results, admitted)
        # Without a limit on disk, what a cold start has mapped counts as memory: it may all be read.
        spilled = [window.bytes_in_files if join.spiller else 0 for window in join.windows]
        counts = counts | {
            "rows_evicted": sums(evicted, join.conserved, counts["rows_evicted"]),
            "rows_dropped": sums(counts["rows_dropped"], join.dropped),
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
            rate=runner.planner.rates[s],
            max_event_time=runner.watermarks.max_event_times[s],
        )
        for s, alias in enumerate(aliases)
    }
    return OperatorMetrics(
        **merged(StreamCounts, [vars(stream) for stream in streams.values()]),
        rows_buffered=sum(map(len, runner.buffer)),
        results=counters.results,
        **(join.outer.counts if join is not None and join.outer is not None else {}),
        combinations_failed=join.failed.count if join else 0,
        comparisons=runner.work[0],
        sub_batches=counters.sub_batches,
        expiry_passes=runner.expiry.passes,
        replans=runner.planner.replans,
        throttle_fraction=controller.mean_throttle if controller else 1.0,
        missed_deadlines=controller.missed_deadlines if controller else 0,
        quality=known,
        complete_from=runner.completeness.complete_from,
        streams=streams,
    )
