"""Counters of an operator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from windrow.engine.controller import Controller
from windrow.engine.join import Arrivals, Join
from windrow.engine.quality import EXACT, quality
from windrow.engine.rows import LeftOut
from windrow.engine.timekeeper import TimeKeeper
from windrow.model.measurements import Measurements, StreamMeasurements

PER_STREAM = ("rows_in", "rows_null_time", "rows_late", "rows_ahead", "rows_filtered", "rows_expired")


class Tally:
    def __init__(self, streams: int) -> None:
        self.counts = {name: [0] * streams for name in PER_STREAM}
        self.dropped = [0] * streams
        """Rows that came when the buffer was full and there was no time for them."""
        self.results = 0
        self.evaluations = 0
        self.compared_before = 0
        """Comparisons of the operator this one was restored from."""

    def admit(self, stream: int, rows: int, left_out: LeftOut) -> None:
        self.counts["rows_in"][stream] += rows
        self.counts["rows_null_time"][stream] += left_out.null_times
        self.counts["rows_late"][stream] += left_out.late
        self.counts["rows_ahead"][stream] += left_out.ahead

    def filtered(self, arrivals: Sequence[Arrivals]) -> None:
        for stream, arrived in enumerate(arrivals):
            if arrived.useful is not None:
                self.counts["rows_filtered"][stream] += int(len(arrived.useful) - arrived.useful.sum())

    def expired(self, rows: Sequence[int]) -> None:
        for stream, count in enumerate(rows):
            self.counts["rows_expired"][stream] += count

    def rows_evaluated(self, join: Join) -> int:
        """Rows that have come into the windows so far."""
        shed = (sum(join.shedder.shed) if join.shedder else 0) + sum(join.conserved)
        return sum(self.counts["rows_expired"]) + shed + sum(map(len, join.windows))

    def to_json(self) -> dict[str, Any]:
        return {
            "counts": self.counts,
            "dropped": self.dropped,
            "results": self.results,
            "evaluations": self.evaluations,
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Goes on from the counters of a stored state."""
        self.counts = {name: list(counts) for name, counts in saved["counts"].items()}
        self.dropped = list(saved["dropped"])
        self.results, self.evaluations = saved["results"], saved["evaluations"]
        self.compared_before = saved["compared"]

    def measurements(
        self,
        aliases: Sequence[str],
        join: Join | None,
        waiting: Sequence[int],
        newest: Sequence[int | None],
        controller: Controller,
        passes: int,
        keeper: TimeKeeper | None,
    ) -> Measurements:
        windows = join.windows if join else []
        sizes = [len(w) for w in windows] or [0] * len(aliases)
        memory = [w.nbytes for w in windows] or [0] * len(aliases)
        shedder = join.shedder if join else None
        none = [0] * len(aliases)
        shed = [
            a + b
            for a, b in zip(shedder.shed if shedder else none, join.conserved if join else none, strict=True)
        ]
        dropped = [a + b for a, b in zip(self.dropped, join.dropped if join else none, strict=True)]
        blind = [a + b for a, b in zip(self.dropped, join.blind if join else none, strict=True)]
        let_in = math.prod(1 - d / max(n, 1) for d, n in zip(blind, self.counts["rows_in"], strict=True))
        told = quality(join, self.results, let_in) if join else EXACT
        streams = {
            alias: StreamMeasurements(
                **{name: self.counts[name][s] for name in PER_STREAM},
                rows_shed=shed[s],
                rows_dropped=dropped[s],
                window_rows=sizes[s],
                memory_bytes=memory[s],
                rate=controller.rates[s],
                newest=newest[s],
            )
            for s, alias in enumerate(aliases)
        }
        return Measurements(
            rows_in=sum(self.counts["rows_in"]),
            rows_late=sum(self.counts["rows_late"]),
            rows_ahead=sum(self.counts["rows_ahead"]),
            rows_null_time=sum(self.counts["rows_null_time"]),
            rows_filtered=sum(self.counts["rows_filtered"]),
            rows_shed=sum(shed),
            rows_dropped=sum(dropped),
            rows_waiting=sum(waiting),
            results=self.results,
            window_rows=sum(sizes),
            memory_bytes=sum(memory),
            comparisons=self.compared_before + (join.compared if join else 0),
            evaluations=self.evaluations,
            expiry_passes=passes,
            replans=controller.replans,
            throttle=keeper.lately if keeper else 1.0,
            overruns=keeper.overrun if keeper else 0,
            recall=told.recall,
            recall_low=told.low,
            recall_high=told.high,
            quality=told,
            streams=streams,
        )
