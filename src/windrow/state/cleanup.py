"""Removes versions and files that no restart can need.

Cleanup keeps the versions of the last complete micro-batch, of the two before it and of all later ones, with
every file they name. Older micro-batches go as a whole, removed by the task of partition 0. A file of parts
says in its name which version it was written for. One that no version names goes when its version is obsolete
or void; otherwise it may belong to a commit in progress, so it goes only when it is old. The same holds for
files of a run that is not in the listing: it may have begun later. Files of unknown age count as young.

A task cleans up after its results are handed on, and only now and then, because it takes many requests. What
one leaves out, because it was killed or a listing was behind, the next one finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from windrow.errors import StateError
from windrow.state.batch_summary import BatchSummary
from windrow.state.commit_log import CommitLog
from windrow.state.commit_markers import CommitMarker, CommitMarkers
from windrow.state.local_storage import ASIDE
from windrow.state.manifest import Manifest, version_of
from windrow.state.paths import COMMITS, batch_in, group_of, partition_directory, partition_of, run_of_base
from windrow.state.runs import Version, owner, rescaled_of, run_of

KEPT_BEHIND = 2
ORPHAN_AGE = 900.0
"""Seconds. No commit takes this long."""
_OTHERS = 8
"""Partitions of earlier layouts that are cleaned up at once."""


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
    """Cleans up after one partition of a join, in a task that has committed `version`. Partition 0 also
    removes old micro-batches, and the files of partitions that only other layouts have. The manifests in
    `known` are not read."""
    cleanup = _Cleanup(log, version, known)
    markers = cleanup.markers(partition)
    mine = log.run(version.run)
    if mine is not None and max(markers.runs, default=mine) > mine:
        return Removed([], dict(known))  # only the last run knows what is needed
    sound = cleanup.partition(partition)
    if partition == 0 and sound:
        cleanup.other_partitions()
        cleanup.records()
    return Removed(cleanup.removed, cleanup.known)


class _Cleanup:
    def __init__(self, log: CommitLog, version: Version, known: Mapping[str, CommittedFiles]) -> None:
        self._log, self._root, self._join, self._version = log, log.storage, log.directory, version
        self._oldest = version.batch - 1 - KEPT_BEHIND
        """The first micro-batch that is kept."""
        self._now, self._before = log.clock(), known
        self.known: dict[str, CommittedFiles] = {}
        self.removed: list[str] = []

    def markers(self, partition: int) -> CommitMarkers:
        return self._log.markers_after(self._version, group_of(partition), self._oldest)

    def partition(self, partition: int) -> bool:
        """Whether it is sound."""
        directory, markers = partition_directory(partition), self.markers(partition)
        entries = self._root.entries(f"{self._join}/{directory}")
        manifests = {m.manifest: m.version for m in markers.of_partition(partition) if m.content}
        void = {path for path, version in manifests.items() if self._is_obsolete(version, markers)}
        for entry in entries:
            # Up to format 7, manifests are beside the parts.
            version, path = version_of(entry.name), f"{directory}/{entry.name}"
            if version is not None and not _holds_parts(entry.name):
                manifests[path] = version
                old = version.batch < self._oldest and entry.modified < self._now - ORPHAN_AGE
                void |= {path} if old or self._is_obsolete(version, markers) else set()
        try:
            kept = {p: found for p in manifests if p not in void and (found := self._files(p)) is not None}
        except StateError:
            # The files of a damaged manifest are unknown, so none is removed. A task that loads it reports
            # it.
            return False
        self.known |= kept
        needed = {file for found in kept.values() for file in found.files}
        # A running task may hold parts of an attempt whose version it continues, and may name them when it
        # commits. No such task is left once every kept version was committed later than the file.
        latest = min([found.created for found in kept.values()] + [self._now - ORPHAN_AGE])
        # Manifests go before the files they name: a crash in between leaves orphans, never a manifest without
        # its files.
        for path in void:
            self._delete(path)
        for entry in entries:
            if _holds_parts(entry.name) and entry.name not in needed:
                version = version_of(entry.name)
                gone = version is not None and self._is_obsolete(version, markers)
                gone |= entry.modified < latest
            else:
                gone = entry.name.startswith(ASIDE) and entry.modified < self._now - ORPHAN_AGE
            if gone:
                self._delete(f"{directory}/{entry.name}")
        return True

    def other_partitions(self) -> None:
        """Cleans up after some of the partitions that only other layouts have."""
        names = self._root.names(self._join)
        others = sorted(p for p in map(partition_of, names) if p is not None and p >= self._log.partitions)
        turn = max(0, self._oldest) % max(1, len(others))
        for partition in (others[turn:] + others[:turn])[:_OTHERS]:
            self.partition(partition)

    def records(self) -> None:
        """Removes old micro-batches, and the records of runs that own none."""
        markers = self.markers(0)
        runs = {run.id for run in markers.runs}
        for name in markers.others:
            batch, directory = batch_in(name), f"{self._join}/{COMMITS}/{name}"
            if batch is None or batch >= self._oldest:
                continue
            found = self._root.entries(directory, below=True)
            if all(e.modified < self._now - ORPHAN_AGE or _run(f"{name}/{e.name}") in runs for e in found):
                self._root.delete_tree(directory)
        last = owner(markers.runs, self._oldest)
        marked = {marker.version.run for marker in markers.committed}
        for run in markers.runs:
            # A run whose markers remain keeps its record: without it their validity would be unknown.
            if last is not None and run < last and run.id not in marked:
                # Its notices go first, as they came first.
                named = [name for name in markers.others if run_of(name) == run.id]
                for name in sorted(named, key=lambda name: "/" not in name):
                    self._delete(f"{COMMITS}/{name}")
        # Up to format 7, markers and rescalings are beside the runs.
        beside = {m.name: m.version.batch for m in markers.committed if not m.content}
        beside |= {name: of.batch for name in markers.others if (of := rescaled_of(name)) and "/" not in name}
        for name in (name for name, batch in beside.items() if batch < self._oldest):
            self._delete(f"{COMMITS}/{name}")
        if any(name.startswith(ASIDE) for name in markers.others):
            for entry in self._root.entries(f"{self._join}/{COMMITS}"):
                if entry.name.startswith(ASIDE) and entry.modified < self._now - ORPHAN_AGE:
                    self._delete(f"{COMMITS}/{entry.name}")

    def _is_obsolete(self, version: Version, markers: CommitMarkers) -> bool:
        runs = [run.id for run in markers.runs] + [each.run for each in markers.rescalings.values()]
        return version.run in runs and (version.batch < self._oldest or not markers.valid(version))

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


def _holds_parts(name: str) -> bool:
    return name.startswith("parts-")


def _run(name: str) -> str | None:
    """The run that has committed a file of a micro-batch, or gives notice there; None for other files."""
    found = CommitMarker.parse(name) or BatchSummary.parse(name)
    return run_of(name) or run_of_base(name) if found is None else found.version.run
