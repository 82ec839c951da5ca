"""Summaries of micro-batches, for joins with many workers.

Partitions are in groups of 32; the markers of each group have a directory of their own, and the first group
has that of the micro-batch. Where many workers would list the markers of all partitions, or read the event
times of source partitions from all manifests, tasks that find a group complete leave a summary:

    batch-000000000017/group1.<run>.<time>_<time>         the partitions of group 1 have committed
    batch-000000000017/g1/all.<run>.<time>_<time>         all partitions have; for the tasks of group 1

A task then lists its group alone. Memory demands follow the times, if memory is limited:
`.n<partitions>_<total>_<first partition>`. Contents are the max event times of source partitions, if they are
tracked. A summary says nothing that markers do not say. Only tasks of the same run rely on it, so that a torn
copy of the state is noticed; and where one is missing, because a task was killed or a listing was behind, all
markers are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from windrow.engine.source_partitions import PartitionTimes, latest
from windrow.state.batch_summary import (
    ALL,
    GROUPS,
    BatchSummary,
    latest_times,
    times_from_bytes,
    times_to_bytes,
)
from windrow.state.commit_markers import CommitMarker, CommitMarkers
from windrow.state.manifest import Manifest
from windrow.state.paths import COMMITS, JoinId, batch_directory, group_of, members_of
from windrow.state.runs import Version
from windrow.state.storage import FETCHING, Storage, side_by_side

T = TypeVar("T")
R = TypeVar("R")


def summary_of(version: Version, names: Iterable[str]) -> BatchSummary | None:
    """The summary of a version among files, named relative to the directory of commits."""
    found = [each for each in _parsed(names, f"/{ALL}") if each.version == version]
    # Attempts at a task may differ in their demand; the largest counts.
    return max(found, key=lambda each: each.demands.total, default=None)


def _parsed(names: Iterable[str], alike: str) -> list[BatchSummary]:
    likely = (name for name in names if alike in name)
    return [found for name in likely if (found := BatchSummary.parse(name)) is not None]


class Summaries:
    """The commits of a join's micro-batches, by group, and summaries of them.

    Parameters
    ----------
    used
        Whether tasks leave summaries.
    """

    def __init__(self, storage: Storage, scope: JoinId, partitions: int, used: bool) -> None:
        self.used = used
        self._storage, self._partitions = storage, partitions
        self._join, self._commits = scope.directory, f"{scope.directory}/{COMMITS}"

    def names(self, batch: int, group: int | None = None) -> list[str]:
        """The names of a micro-batch's commits, of one group or of all, relative to the directory of
        commits."""
        held = batch_directory(batch, group or 0)
        return [f"{held}/{name}" for name in self.listed(batch, group)]

    def listed(self, batch: int, group: int | None = None) -> list[str]:
        """The same names, relative to the directory of the group or micro-batch."""
        held = batch_directory(batch, group or 0)
        return self._storage.names(f"{self._commits}/{held}", below=group is None)

    def leave(self, version: Version, partition: int, tracked: bool) -> None:
        """Leaves summaries, if the task that has committed is the last of its group, or of all. They have
        event times of source partitions if these are `tracked`."""
        if not self.used:
            return
        group, groups = group_of(partition), 1 + group_of(self._partitions - 1)
        members, names = members_of(group, self._partitions), self.listed(version.batch, group)
        if len(names) < members:
            return
        directory = batch_directory(version.batch, group)
        listed = CommitMarkers(f"{directory}/{name}" for name in names)
        markers = listed.markers(version)
        if len(markers) < members:
            return
        seen = latest_times(marker.times for marker in markers)
        summary = BatchSummary(version, seen, listed.demands(version, partition), group)
        times = self.times(markers) if tracked else None
        if groups > 1:
            self._put(summary, times)
            top = _parsed(self.names(version.batch, 0), f"/{GROUPS}")
            found = list({each.group: each for each in top if each.version == version}.values())
            if len(found) < groups:
                return
            times = _merged(self._all(self.summed, found)) if tracked else None
            summary = BatchSummary.of_groups(found)
        copies = [replace(summary, group=None, held_by=each) for each in range(groups)]
        self._all(lambda each: self._put(each, times), copies)

    def times(self, markers: Sequence[CommitMarker]) -> list[PartitionTimes]:
        """Per stream, the max event time of each source partition, from the manifests of these markers."""
        return _merged(self._all(self._times_of, markers))

    def summed(self, summary: BatchSummary) -> list[PartitionTimes]:
        """Per stream, the max event time of each source partition, from a summary."""
        return self._read_times(f"{self._commits}/{summary.name}")

    def _times_of(self, marker: CommitMarker) -> list[PartitionTimes]:
        found = Manifest.read(self._storage, f"{self._join}/{marker.manifest}").partition_times
        if found is not None:
            return [dict(each) for each in found]
        return self._read_times(f"{self._join}/{marker.partition_times}")

    def _read_times(self, path: str) -> list[PartitionTimes]:
        return times_from_bytes(self._storage.read(path).to_pybytes(), self._storage.at(path))

    def _put(self, summary: BatchSummary, times: Sequence[PartitionTimes] | None) -> None:
        path = f"{self._commits}/{summary.name}"
        with self._storage.commit(f"the summary of batch {summary.version.batch}", path) as commit:
            commit.open(path).write(b"" if times is None else times_to_bytes(times))

    def _all(self, action: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return side_by_side(action, items, 1 if self._storage.local else FETCHING)


def _merged(several: Sequence[Sequence[PartitionTimes]]) -> list[PartitionTimes]:
    return [latest(each) for each in zip(*several, strict=True)]
