"""A memory pool for several joins: each shares its forecast and takes its memory share.

A join writes its forecast to the pool's directory with every batch; at the start of a batch it reads those of
all joins and divides the pool so that the worst recall, each over its weight, is as high as it can be. So
parts follow the streams. A join of which nothing is known, new or of a policy without a model, has an even
part, and what is left is divided among the others. One that has said nothing for a while has ended and gives
its part back.

Parts may differ when a batch is run again, since other joins have gone on: what is shed then differs too, and
every answer given is still a part of the exact one, each result once.
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
from windrow.model.limits import MemoryLimit
from windrow.model.units import SECOND, parse_duration
from windrow.state.paths import JoinId
from windrow.state.storage import open_storage

POINTS = 33


@dataclass(frozen=True)
class _SharedForecast:
    """By a join, and when; no curve while nothing is known of it, or if its policy has no model."""

    curve: RecallCurve | None
    weight: float
    at: float


@dataclass(frozen=True)
class MemoryPool:
    """Memory for several joins of an application: `wr.join(..., memory=pool)`.

    Parameters
    ----------
    memory
        For all of them, such as "512 MiB".
    path
        A directory or URL that every executor reaches; the joins find each other there.
    weight
        Of the join it is given to: twice the weight is worth twice the recall.
    stale_after
        A join that has said nothing for so long no longer counts.
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
                if parse_duration(self.stale_after) <= 0:
                    raise QueryError(f"must be positive, got {self.stale_after}")

    @property
    def limit(self) -> MemoryLimit:
        assert isinstance(self.memory, MemoryLimit)
        return self.memory

    def share(self, scope: JoinId) -> MemoryLimit:
        """What the join may take now."""
        mine, said = _name(scope), self._read()
        if mine not in said or (said[mine].curve is None and self.clock() - said[mine].at > self._memory / 2):
            # That it is here, so that the others leave it its part.
            self._write(scope, {})
            said = self._read()
        even = self.limit.size / len(said)
        speaking = {name: each for name, each in said.items() if each.curve is not None}
        if mine not in speaking:
            return MemoryLimit(self.limit.kind, max(1, int(even)))
        size = self.limit.size - even * (len(said) - len(speaking))
        curves = [each.curve for each in speaking.values() if each.curve is not None]
        found = allocate_max_min(curves, size, [each.weight for each in speaking.values()])
        part = dict(zip(speaking, found.memory, strict=True))[mine]
        # What nobody can use is shared by all.
        spare = max(0.0, size - sum(found.memory)) / len(speaking)
        return MemoryLimit(self.limit.kind, max(1, int(part + spare)))

    def share_forecast(self, scope: JoinId, forecast: RecallCurve, scale: float) -> None:
        """Writes down what a join expects of how much memory; `scale` is how many times more than the
        forecast speaks of the whole join takes."""
        memory = np.linspace(0.0, forecast.memory[-1], POINTS)
        recall = [forecast.at(float(m)) for m in memory]
        self._write(scope, {"memory": (memory * scale).tolist(), "recall": recall})

    @property
    def _memory(self) -> float:
        """Seconds after which a join that says nothing is forgotten."""
        return parse_duration(self.stale_after) / SECOND

    def _write(self, scope: JoinId, forecast: dict[str, Any]) -> None:
        said = forecast | {"weight": self.weight, "at": self.clock()}
        root = open_storage(self.path)
        with root.commit("a join's forecast", _name(scope)) as commit:
            commit.open(_name(scope)).write(json.dumps(said).encode())

    def _read(self) -> dict[str, _SharedForecast]:
        """Of the joins that are running."""
        root = open_storage(self.path)
        found = {}
        for name in sorted(root.names("")):
            if not name.endswith(".forecast"):
                continue
            try:
                said = json.loads(root.read(name).to_pybytes())
            except (FileNotFoundError, json.JSONDecodeError):
                continue
            if said["at"] < self.clock() - self._memory:
                continue
            curve = None
            if said.get("memory", [0])[-1] > 0:
                curve = RecallCurve(np.array(said["memory"]), np.array(said["recall"]), self.limit.kind)
            found[name] = _SharedForecast(curve, float(said["weight"]), said["at"])
        return found


def _name(scope: JoinId) -> str:
    return f"{quote(scope.query, safe='')}.{quote(scope.join, safe='')}.forecast"
