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
from windrow.state.runs import QueryRun, Rescaling, StoredLayout, Version, owner

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
    """The markers of a join, their runs and the rescalings, from one listing."""

    def __init__(
        self, names: Iterable[str], runs: Iterable[QueryRun], rescalings: Iterable[Rescaling] = ()
    ) -> None:
        self.names = tuple(names)
        self.runs = tuple(runs)
        self.rescalings = {each.of: each for each in rescalings}
        self.committed = [m for m in map(CommitMarker.parse, self.names) if m is not None]

    @property
    def newest(self) -> int:
        """The newest micro-batch with a valid marker; -1 if there is none."""
        return max((m.version.batch for m in self.committed if self.valid(m.version)), default=-1)

    def valid(self, version: Version) -> bool:
        """Whether no later run has formed the micro-batch again. A version and its rescaling are both valid:
        they hold the same rows."""
        return version in self._same(version.batch)

    def version(self, batch: int) -> Version | None:
        """The valid version of the micro-batch, if any; where it is rescaled, in the last layout."""
        return next(reversed(self._same(batch)), None)

    def _same(self, batch: int) -> dict[Version, StoredLayout | None]:
        """The valid versions of a micro-batch and their layouts: one, and its rescalings."""
        run = owner(self.runs, batch)
        if run is None:
            return {}
        version = Version(batch, run.id)
        found = {version: run.layout}
        while (rescaled := self.rescalings.get(version)) is not None and rescaled.version not in found:
            version = rescaled.version
            found[version] = rescaled.layout
        return found

    def layout(self, version: Version) -> StoredLayout | None:
        """The layout of a valid version."""
        return self._same(version.batch).get(version)

    @property
    def most_partitions(self) -> int:
        """The most that any run or rescaling has."""
        layouts = [run.layout for run in self.runs] + [each.layout for each in self.rescalings.values()]
        return max((layout.partitions for layout in layouts if layout is not None), default=0)

    def missing(self, batch: int) -> tuple[int, int]:
        """How many partitions have not committed the valid version of the micro-batch, and of how many."""
        run = owner(self.runs, batch)
        if run is None:
            return 1, 1
        partitions = 1 if run.layout is None else run.layout.partitions
        return partitions - len(self._of(Version(batch, run.id))), partitions

    def times(self, version: Version | None) -> list[int | None]:
        """Per stream, the max event time over all partitions."""
        seen = [m.times for m in self._of(version).values()]
        return [max((t for t in times if t is not None), default=None) for times in zip(*seen, strict=True)]

    def demands(self, version: Version | None) -> dict[int, int]:
        """Memory demand by partition; not known of a rescaled version."""
        own = {m.partition: m for m in self.markers(version) if m.version == version}
        return {p: m.demand for p, m in own.items() if m.demand}

    def markers(self, version: Version | None) -> list[CommitMarker]:
        """One per partition."""
        return list(self._of(version).values())

    def _of(self, version: Version | None) -> dict[int, CommitMarker]:
        """By partition. A rescaled version has the markers of the one that it stands for."""
        same = {} if version is None else self._same(version.batch)
        committed = next(iter(same)) if version in same else version
        # Attempts at a task may differ in their demand. The largest counts, so that the order of the listing
        # does not matter.
        own = sorted((m for m in self.committed if m.version == committed), key=lambda m: m.demand or 0)
        return {m.partition: m for m in own}


def incomplete(batch: int, missing: int, partitions: int) -> str:
    return f"batch {batch}: commit markers are missing for {missing} of {partitions} partitions"
