"""Commit markers: files in `commits/` whose names record what tasks have committed.

    p3.b17.<run>.<time>_<time>             partition 3 committed micro-batch 17; max event time per stream
    p3.b17.<run>.<time>_<time>.n<demand>   the same, with the partition's memory demand

One listing shows the markers of all partitions. Every partition takes part in every micro-batch, so a
micro-batch is complete when all partitions have a marker for it.

Markers are empty, except where event time is tracked per source partition. They then hold the max event time
of each, since a name is too short for many.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from windrow.engine.source_partitions import PartitionTimes
from windrow.errors import StateError
from windrow.state.manifest import sealed, unsealed
from windrow.state.parts import damaged
from windrow.state.runs import QueryRun, Version, owner

_MARKER = re.compile(r"p(\d+)\.b(\d+)\.([0-9a-f]+)\.([^.]*)(?:\.n(\d+))?")
_NONE = "x"
MARKERS_KNOWN = 4096
"""Names that are not parsed again: every task of a batch lists the same few."""


@dataclass(frozen=True)
class CommitMarker:
    partition: int
    version: Version
    times: tuple[int | None, ...]
    """Max event time per stream that the partition has seen."""
    demand: int | None = None
    """Memory demand, if memory is limited."""

    @property
    def name(self) -> str:
        times = "_".join(_NONE if t is None else str(t) for t in self.times)
        demand = "" if self.demand is None else f".n{self.demand}"
        return f"p{self.partition}.b{self.version.batch}.{self.version.run}.{times}{demand}"

    @classmethod
    @lru_cache(MARKERS_KNOWN)
    def parse(cls, name: str) -> CommitMarker | None:
        match = _MARKER.fullmatch(name)
        if match is None:
            return None
        times = tuple(None if t == _NONE else int(t) for t in match[4].split("_") if t)
        demand = None if match[5] is None else int(match[5])
        return cls(int(match[1]), Version(int(match[2]), match[3]), times, demand)


def times_to_bytes(times: Sequence[Mapping[str | None, int]]) -> bytes:
    """The contents of a marker: per stream, the max event time of each source partition."""
    return sealed("times", json.dumps([list(each.items()) for each in times]).encode())


def times_from_bytes(data: bytes, where: str) -> list[PartitionTimes]:
    try:
        return [dict(map(tuple, each)) for each in json.loads(unsealed("times", data, where))]
    except (ValueError, TypeError) as error:
        raise StateError(damaged(where, f"it does not hold event times ({error})")) from error


class CommitMarkers:
    """The markers of a join and their runs, from one listing."""

    def __init__(self, names: Iterable[str], runs: Iterable[QueryRun]) -> None:
        self.names = tuple(names)
        self.runs = tuple(runs)
        self.committed = [m for m in map(CommitMarker.parse, self.names) if m is not None]

    @property
    def newest(self) -> int:
        """The newest micro-batch with a valid marker; -1 if there is none."""
        return max((m.version.batch for m in self.committed if self.valid(m.version)), default=-1)

    def valid(self, version: Version) -> bool:
        """Whether no later run has formed the micro-batch again."""
        return self.version(version.batch) == version

    def version(self, batch: int) -> Version | None:
        """The valid version of the micro-batch, if any."""
        run = owner(self.runs, batch)
        return None if run is None else Version(batch, run.id)

    def missing(self, batch: int, partitions: int) -> int:
        """Number of partitions that have not committed the valid version of the micro-batch."""
        return partitions - len(self._of(self.version(batch)))

    def times(self, version: Version | None) -> list[int | None]:
        """Per stream, the max event time over all partitions."""
        seen = [m.times for m in self._of(version).values()]
        return [max((t for t in times if t is not None), default=None) for times in zip(*seen, strict=True)]

    def demands(self, version: Version | None) -> dict[int, int]:
        """Memory demand by partition."""
        return {p: m.demand for p, m in self._of(version).items() if m.demand}

    def markers(self, version: Version | None) -> list[CommitMarker]:
        """One per partition."""
        return list(self._of(version).values())

    def _of(self, version: Version | None) -> dict[int, CommitMarker]:
        # Attempts at a task may differ in their demand. The largest counts, so that the order of the listing
        # does not matter.
        own = sorted((m for m in self.committed if m.version == version), key=lambda m: m.demand or 0)
        return {m.partition: m for m in own}


def incomplete(batch: int, missing: int, partitions: int) -> str:
    return f"batch {batch}: commit markers are missing for {missing} of {partitions} partitions"
