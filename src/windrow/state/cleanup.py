"""Removes versions and files that no restart can need.

Kept are the versions of the last complete batch, of the two before it and of anything later, and every file
they name. A file that only removed manifests name goes with them. A file that no manifest names may belong
to a commit under way, so it must be old to go. What a run left that is not known here may belong to a later
run than this one, and also must be old.
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
"""Seconds; no commit takes that long."""


def remove_obsolete(root: Storage, join: str, partition: int, start: Start, now: float) -> None:
    """Cleans up after one partition of the join in directory `join`, in a task with this start."""
    directory = f"{join}/{partition_directory(partition)}"
    entries = root.entries(directory)
    manifests = {version: e for e in entries if (version := version_of(e.name)) is not None}
    oldest = start.batch - 1 - KEPT_BEHIND
    expired = {v: e for v, e in manifests.items() if _is_expired(v, e, start.markers, oldest, now)}
    try:
        named = {v: _read(root, f"{directory}/{entry.name}") for v, entry in manifests.items()}
    except StateError:
        # What a damaged manifest needs is not known. Whoever needs the manifest itself will say so.
        return
    living = [m for v, m in named.items() if m is not None and v not in expired]
    kept = {file for m in living for file in m.files}
    released = {file for v in expired if (m := named[v]) is not None for file in m.files}
    # A task that is still running may hold parts of an attempt whose manifest another attempt has replaced,
    # and name them when it commits. Once all that is kept was committed later than a file, no such task is
    # left.
    passed = min([m.created for m in living] + [now - ORPHAN_AGE])
    for entry in expired.values():
        root.delete(f"{directory}/{entry.name}")
    for entry in entries:
        orphan = holds_parts(entry.name) and entry.name not in kept
        old = entry.modified < (passed if orphan else now - ORPHAN_AGE)
        if (orphan and (old or entry.name in released)) or (entry.name.startswith(ASIDE) and old):
            root.delete(f"{directory}/{entry.name}")
    _collect_markers(root, f"{join}/{COMMITS}", partition, start.markers, oldest, now)


def _is_expired(version: Version, entry: Entry, markers: CommitMarkers, oldest: int, now: float) -> bool:
    if version.run not in {run.id for run in markers.runs}:
        return version.batch < oldest and now - entry.modified > ORPHAN_AGE
    return version.batch < oldest or not markers.valid(version)


def _collect_markers(
    root: Storage, directory: str, partition: int, markers: CommitMarkers, oldest: int, now: float
) -> None:
    """The partition's own markers; partition 0 also looks after runs."""
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
        if last is not None and run < last and run.id not in marked:
            root.delete(f"{directory}/{run.name}")
    if any(name.startswith(ASIDE) for name in markers.names):
        for entry in root.entries(directory):
            if entry.name.startswith(ASIDE) and now - entry.modified > ORPHAN_AGE:
                root.delete(f"{directory}/{entry.name}")


def _read(root: Storage, path: str) -> Manifest | None:
    try:
        return Manifest.from_bytes(root.read(path).to_pybytes(), root.at(path))
    except FileNotFoundError:
        return None
