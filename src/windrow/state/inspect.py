"""Lists and verifies stored states.

Both may run beside a live query. Files that the query removes in the meantime do not count as damage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windrow.errors import StateError
from windrow.state.cleanup import KEPT_BEHIND
from windrow.state.commit_log import CommitLog
from windrow.state.commit_markers import CommitMarker, CommitMarkers, incomplete
from windrow.state.join_metadata import JoinMetadata
from windrow.state.manifest import Manifest
from windrow.state.parts import StoredPart, check_size, damaged, read_part
from windrow.state.paths import COMMITS, JOIN_METADATA, JoinId, partition_directory, plain
from windrow.state.runs import Version
from windrow.state.storage import Storage, open_storage


@dataclass(frozen=True)
class PartitionState:
    """The stored state of one partition. Rows, live bytes and times are those of its newest version."""

    partition: int
    batches: tuple[int, ...]
    rows: dict[str, int]
    live_bytes: int
    """Bytes of the parts in use."""
    disk_bytes: int
    """Bytes of all files, manifests included: small parts are in these."""
    times: tuple[int | None, ...]
    """Max event time of each stream, in microseconds."""
    created: float
    """Seconds since 1970."""


@dataclass(frozen=True)
class JoinState:
    query: str
    join: str
    partitions: int
    on: str
    stored: tuple[PartitionState, ...]


@dataclass(frozen=True)
class Damage:
    path: str
    how: str


@dataclass(frozen=True)
class VerifyReport:
    """What `verify` read, and the damage it found."""

    joins: int
    manifests: int
    files: int
    bytes: int
    damage: tuple[Damage, ...]


def show(root: str | Storage) -> list[JoinState]:
    """The states under `root`. Raises an error at the first damaged file; `verify` lists all damage."""
    storage = open_storage(root)
    found = []
    for directory in joins_in(storage):
        metadata = JoinMetadata.read(storage, f"{directory}/{JOIN_METADATA}")
        query, join = directory.split("/")
        markers = _markers(storage, directory)
        newest = _newest(storage, directory, markers)
        commits = storage.entries(f"{directory}/{COMMITS}", below=True)
        sizes = {f"{COMMITS}/{entry.name}": entry.bytes for entry in commits}
        partitions = [_show_partition(storage, directory, markers, sizes, manifest) for manifest in newest]
        found.append(
            JoinState(
                plain(query),
                plain(join),
                newest[0].partitions if newest else 0,
                str(metadata.query["on"]) if metadata else "",
                tuple(partitions),
            )
        )
    return found


def newest_metadata(root: str | Storage) -> Iterator[tuple[str, dict[str, Any]]]:
    """(join, metadata of the state) of the newest version of each partition under `root`."""
    storage = open_storage(root)
    for directory in joins_in(storage):
        for newest in _newest(storage, directory, _markers(storage, directory)):
            yield plain(directory.split("/")[1]), newest.metadata


def verify(root: str | Storage) -> VerifyReport:
    """Reads every manifest under `root` that a restart can need, and every part that these name, and verifies
    their checksums."""
    storage = open_storage(root)
    check = _Check(storage)
    joins = joins_in(storage)
    for directory in joins:
        check.join(directory)
    read = sum(check.manifests.values()) + sum(check.files.values())
    return VerifyReport(len(joins), len(check.manifests), len(check.files), read, tuple(check.damage))


class _Check:
    def __init__(self, root: Storage) -> None:
        self.root = root
        self.manifests: dict[str, int] = {}
        self.files: dict[str, int] = {}
        self.damage: list[Damage] = []
        self._read: set[tuple[str, StoredPart]] = set()
        """Parts that were read, with the path of their file: versions share files, and not all of their
        parts."""

    def join(self, directory: str) -> None:
        markers = None
        try:
            markers = _markers(self.root, directory)
            metadata = JoinMetadata.read(self.root, f"{directory}/{JOIN_METADATA}")
            if metadata is None:
                self._found(f"{directory}/{JOIN_METADATA}", "it is missing")
            else:
                self.commits(directory, markers)
        except StateError as error:
            self._found(f"{directory}/{JOIN_METADATA if markers else COMMITS}", str(error))
        # Of versions that no restart can need, cleanup may have removed parts and not yet the manifests.
        oldest = markers.newest - 1 - KEPT_BEHIND if markers else 0
        for marker in markers.committed if markers else ():
            if marker.version.batch >= oldest:
                held = f"{directory}/{partition_directory(marker.partition)}"
                self.version(f"{directory}/{marker.manifest}", held, marker)

    def commits(self, directory: str, markers: CommitMarkers) -> None:
        """Whether the query can continue. The newest micro-batch may be running; the one before must be
        complete, and each partition must have the manifest of its newest marker."""
        complete = markers.newest - 1
        missing, partitions = markers.missing(complete) if complete >= 0 else (0, 0)
        if missing:
            self._found(f"{directory}/{COMMITS}", incomplete(complete, missing, partitions))
        versions = {(m.version, m.partition) for m in markers.committed if markers.valid(m.version)}
        for each in markers.rescalings.values():
            if markers.valid(each.version):
                versions |= {(each.version, partition) for partition in range(each.layout.partitions)}
        last = {partition: version for version, partition in sorted(versions)}
        for partition, version in last.items():
            path = _manifest_of(self.root, directory, markers, version, partition)
            if path is None:
                found = f"the manifest of batch {version.batch}, partition {partition} is missing"
                self._found(f"{directory}/{COMMITS}", f"{found}, though it was committed")

    def version(self, path: str, held: str, marker: CommitMarker) -> None:
        """Checks a manifest and the parts it names, which are in the directory `held`."""
        try:
            contents = self.root.read(path)
            self.manifests[path] = contents.size
            manifest = Manifest.from_bytes(contents.to_pybytes(), self.root.at(path))
        except FileNotFoundError:
            return  # the query has removed it since the listing
        except StateError as error:
            self._found(path, str(error))
            return
        if (manifest.partition, manifest.version) != (marker.partition, marker.version):
            found = f"it is the manifest of batch {manifest.batch}, partition {manifest.partition}"
            self._found(path, found)
        for file in manifest.files:
            at = f"{held}/{file}"
            if unread := {(at, part) for part in manifest.parts if part.file == file} - self._read:
                self._read |= unread
                self.parts(at, [part for _, part in unread], manifest, path)

    def parts(self, path: str, parts: Sequence[StoredPart], manifest: Manifest, named_by: str) -> None:
        where, file = self.root.at(path), path.rpartition("/")[2]
        try:
            contents = self.root.read(path)
            self.files[path] = contents.size
            check_size(contents, manifest.files[file], where)
            for part in parts:
                read_part(contents, part, where)
        except FileNotFoundError:
            # Damage only if the manifest still exists; otherwise the query has removed both.
            if named_by.rpartition("/")[2] in self.root.names(named_by.rpartition("/")[0]):
                self.files[path] = 0
                self._found(path, damaged(where, f"it is missing, and batch {manifest.batch} needs it"))
        except StateError as error:
            self._found(path, str(error))

    def _found(self, path: str, how: str) -> None:
        self.damage.append(Damage(self.root.at(path), how))


def joins_in(root: Storage) -> list[str]:
    """Directories of joins: two levels below the root, with metadata or commits."""
    return sorted(
        f"{query}/{join}"
        for query in _directories(root, "")
        for join in _directories(root, query)
        if any(n in (JOIN_METADATA, COMMITS) for n in root.names(f"{query}/{join}"))
    )


def _directories(root: Storage, path: str) -> Iterator[str]:
    return (entry.name for entry in root.entries(path) if entry.is_directory)


def _markers(root: Storage, directory: str) -> CommitMarkers:
    query, join = directory.split("/")
    return CommitLog(root, JoinId(plain(query), plain(join)), 1).read_markers()


def _manifest_of(
    root: Storage, directory: str, markers: CommitMarkers, version: Version, partition: int
) -> str | None:
    """The path of a manifest of the version, if there is one."""
    for attempt in markers.attempts(version, partition):
        return f"{directory}/{attempt.manifest}"
    before, _, name = f"{directory}/{CommitMarker(partition, version, ()).manifest}".rpartition("/")
    return f"{before}/{name}" if name in root.names(before) else None


def _newest(root: Storage, directory: str, markers: CommitMarkers) -> list[Manifest]:
    """The manifests of the newest valid version of each partition, in one layout. The newest micro-batch may
    be running; partitions that have not committed it are shown as they were before it, or all are if it has
    another layout."""
    found: list[Manifest] = []
    for batch in range(markers.newest, -1, -1):
        version = markers.version(batch)
        layout = None if version is None else markers.layout(version)
        if version is None or layout is None:
            break
        if found and layout.partitions != found[0].partitions:
            found = []
        known = {manifest.partition for manifest in found}
        rest = [p for p in range(layout.partitions) if p not in known]
        for partition in rest:
            path = _manifest_of(root, directory, markers, version, partition)
            if path is not None:
                found.append(Manifest.read(root, path))
        if len(found) == layout.partitions or batch < markers.newest - KEPT_BEHIND:
            break
    return sorted(found, key=lambda manifest: manifest.partition)


def _show_partition(
    root: Storage, directory: str, markers: CommitMarkers, sizes: Mapping[str, int], newest: Manifest
) -> PartitionState:
    """`sizes` are those of files with commits, by path."""
    held = f"{directory}/{partition_directory(newest.partition)}"
    own = [marker for marker in markers.committed if marker.partition == newest.partition]
    return PartitionState(
        partition=newest.partition,
        batches=tuple(sorted({marker.version.batch for marker in own})),
        rows=newest.rows(),
        live_bytes=newest.live_bytes,
        disk_bytes=sum(entry.bytes for entry in root.entries(held))
        + sum(sizes.get(path, 0) for path in {marker.manifest for marker in own}),
        times=newest.times,
        created=newest.created,
    )
