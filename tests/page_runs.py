"""Runs for the page without Spark: real operators on a virtual clock, told as `windrow run` tells them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr
from windrow.model.query_metrics import BatchQueryMetrics
from windrow.spark.metrics import BatchMetrics
from windrow.spark.partition_report import partition_metrics
from windrow.spark.query_progress import BatchProgress
from windrow_lab.clock import VirtualClock, WorkClock

START = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
SECONDS = 4.0
"""Event time of a batch, and what lies between two."""
LAGS = (0.0, 4.0, 6.0)
SHARES = (1.0, 0.8, 0.6)


class Run:
    """Three streams that follow one signal, each later than the other, joined in partitions.

    Parameters
    ----------
    rate
        Rows of the first stream in a batch and partition.
    limits
        As in `Query`: memory, deadline, shed.
    """

    def __init__(self, rate: int = 60, partitions: int = 2, **limits: Any) -> None:
        self.query = wr.Query(
            {alias: wr.Stream("at", "20 seconds", "scan") for alias in "abc"},
            on="abs(a.x - b.x) <= 2 and abs(b.x - c.x) <= 2",
            **limits,
        )
        self.rate = rate
        self.batch = 0
        self._rng = np.random.default_rng(7)
        self._signal = np.cumsum(self._rng.normal(0, 1, 20_000)) * 10
        self._operators = [self._operator() for _ in range(partitions)]

    def _operator(self) -> tuple[wr.Operator, WorkClock]:
        clock = WorkClock(VirtualClock(1_000_000))
        schema = pa.schema([("x", pa.float64()), ("at", pa.timestamp("us", "UTC"))])
        clock.operator = wr.Operator(self.query, dict.fromkeys(self.query.aliases, schema), clock)
        return clock.operator, clock

    def rows(self, lag: float, count: int) -> pa.Table:
        times = np.sort(self._rng.uniform(self.batch * SECONDS, (self.batch + 1) * SECONDS, count))
        place = ((times - lag + 100) * 40).astype(int) % len(self._signal)
        at = (START.timestamp() * 1e6 + times * 1e6).astype(np.int64)
        values = self._signal[place] + self._rng.normal(0, 2, count)
        return pa.table({"x": values, "at": pa.array(at, pa.timestamp("us", "UTC"))})

    def next(
        self, queries: dict[str, BatchQueryMetrics] | None = None, began: datetime | None = None
    ) -> dict:
        """The document of the next batch."""
        load = 1 + 1.2 * np.exp(-(((self.batch - 24) / 7) ** 2))
        parts = []
        for number, (operator, clock) in enumerate(self._operators):
            rows = {
                alias: self.rows(lag, int(self.rate * load * share * (1 + 0.3 * number)))
                for alias, lag, share in zip(self.query.aliases, LAGS, SHARES, strict=True)
            }
            before, then = operator.metrics(), clock()
            operator.process(rows)
            limit = self.query.time_limit
            metrics = partition_metrics(
                self.query,
                before,
                operator.metrics(),
                counted={},
                limit=self.query.memory_limit,
                allowed=None if limit is None else limit.seconds(0),
                batch=self.batch,
                partition=number,
                control_errors=(),
                state_cache_hit=False,
                hot_key=f"key {number}",
                hot_key_share=0.04,
                seconds_read_input=0.01,
                seconds_load_state=0.0,
                seconds_process=clock() - then,
                seconds_commit_state=0.02,
                queries=queries or {},
                learned_models=operator.learned_models().to_dict(),
            )
            parts.append(metrics)
        when = began or START + timedelta(seconds=self.batch * SECONDS)
        seconds = max(0.8, 0.2 + max(part.seconds_process for part in parts))
        join = BatchMetrics.of("sensors", self.batch, seconds, parts)
        told = BatchProgress(self.batch, when.isoformat(), seconds, join.rows_in, 0, None, (join,)).to_dict()
        self.batch += 1
        return json.loads(json.dumps(told))


def limited(**changes: Any) -> Run:
    """Too little memory, too little time."""
    return Run(**{"memory": "700 rows", "deadline": "100 ms"} | changes)


def record(path: Path, batches: int, run: Run | None = None) -> list[dict]:
    """Writes a run as `--metrics` does."""
    made = run or limited()
    told = [made.next() for _ in range(batches)]
    path.write_text("".join(json.dumps(batch) + "\n" for batch in told), encoding="utf-8")
    return told
