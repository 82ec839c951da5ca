"""Commit markers: manifests whose names record what tasks have committed.

    batch-000000000017/p3.r2.<run>.<time>_<time>.<content>.json

says that partition 3 committed micro-batch 17 in the second run, and what max event time it has seen of each
stream. Its memory demand follows, if memory is limited: `<time>_<time>.n<demand>`.

A listing shows the markers of all partitions. Every partition takes part in every micro-batch, so a
micro-batch is complete when all partitions have a marker for it. Two attempts at a task leave two markers;
either will do, because they did the same work. The number of the run is that of its record; a copy of the
state that lacks the record is then refused, and not taken for the version of an earlier run.

Markers are in a directory per group of partitions; see `summaries.py`.

In states of formats 6 and 7 markers are files of their own: `p3.b17.<run>.<time>_<time>`, all in one
directory. Up to format 8 event times of source partitions are in a file beside the marker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from windrow.state.batch_summary import (
    NAMES_KNOWN,
    BatchSummary,
    Demands,
    Times,
    latest_times,
    parse_times,
    times_text,
)
from windrow.state.layout import StoredLayout
from windrow.state.manifest import manifest_name
from windrow.state.paths import COMMITS, batch_directory, group_of, partition_directory
from windrow.state.runs import QueryRun, Rescaling, Version, owner

_MARKER = re.compile(
    r"batch-(\d+)/(?:g\d+/)?p(\d+)\.r(\d+)\.([0-9a-f]+)\.([^.]*)(?:\.n(\d+))?\.([0-9a-f]+)\.json"
)
_FORMAT_7 = re.compile(r"p(\d+)\.b(\d+)\.([0-9a-f]+)\.([^.]*)(?:\.n(\d+))?")


@dataclass(frozen=True)
class CommitMarker:
    partition: int
    version: Version
    times: Times
    """Max event times that the partition has seen."""
    demand: int | None = None
    """Memory demand, if memory is limited."""
    content: str | None = None
    """The content of the manifest; None in formats 6 and 7."""
    number: int = 0
    """Of the run; 0 if it is a rescaling."""

    @cached_property
    def name(self) -> str:
        """Relative to the directory of commits."""
        batch, run = self.version.batch, self.version.run
        seen = times_text(self.times)
        if self.demand is not None:
            seen += f".n{self.demand}"
        if self.content is None:
            return f"p{self.partition}.b{batch}.{run}.{seen}"
        name = f"p{self.partition}.r{self.number}.{run}.{seen}.{self.content}.json"
        return f"{batch_directory(batch, group_of(self.partition))}/{name}"

    @property
    def manifest(self) -> str:
        """The path of the manifest, relative to the directory of the join."""
        if self.content is None:
            return f"{partition_directory(self.partition)}/{manifest_name(self.version)}"
        return f"{COMMITS}/{self.name}"

    @property
    def partition_times(self) -> str:
        """Up to format 8, the path of the file with the event times of source partitions, if any."""
        name = self.name if self.content is None else f"{self.name.removesuffix('.json')}.times"
        return f"{COMMITS}/{name}"

    @classmethod
    @lru_cache(NAMES_KNOWN)
    def parse(cls, name: str) -> CommitMarker | None:
        if (match := _MARKER.fullmatch(name)) is not None:
            batch, partition, number, run, seen, demand, content = match.groups()
        elif (match := _FORMAT_7.fullmatch(name)) is not None:
            partition, batch, run, seen, demand = match.groups()
            number, content = "0", None
        else:
            return None
        version, wanted = Version(int(batch), run), None if demand is None else int(demand)
        found = cls(int(partition), version, parse_times(seen), wanted, content, int(number))
        found.__dict__["name"] = name  # before groups, all markers were in the directory of the micro-batch
        return found


class CommitMarkers:
    """The markers of a join, or of one of its micro-batches, with their runs and rescalings.

    Parameters
    ----------
    names
        Of files, relative to the directory of commits.
    summary
        Of the micro-batch, if the names are those of one group only.
    """

    def __init__(
        self,
        names: Iterable[str],
        runs: Iterable[QueryRun] = (),
        rescalings: Iterable[Rescaling] = (),
        summary: BatchSummary | None = None,
    ) -> None:
        self.names = tuple(names)
        self.runs = tuple(runs)
        self.rescalings = {each.of: each for each in rescalings}
        self.summary = summary
        found = [CommitMarker.parse(name) for name in self.names]
        self.committed = [marker for marker in found if marker is not None]
        self.others = [name for name, marker in zip(self.names, found, strict=True) if marker is None]
        """Names of other files, and of directories."""
        self._known: dict[Version | None, dict[int, CommitMarker]] = {}

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

    def missing(self, batch: int) -> tuple[int, int]:
        """Number of partitions that have not committed the valid version of the micro-batch, and number of
        all partitions."""
        run = owner(self.runs, batch)
        if run is None:
            return 1, 1
        partitions = 1 if run.layout is None else run.layout.partitions
        version = Version(batch, run.id)
        if self.summary is not None and self.summary.version == version:
            return 0, partitions
        return partitions - len(self._of(version)), partitions

    def times(self, version: Version | None) -> list[int | None]:
        """Per stream, the max event time over all partitions."""
        if self.summary is not None and self.summary.version == version:
            return list(self.summary.times)
        return list(latest_times(m.times for m in self._of(version).values()))

    def demands(self, version: Version | None, partition: int) -> Demands:
        """Memory demands, with that of this partition. There are none for a rescaled version."""
        own = {m.partition: m.demand for m in self.markers(version) if m.version == version and m.demand}
        summed = self.summary is not None and self.summary.version == version
        found = self.summary.demands if summed and self.summary else Demands.of(own)
        return replace(found, own=own.get(partition, 0))

    def markers(self, version: Version | None) -> list[CommitMarker]:
        """One per partition."""
        return list(self._of(version).values())

    def attempts(self, version: Version, partition: int) -> list[CommitMarker]:
        """The markers of all attempts that committed exactly this version, in the same order for every
        reader. Empty for versions stored before format 8."""
        own = (m for m in self.of_partition(partition) if m.version == version and m.content)
        return sorted(own, key=lambda marker: marker.content or "")

    def of_partition(self, partition: int) -> list[CommitMarker]:
        return self._by_partition.get(partition, [])

    @cached_property
    def _by_partition(self) -> dict[int, list[CommitMarker]]:
        found: dict[int, list[CommitMarker]] = {}
        for marker in self.committed:
            found.setdefault(marker.partition, []).append(marker)
        return found

    def _of(self, version: Version | None) -> dict[int, CommitMarker]:
        """By partition. A rescaled version has the markers of its original."""
        if version not in self._known:
            same = {} if version is None else self._same(version.batch)
            committed = next(iter(same)) if version in same else version
            # Attempts at a task may differ in their demand. The largest counts, so that the order of the
            # listing does not matter.
            own = [m for m in self.committed if m.version == committed]
            self._known[version] = {m.partition: m for m in sorted(own, key=lambda m: m.demand or 0)}
        return self._known[version]


def incomplete(batch: int, missing: int, partitions: int) -> str:
    return f"batch {batch}: commit markers are missing for {missing} of {partitions} partitions"
