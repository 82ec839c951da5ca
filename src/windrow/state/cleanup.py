"""Removes versions and files that no restart can need.

Cleanup keeps the versions of the last complete micro-batch, of the two before it and of all later ones, with
every file they name. It removes files that only removed manifests name. A file that no manifest names may
belong to a commit in progress, so it is removed only when it is old. The same holds for files of a run that
is not in this task's listing: it may have begun later.
"""

from __future__ import annotations

from windrow.errors import StateError
from windrow.state.commit_log import Start
from windrow.state.commit_markers import CommitMarkers
from windrow.state.local_storage import ASIDE
from windrow.state.manifest import Manifest, version_of
from windrow.state.paths import COMMITS, holds_parts, partition_directory
from windrow.state.runs import Version, owner
from windrow.state.storage import Entry, Storage

KEPT_BEHIND = 2
ORPHAN_AGE = 900.0
"""Seconds. No commit takes this long."""


def remove_obsolete(
    root: Storage, join: str, partition: int, partitions: int, start: Start, now: float
) -> None:
    """Cleans up after one partition of the join in directory `join`, in a task that begins at `start`; and
    after partitions that only earlier layouts have, divided among the `partitions` there are."""
    for each in range(partition, max(partitions, start.markers.most_partitions), partitions):
        _clean(root, join, each, start, now)


def _clean(root: Storage, join: str, partition: int, start: Start, now: float) -> None:
    directory = f"{join}/{partition_directory(partition)}"
    entries = root.entries(directory)
    manifests = {version: e for e in entries if (version := version_of(e.name)) is not None}
    oldest = start.batch - 1 - KEPT_BEHIND
    expired = {v: e for v, e in manifests.items() if _is_expired(v, e, start.markers, oldest, now)}
    try:
        named = {v: _read(root, f"{directory}/{entry.name}") for v, entry in manifests.items()}
    except StateError:
        # The files of a damaged manifest are unknown, so none is removed. A task that loads it reports it.
        return
    kept_manifests = [m for v, m in named.items() if m is not None and v not in expired]
    kept = {file for m in kept_manifests for file in m.files}
    released = {file for v in expired if (m := named[v]) is not None for file in m.files}
    # A running task may hold parts of an attempt whose manifest another attempt has replaced, and may name
    # them when it commits. No such task is left once every kept version was committed later than the file.
    latest = min([m.created for m in kept_manifests] + [now - ORPHAN_AGE])
    # Manifests go before the files they name: a crash in between leaves orphans, never a manifest without
    # its files.
    for entry in expired.values():
        root.delete(f"{directory}/{entry.name}")
    for entry in entries:
        orphan = holds_parts(entry.name) and entry.name not in kept
        old = entry.modified < (latest if orphan else now - ORPHAN_AGE)
        if (orphan and (old or entry.name in released)) or (entry.name.startswith(ASIDE) and old):
            root.delete(f"{directory}/{entry.name}")
    _collect_markers(root, f"{join}/{COMMITS}", partition, start.markers, oldest, now)


def _is_expired(version: Version, entry: Entry, markers: CommitMarkers, oldest: int, now: float) -> bool:
    known = {run.id for run in markers.runs} | {each.run for each in markers.rescalings.values()}
    if version.run not in known:
        return version.batch < oldest and now - entry.modified > ORPHAN_AGE
    return version.batch < oldest or not markers.valid(version)


def _collect_markers(
    root: Storage, directory: str, partition: int, markers: CommitMarkers, oldest: int, now: float
) -> None:
    """Removes the partition's own markers. Partition 0 also removes records of runs and rescalings."""
    runs = {run.id for run in markers.runs}
    for marker in markers.committed:
        version = marker.version
        expired = version.batch < oldest or not markers.valid(version)
        if marker.partition == partition and version.run in runs and expired:
            root.delete(f"{directory}/{marker.name}")
    if partition:
        return
    last, marked = owner(markers.runs, oldest), {m.version.run for m in markers.committed}
    for run in markers.runs:
        # A run whose markers remain keeps its record: without it their validity would be unknown.
        if last is not None and run < last and run.id not in marked:
            root.delete(f"{directory}/{run.name}")
    for rescaled in markers.rescalings.values():
        if rescaled.of.batch < oldest:
            root.delete(f"{directory}/{rescaled.name}")
    if any(name.startswith(ASIDE) for name in markers.names):
        for entry in root.entries(directory):
            if entry.name.startswith(ASIDE) and now - entry.modified > ORPHAN_AGE:
                root.delete(f"{directory}/{entry.name}")


def _read(root: Storage, path: str) -> Manifest | None:
    try:
        return Manifest.read(root, path)
    except FileNotFoundError:
        return None
