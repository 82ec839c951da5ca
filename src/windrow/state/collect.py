"""Removal of what no restart can need any more.

Kept are the manifests of the last committed batch, of the two before it and of anything later, and every
file they name. A file that only removed manifests name goes with them. A file that no manifest names may
belong to a publication under way, so it must be old to go.
"""

from __future__ import annotations

from windrow.errors import StateError
from windrow.state.filesystem import Root
from windrow.state.layout import FRONTIERS, holds_parts, partition_directory
from windrow.state.local import ASIDE
from windrow.state.manifest import Manifest, batch_of
from windrow.state.marks import Marks

KEPT_BEHIND = 2
ORPHAN_AGE = 900.0
"""Seconds; no publication takes that long."""


def collect(root: Root, join: str, partition: int, marks: Marks, committed: int, now: float) -> None:
    """Cleans up after one partition of the join in directory `join`."""
    directory = f"{join}/{partition_directory(partition)}"
    entries = root.entries(directory)
    manifests = {batch: e.name for e in entries if (batch := batch_of(e.name)) is not None}
    expired = outdated(list(manifests), committed)
    kept: set[str] = set()
    released: set[str] = set()
    try:
        for batch, name in manifests.items():
            (released if batch in expired else kept).update(_files(root, f"{directory}/{name}"))
    except StateError:
        # What a damaged manifest needs is not known. Whoever needs the manifest itself will say so.
        return
    for batch in expired:
        root.delete(f"{directory}/{manifests[batch]}")
    for entry in entries:
        old = now - entry.modified > ORPHAN_AGE
        orphan = holds_parts(entry.name) and entry.name not in kept
        if (orphan and (old or entry.name in released)) or (entry.name.startswith(ASIDE) and old):
            root.delete(f"{directory}/{entry.name}")
    own = [m for m in marks.published if m.partition == partition]
    gone = outdated([m.batch for m in own], committed)
    for mark in own:
        if mark.batch in gone:
            root.delete(f"{join}/{FRONTIERS}/{mark.name}")


def collect_empty(root: Root, directory: str, marks: Marks, committed: int, now: float) -> None:
    """Cleans up marks that belong to no partition. Any task may, and a mark that is gone is no error."""
    for mark in marks.empty:
        if mark.batch < committed - KEPT_BEHIND:
            root.delete(f"{directory}/{mark.name}")
    if any(name.startswith(ASIDE) for name in marks.names):
        for entry in root.entries(directory):
            if entry.name.startswith(ASIDE) and now - entry.modified > ORPHAN_AGE:
                root.delete(f"{directory}/{entry.name}")


def outdated(batches: list[int], committed: int) -> set[int]:
    """The batches nothing can go back to. The last one at or before the oldest that must stay is kept, since
    a partition need not have published in every batch.

    >>> sorted(outdated([1, 2, 5, 9], committed=9))
    [1, 2]
    """
    oldest = committed - KEPT_BEHIND
    needed = max((b for b in batches if b <= oldest), default=None)
    return set() if needed is None else {b for b in batches if b < needed}


def _files(root: Root, path: str) -> set[str]:
    try:
        return set(Manifest.from_bytes(root.read(path).to_pybytes(), root.at(path)).files)
    except FileNotFoundError:
        return set()
