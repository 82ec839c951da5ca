"""The history of a query in bounded memory: points for the charts, totals, and the latest values.

Its input are the reports that `windrow run --metrics` writes (`BatchProgress.to_dict`), live or from a file.
Neighbouring points are merged when there are more than a chart can show, so a long run is kept in full but
coarser.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import uuid4

import windrow
from windrow.errors import DataError
from windrow.model.metric_fields import lost_rows, metrics_of
from windrow.model.metrics import BatchCounts, StreamCounts
from windrow.model.units import json_value
from windrow.redaction import redacted
from windrow.ui.batch_point import DIGITS, BatchPoint

MOST_POINTS = 300
"""Points per join; neighbours are merged at twice as many."""
MOST_LEARNED = 8
"""Partitions whose learned models are kept: those that reported last."""
MOST_CONTROL_ERRORS = 5
"""The last reasons why control messages were refused."""
MOST_PARTITIONS = 64
"""Partitions that are shown one by one: those with the most rows."""
PARTITION_FIELDS = (
    "partition", "batch", "memory_limit", "memory_limit_size", "deadline_seconds", "hot_key", "hot_key_share",
    "seconds", *(m.name for m in metrics_of(BatchCounts)),
)  # fmt: skip
"""Of a partition on the page."""


class JoinHistory:
    """The history of one join."""

    def __init__(self) -> None:
        self.points: list[BatchPoint] = []
        self.total: BatchPoint | None = None
        """All micro-batches merged."""
        self.partitions: dict[int, Mapping[str, Any]] = {}
        """The last report of each."""
        self.learned_models: dict[int, Mapping[str, Any]] = {}
        self.control_errors: dict[str, int] = {}
        """Why control messages were refused, with the micro-batch."""
        self._each = 1
        """Micro-batches per point."""
        self._gathering: BatchPoint | None = None
        self.latest: BatchPoint | None = None
        """The last micro-batch alone."""

    def add(self, report: Mapping[str, Any], join: Mapping[str, Any], at: float, span: float) -> None:
        for part in join["partitions"]:
            # A file of another version may lack a field. It is refused here, where its line is known.
            _ = [part[name] for name in PARTITION_FIELDS]
            _ = [stream["max_event_time"] for stream in part["streams"].values()]
            number = part["partition"]
            self.partitions[number] = part
            if part["learned_models"]:
                self.learned_models.pop(number, None)
                self.learned_models[number] = part["learned_models"]
            for reason in part["control_errors"]:
                self.control_errors.pop(reason, None)
                self.control_errors[reason] = report["batch"]
        _forget(self.learned_models, MOST_LEARNED)
        _forget(self.control_errors, MOST_CONTROL_ERRORS)
        point = BatchPoint.read(report, join, at, span, list(self.partitions.values()))
        if self.latest is not None and self.latest is self.points[0]:
            # How long the rows of the first micro-batch had been arriving was unknown; assume the usual span.
            self.points[0] = replace(self.points[0], span=max(span, self.points[0].seconds))
        self.latest = point
        self.total = point if self.total is None else self.total.and_then(point)
        self._append(point)

    def _append(self, point: BatchPoint) -> None:
        gathered = point if self._gathering is None else self._gathering.and_then(point)
        if gathered.batches < self._each:
            self._gathering = gathered
            return
        self._gathering = None
        self.points.append(gathered)
        if len(self.points) >= 2 * MOST_POINTS:
            # Halve the resolution of the whole run, so that all points cover the same number of batches.
            pairs = zip(self.points[::2], self.points[1::2], strict=True)
            self.points = [first.and_then(second) for first, second in pairs]
            self._each *= 2

    def page_data(self) -> dict[str, Any]:
        """The current values, for the page."""
        assert self.total is not None and self.latest is not None
        points = [*self.points, *([self._gathering] if self._gathering else [])]
        shown = sorted(self.partitions.values(), key=lambda p: -(p["rows_in"] + p["rows_copied"]))
        return {
            "points": [point.plain for point in points],
            "latest": self.latest.plain,
            "total": self.total.plain,
            "streams": {alias: self._stream(alias) for alias in self.total.streams},
            "partitions": [_partition(p) for p in shown[:MOST_PARTITIONS]],
            "partitions_known": len(self.partitions),
            "learned_models": {
                str(number): self.learned_models[number] for number in sorted(self.learned_models)
            },
            "control_errors": [f"batch {batch}: {reason}" for reason, batch in self.control_errors.items()],
        }

    def _stream(self, alias: str) -> dict[str, Any]:
        """A stream on the page: counts since the start, and current window contents."""
        assert self.total is not None and self.latest is not None
        total, latest = self.total.streams[alias], self.latest.streams[alias]
        times = [part["streams"][alias]["max_event_time"] for part in self.partitions.values()]
        return {
            "rows_in": total.rows_in,
            "rows_filtered": total.rows_filtered,
            "lost": lost_rows(StreamCounts, total),
            "window_rows": latest.window_rows,
            "memory_bytes": latest.memory_bytes,
            "max_event_time": max((time for time in times if time is not None), default=None),
        }


class History:
    """The history of a query. Methods may be called from different threads.

    Parameters
    ----------
    name
        Name of the query on the page.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.id = uuid4().hex[:12]
        """New with every start, so that a page notices another run."""
        self.state = "waiting"
        """waiting, running, stopped, done, failed, or recorded."""
        self.error: str | None = None
        self.joins: dict[str, JoinHistory] = {}
        self.batches = 0
        self.results_late = 0
        self.began = time.time() * 1000
        """When it was started, in milliseconds since 1970."""
        self._last: float | None = None
        self._count = 0
        self.lock = threading.Lock()
        """Hold it while reading `joins`."""

    def add(self, report: Mapping[str, Any]) -> None:
        """Add a micro-batch."""
        with self.lock:
            try:
                began = _moment(report["began"])
                seconds = float(report["seconds"])
                since_last = seconds if self._last is None else (began - self._last) / 1000
                # Negative if the query was restarted from an older checkpoint.
                span = since_last if since_last > 0 else seconds
                results_late = int(report["results_late"])
                for name, join in report["joins"].items():
                    self.joins.setdefault(name, JoinHistory()).add(report, join, began + 1000 * seconds, span)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise DataError(
                    f"not the metrics of a batch: {type(error).__name__} {error}; expected a line that "
                    "`windrow run --metrics` wrote"
                ) from error
            self.batches += 1
            self.results_late += results_late
            self._last = began
            self._count += 1
            if self.state == "waiting":
                self.state = "running"

    def end(self, state: str, error: str | None = None) -> None:
        with self.lock:
            self.state, self.error = state, None if error is None else redacted(error)
            self._count += 1

    def restart(self) -> None:
        """Note a restart of the query."""
        with self.lock:
            self.id, self.state, self.error = uuid4().hex[:12], "waiting", None
            self.began, self._last = time.time() * 1000, None
            self._count += 1

    def page_data(self, since: str | None = None) -> dict[str, Any]:
        """The data of the page; only the state of the run if nothing has changed since this revision."""
        with self.lock:
            revision = f"{self.id}-{self._count}"
            run = {
                "id": self.id,
                "name": self.name,
                "state": self.state,
                "error": self.error,
                "began": self.began,
                "batches": self.batches,
                "results_late": self.results_late,
                "version": windrow.__version__,
            }
            if since == revision:
                return {"revision": revision, "run": run}
            return {
                "revision": revision,
                "run": run,
                "joins": {name: join.page_data() for name, join in self.joins.items()},
            }


def _forget(kept: dict[Any, Any], most: int) -> None:
    """Remove the oldest entries beyond `most`."""
    while len(kept) > most:
        del kept[next(iter(kept))]


def _partition(part: Mapping[str, Any]) -> dict[str, Any]:
    """A partition on the page."""
    shown: dict[str, Any] = json_value({name: part[name] for name in PARTITION_FIELDS}, DIGITS)
    return shown


def _moment(text: str) -> float:
    """Milliseconds since 1970 of a time as Spark writes it."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000
