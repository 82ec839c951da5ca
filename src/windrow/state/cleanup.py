"""Removes versions and files that no restart can need.

Cleanup keeps the versions of the last complete micro-batch, of the two before it and of all later ones, with
every file they name. It removes files that only removed manifests name. A file that no manifest names may
belong to a commit in progress, so it is removed only when it is old. The same holds for files of a run that
is not in the listing: it may have begun later. Files of unknown age count as young.

A task cleans up after its results are handed on, and only now and then, because it takes many requests. What
one leaves out, because it was killed or a listing was behind, the next one finds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from windrow.errors import StateError
from windrow.state.commit_log import CommitLog
from windrow.state.commit_markers import CommitMarkers
from windrow.state.local_storage import ASIDE
from windrow.state.manifest import Manifest, version_of
from windrow.state.paths import COMMITS, batch_in, holds_parts, partition_directory
from windrow.state.runs import Version, owner, rescaled_of, run_of

KEPT_BEHIND = 2
ORPHAN_AGE = 900.0
"""Seconds. No commit takes this long."""


class CommittedFiles(NamedTuple):
    """What cleanup has to know of a manifest."""

    files: frozenset[str]
    created: float

    @classmethod
    def of(cls, manifest: Manifest) -> CommittedFiles:
        return cls(frozenset(manifest.files), manifest.created)


class Removed(NamedTuple):
    files: list[str]
    """Names of the manifests and part files that are gone."""
    known: dict[str, CommittedFiles]
    """The manifests that remain, by path."""


def remove_obsolete(
    log: CommitLog, partition: int, version: Version, known: Mapping[str, CommittedFiles]
) -> Removed:
    """Cleans up after one partition of a join, in a task that has committed `version`; and after partitions
    that only earlier layouts have, divided among those there are. Partition 0 also removes what belongs to no
    partition. The manifests in `known` are not read."""
    markers = log.markers_after(version)
    mine = log.run(version.run)
    if mine is not None and max(markers.runs, default=mine) > mine:
        return Removed([], dict(known))  # only the last run knows what is needed
    cleanup = _Cleanup(log, markers, version.batch - 1 - KEPT_BEHIND, known)
    for each in range(partition, max(log.partitions, markers.most_partitions), log.partitions):
        cleanup.partition(each)
    if partition == 0:
        cleanup.records()
    return Removed(cleanup.removed, cleanup.known)


class _Cleanup:
    """
    Parameters
    ----------
    oldest
        The first micro-batch that is kept.
    """

    def __init__(
        self, log: CommitLog, markers: CommitMarkers, oldest: int, known: Mapping[str, CommittedFiles]
    ) -> None:
        self._root, self._join, self._markers, self._oldest = log.storage, log.directory, markers, oldest
        self._now = log.clock()
        self._before = known
        self._there = frozenset(markers.names)
        self._runs = {run.id for run in markers.runs} | {each.run for each in markers.rescalings.values()}
        self.known: dict[str, CommittedFiles] = {}
        self.removed: list[str] = []

    def partition(self, partition: int) -> None:
        directory = partition_directory(partition)
        entries = self._root.entries(f"{self._join}/{directory}")
        own = self._markers.of_partition(partition)
        manifests = {marker.manifest: marker.version for marker in own if marker.content}
        manifests |= {f"{directory}/{e.name}": v for e in entries if (v := version_of(e.name)) is not None}
        expired = {path for path, version in manifests.items() if self._is_expired(version, path)}
        try:
            named = {path: found for path in manifests if (found := self._files(path)) is not None}
        except StateError:
            # The files of a damaged manifest are unknown, so none is removed. A task that loads it reports
            # it.
            return
        self.known |= {path: found for path, found in named.items() if path not in expired}
        kept = [found for path, found in named.items() if path not in expired]
        needed = {file for found in kept for file in found.files}
        released = {file for path in expired if path in named for file in named[path].files}
        # A running task may hold parts of an attempt whose version it continues, and may name them when it
        # commits. No such task is left once every kept version was committed later than the file.
        latest = min([found.created for found in kept] + [self._now - ORPHAN_AGE])
        # Manifests go before the files they name: a crash in between leaves orphans, never a manifest without
        # its files.
        for path in expired:
            self._delete(path)
        self._markers_of(partition, expired)
        for entry in entries:
            orphan = holds_parts(entry.name) and entry.name not in needed
            old = entry.modified < (latest if orphan else self._now - ORPHAN_AGE)
            if (orphan and (old or entry.name in released)) or (entry.name.startswith(ASIDE) and old):
                self._delete(f"{directory}/{entry.name}")

    def _markers_of(self, partition: int, expired: set[str]) -> None:
        """Removes files beside expired manifests, and markers of earlier formats."""
        for marker in self._markers.of_partition(partition):
            beside = marker.partition_times
            gone = marker.manifest in expired or (not marker.content and self._is_void(marker.version))
            if gone and beside.removeprefix(f"{COMMITS}/") in self._there:
                self._delete(beside)

    def records(self) -> None:
        """Removes directories of micro-batches that are empty or old, and records of runs and rescalings."""
        for name in self._markers.names:
            batch, directory = batch_in(name), f"{self._join}/{COMMITS}/{name}"
            if batch is None or batch >= self._oldest:
                continue
            if all(e.modified < self._now - ORPHAN_AGE for e in self._root.entries(directory)):
                self._root.delete_tree(directory)
        last = owner(self._markers.runs, self._oldest)
        marked = {marker.version.run for marker in self._markers.committed}
        for run in self._markers.runs:
            # A run whose markers remain keeps its record: without it their validity would be unknown.
            if last is not None and run < last and run.id not in marked:
                # Its notices go first, as they came first.
                named = [name for name in self._markers.names if run_of(name) == run.id]
                for name in sorted(named, key=lambda name: "/" not in name):
                    self._delete(f"{COMMITS}/{name}")
        for name in self._markers.names:
            of = rescaled_of(name)
            if of is not None and of.batch < self._oldest and "/" not in name:
                self._delete(f"{COMMITS}/{name}")
        if any(name.startswith(ASIDE) for name in self._markers.names):
            for entry in self._root.entries(f"{self._join}/{COMMITS}"):
                if entry.name.startswith(ASIDE) and entry.modified < self._now - ORPHAN_AGE:
                    self._delete(f"{COMMITS}/{entry.name}")

    def _is_expired(self, version: Version, path: str) -> bool:
        if version.run in self._runs:
            return self._is_void(version)
        return version.batch < self._oldest and self._modified(path) < self._now - ORPHAN_AGE

    def _is_void(self, version: Version) -> bool:
        known = version.run in self._runs
        return known and (version.batch < self._oldest or not self._markers.valid(version))

    def _modified(self, path: str) -> float:
        directory, _, name = f"{self._join}/{path}".rpartition("/")
        found = [entry.modified for entry in self._root.entries(directory) if entry.name == name]
        return max(found, default=math.inf)

    def _files(self, path: str) -> CommittedFiles | None:
        if path in self._before:
            return self._before[path]
        try:
            return CommittedFiles.of(Manifest.read(self._root, f"{self._join}/{path}"))
        except FileNotFoundError:
            return None

    def _delete(self, path: str) -> None:
        self._root.delete(f"{self._join}/{path}")
        self.removed.append(path.rpartition("/")[2])
