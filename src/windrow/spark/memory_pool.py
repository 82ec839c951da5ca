"""A memory pool for several joins: each join publishes its forecast and takes its memory share.

A join writes its forecast to the pool's directory in every micro-batch. At the start of a micro-batch it
reads the forecasts of all joins and divides the pool so that the lowest recall, divided by the join's weight,
is as high as possible. So shares follow the streams. A join without a forecast (a new one, or one whose
policy has no model) gets an even share, and the others divide the rest. A join that has not written for
`stale_after` no longer counts.

Shares may differ when a micro-batch is repeated, because other joins have continued. Then other rows are
evicted; the answer is still a subset of the exact one, with each result once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np

from windrow.errors import Option, QueryError, placed
from windrow.memory_models.allocation import RecallCurve, allocate_max_min
from windrow.model.keywords import checks_keywords
from windrow.model.limits import MemoryLimit
from windrow.model.units import SECOND, positive_duration
from windrow.state.paths import JoinId
from windrow.state.storage import open_storage

POINTS = 33


@dataclass(frozen=True)
class _SharedForecast:
    """The forecast of a join. `curve` is None for a new join, or if its policy has no model."""

    curve: RecallCurve | None
    weight: float
    at: float


@checks_keywords("wr.MemoryPool")
@dataclass(frozen=True)
class MemoryPool:
    """Memory for several joins of an application: `wr.join(..., memory=pool)`.

    Parameters
    ----------
    memory
        The memory of all joins together, such as "512 MiB".
    path
        A directory or URL that every executor can reach, where the joins exchange forecasts.
    weight
        The weight of the join that receives this pool. A join with twice the weight gets twice the recall.
    stale_after
        A join that has not written a forecast for this long no longer counts.
    """

    memory: str | int | MemoryLimit
    path: str = field(repr=False)
    weight: float = 1.0
    stale_after: str = "10 minutes"
    clock: Callable[[], float] = field(default=time.time, repr=False)

    def __post_init__(self) -> None:
        with placed(Option(section="pool")):
            with placed(Option("memory")):
                object.__setattr__(self, "memory", MemoryLimit.parse(self.memory))
            if not self.weight > 0:
                raise QueryError(f"must be above 0, got {self.weight}", Option("weight"))
            with placed(Option("stale_after")):
                positive_duration(self.stale_after)

    @property
    def limit(self) -> MemoryLimit:
        assert isinstance(self.memory, MemoryLimit)
        return self.memory

    def share(self, scope: JoinId) -> MemoryLimit:
        """The current memory share of the join."""
        own, joins = _name(scope), self._read()
        if own not in joins or (
            joins[own].curve is None and self.clock() - joins[own].at > self._stale_seconds / 2
        ):
            # The join has no forecast yet. It registers, so that the others leave it a share.
            self._write(scope, {})
            joins = self._read()
        even = self.limit.size / len(joins)
        forecasts = {name: (f.curve, f.weight) for name, f in joins.items() if f.curve is not None}
        if own not in forecasts:
            return MemoryLimit(self.limit.kind, max(1, int(even)))
        size = self.limit.size - even * (len(joins) - len(forecasts))
        curves, weights = zip(*forecasts.values(), strict=True)
        found = allocate_max_min(curves, size, weights)
        share = dict(zip(forecasts, found.memory, strict=True))[own]
        # Memory that no join can use is divided evenly.
        spare = max(0.0, size - sum(found.memory)) / len(forecasts)
        return MemoryLimit(self.limit.kind, max(1, int(share + spare)))

    def share_forecast(self, scope: JoinId, forecast: RecallCurve, scale: float) -> None:
        """Publish a join's forecast. `scale` is the memory of the whole join over that of the forecast's
        partition."""
        memory = np.linspace(0.0, forecast.memory[-1], POINTS)
        recall = [forecast.at(float(m)) for m in memory]
        self._write(scope, {"memory": (memory * scale).tolist(), "recall": recall})

    @property
    def _stale_seconds(self) -> float:
        return positive_duration(self.stale_after) / SECOND

    def _write(self, scope: JoinId, forecast: dict[str, Any]) -> None:
        document = forecast | {"weight": self.weight, "at": self.clock()}
        root = open_storage(self.path)
        with root.commit("a join's forecast", _name(scope)) as commit:
            commit.open(_name(scope)).write(json.dumps(document).encode())

    def _read(self) -> dict[str, _SharedForecast]:
        """The forecasts of the running joins, by file name."""
        root = open_storage(self.path)
        found = {}
        for name in sorted(root.names("")):
            if not name.endswith(".forecast"):
                continue
            try:
                saved = json.loads(root.read(name).to_pybytes())
            except (FileNotFoundError, json.JSONDecodeError):
                continue  # removed, or on a filesystem without atomic writes, half written
            if saved["at"] < self.clock() - self._stale_seconds:
                continue
            curve = None
            if saved.get("memory", [0])[-1] > 0:
                curve = RecallCurve(np.array(saved["memory"]), np.array(saved["recall"]), self.limit.kind)
            found[name] = _SharedForecast(curve, float(saved["weight"]), saved["at"])
        return found


def _name(scope: JoinId) -> str:
    return f"{quote(scope.query, safe='')}.{quote(scope.join, safe='')}.forecast"
