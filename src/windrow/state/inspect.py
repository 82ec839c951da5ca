"""A look at stored states from outside: what is there, and whether it is sound.

Both may run beside a live query. What the query removes meanwhile is not counted as damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from windrow.errors import StateError
from windrow.state.filesystem import Root, open_root
from windrow.state.layout import FRONTIERS, PINNED, partition_directory, partition_of, plain
from windrow.state.manifest import Manifest, batch_of, manifest_name
from windrow.state.marks import Marks
from windrow.state.parts import check_size, damaged, read_part
from windrow.state.pinned import Pinned


@dataclass(frozen=True)
class PartitionState:
    """What is stored of one partition; rows, bytes and time are those of its newest version."""

    partition: int
    batches: tuple[int, ...]
    rows: dict[str, int]
    live_bytes: int
    """Of the parts in use."""
    disk_bytes: int
    """Of every file that is there."""
    frontier: tuple[int | None, ...]
    created: float
    """Seconds since 1970."""


@dataclass(frozen=True)
class JoinState:
    query: str
    join: str
    partitions: int
    """As pinned."""
    on: str
    stored: tuple[PartitionState, ...]


@dataclass(frozen=True)
class Damage:
    path: str
    how: str


@dataclass(frozen=True)
class Verdict:
    """What `verify` looked at and what it found wrong."""

    joins: int
    manifests: int
    files: int
    bytes: int
    damage: tuple[Damage, ...]


def show(root: str | Root) -> list[JoinState]:
    """The states under `root`. A damaged file is an error; `verify` finds them all."""
    place = open_root(root)
    found = []
    for directory in _joins(place):
        pinned = Pinned.read(place, f"{directory}/{PINNED}")
        query, join = directory.split("/")
        partitions = [_show_partition(place, directory, p) for p in _partitions(place, directory)]
        found.append(
            JoinState(
                plain(query),
                plain(join),
                pinned.partitions if pinned else 0,
                str(pinned.query["on"]) if pinned else "",
                tuple(p for p in partitions if p is not None),
            )
        )
    return found


def newest_heads(root: str | Root) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name of the join and head of the state, of the newest version of each partition under `root`."""
    place = open_root(root)
    for directory in _joins(place):
        for partition in _partitions(place, directory):
            held = f"{directory}/{partition_directory(partition)}"
            batches = _batches(place, held)
            if batches:
                path = f"{held}/{manifest_name(batches[-1])}"
                found = Manifest.from_bytes(place.read(path).to_pybytes(), place.at(path))
                yield plain(directory.split("/")[1]), found.head


def verify(root: str | Root) -> Verdict:
    """Reads every manifest and every part under `root` and checks them against their checksums."""
    place = open_root(root)
    check = _Check(place)
    joins = _joins(place)
    for directory in joins:
        check.join(directory)
    return Verdict(
        len(joins), check.manifests, len(check.files), sum(check.files.values()), tuple(check.damage)
    )


class _Check:
    def __init__(self, root: Root) -> None:
        self.root = root
        self.manifests = 0
        self.files: dict[str, int] = {}
        self.damage: list[Damage] = []

    def join(self, directory: str) -> None:
        marks = Marks(self.root.names(f"{directory}/{FRONTIERS}"))
        try:
            pinned = Pinned.read(self.root, f"{directory}/{PINNED}")
            if pinned is None:
                self._found(f"{directory}/{PINNED}", "it is missing")
            else:
                self.traces(directory, marks, pinned.partitions)
        except StateError as error:
            self._found(f"{directory}/{PINNED}", str(error))
        known = {mark.partition for mark in marks.published}
        for partition in sorted({*_partitions(self.root, directory), *known}):
            held = f"{directory}/{partition_directory(partition)}"
            batches = _batches(self.root, held)
            for batch in batches:
                self.version(f"{held}/{manifest_name(batch)}", partition, batch)
            last = max((m.batch for m in marks.published if m.partition == partition), default=-1)
            if last > max(batches, default=-1):
                self._found(f"{held}/{manifest_name(last)}", "it is missing, though it was published")

    def traces(self, directory: str, marks: Marks, partitions: int) -> None:
        """The newest batch may be under way; the one before it is over."""
        over = marks.newest - 1
        wrong = marks.wrong(over, partitions) if over >= 0 else None
        if wrong is not None:
            self._found(f"{directory}/{FRONTIERS}", wrong)

    def version(self, path: str, partition: int, batch: int) -> None:
        try:
            manifest = Manifest.from_bytes(self.root.read(path).to_pybytes(), self.root.at(path))
        except FileNotFoundError:
            return
        except StateError as error:
            self._found(path, str(error))
            return
        self.manifests += 1
        if (manifest.partition, manifest.batch) != (partition, batch):
            told = f"it is the manifest of batch {manifest.batch}, partition {manifest.partition}"
            self._found(path, told)
        directory = path.rpartition("/")[0]
        for file in manifest.files:
            if f"{directory}/{file}" not in self.files:
                self.parts(f"{directory}/{file}", file, manifest, path)

    def parts(self, path: str, file: str, manifest: Manifest, named_by: str) -> None:
        where = self.root.at(path)
        try:
            contents = self.root.read(path)
            self.files[path] = contents.size
            check_size(contents, file, manifest.files, where)
            for part in {p for p in manifest.parts if p.file == file}:
                read_part(contents, part, where)
        except FileNotFoundError:
            if named_by.rpartition("/")[2] in self.root.names(named_by.rpartition("/")[0]):
                self.files[path] = 0
                self._found(path, damaged(where, f"it is missing, and batch {manifest.batch} needs it"))
        except StateError as error:
            self._found(path, str(error))

    def _found(self, path: str, how: str) -> None:
        self.damage.append(Damage(self.root.at(path), how))


def _joins(root: Root) -> list[str]:
    """Directories of joins: they are two below the root and hold what no other directory does."""
    return sorted(
        f"{query}/{join}"
        for query in _directories(root, "")
        for join in _directories(root, query)
        if any(n in (PINNED, FRONTIERS) for n in root.names(f"{query}/{join}"))
    )


def _directories(root: Root, path: str) -> Iterator[str]:
    return (entry.name for entry in root.entries(path) if entry.is_directory)


def _partitions(root: Root, directory: str) -> list[int]:
    return sorted(p for name in root.names(directory) if (p := partition_of(name)) is not None)


def _batches(root: Root, directory: str) -> list[int]:
    return sorted(b for name in root.names(directory) if (b := batch_of(name)) is not None)


def _show_partition(root: Root, directory: str, partition: int) -> PartitionState | None:
    held = f"{directory}/{partition_directory(partition)}"
    batches = _batches(root, held)
    if not batches:
        return None
    path = f"{held}/{manifest_name(batches[-1])}"
    newest = Manifest.from_bytes(root.read(path).to_pybytes(), root.at(path))
    return PartitionState(
        partition=partition,
        batches=tuple(batches),
        rows=newest.rows(),
        live_bytes=newest.live_bytes,
        disk_bytes=sum(entry.bytes for entry in root.entries(held)),
        frontier=newest.frontier,
        created=newest.created,
    )
