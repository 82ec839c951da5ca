"""The state store of one partition: versions, each a manifest and the parts it names.

A task starts from the version of the micro-batch before, which all partitions have committed, and commits its
own. A retried or speculative attempt starts from the same version and does the same work, so it does not
matter which attempt's manifest remains. A part is written once and named by every version that holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa

from windrow.engine.state import State, payload_parts
from windrow.errors import StateError
from windrow.state.cleanup import CommittedFiles, remove_obsolete
from windrow.state.commit_log import CommitLog, Start
from windrow.state.commit_markers import CommitMarker, CommitMarkers
from windrow.state.local_storage import LocalStorage
from windrow.state.manifest import Manifest, inline_file, parts_name
from windrow.state.part_cache import Contents, PartCache
from windrow.state.part_catalog import Key, PartCatalog, key_of
from windrow.state.part_files import PartFiles
from windrow.state.parts import PartWriter, StoredPart, open_part
from windrow.state.paths import COMMITS, base_file, partition_directory
from windrow.state.runs import Version
from windrow.state.storage import AtomicCommit
from windrow.state.trusted_files import trust
from windrow.window.blocks import Made, Part, batch_of

SMALLEST_FILE = 1 << 14
"""Bytes of new parts up to which they are in the manifest: to write and to fetch a file takes longer."""
_PART = 512
"""About what the description of a part takes."""


class _Opened(NamedTuple):
    """A part whose bytes this store has not verified."""

    read: Callable[[], pa.RecordBatch]
    """Returns the part, verified."""
    trusted: bool


class StateStore:
    """
    Parameters
    ----------
    log
        The commit log of the join.
    partition
        Number of the partition.
    cache
        A local directory for copies of remote state, shared by the workers of a machine. Unused if the state
        is local.

    The store keeps the batches of the version it loaded or committed last, to recognise them in the next.
    """

    def __init__(self, log: CommitLog, partition: int, cache: Path | None = None) -> None:
        if not 0 <= partition < log.partitions:
            raise StateError(f"partition must be 0 to {log.partitions - 1}, got {partition}")
        self.log = log
        self.storage = log.storage
        self.partition = partition
        self.partitions = log.partitions
        self.cache = None if cache is None or self.storage.local else PartCache(cache, log.clock)
        self._join = log.directory
        self._directory = f"{self._join}/{partition_directory(partition)}"
        self._catalog = PartCatalog()
        self._opened: dict[StoredPart, _Opened] = {}
        self._mapped: dict[str, Contents] = {}
        """Files of the version that were mapped."""
        self._marker: CommitMarker | None = None
        """Of the last commit."""
        self._written: str | None = None
        """The file of the last commit."""
        self._committed: dict[str, CommittedFiles] = {}
        """By path: manifests that cleanup need not read."""

    def base(self, version: Version, markers: CommitMarkers, agreed: bool = False) -> list[CommitMarker]:
        """The attempts at a version that a task may start from. If it must be `agreed`, all tasks of the next
        micro-batch start from the same one, whatever is committed meanwhile: a file that is not replaced
        says from which. If no attempt has left it, the first of these tasks does."""
        found = markers.attempts(version, self.partition)
        if not agreed or not found:
            return found
        if base_file(self.partition, version.batch, version.run) not in markers.names:
            self._propose(found[0])
        elif len(found) == 1 and not self.storage.local:
            # What the file names was committed before the file was left, and an object store lists the file
            # first (`p3.<run>.base`, `p3.r1.<run>...`). So it is this attempt, and needs no request to know.
            return found
        path = self._base_path(version)
        chosen = CommitMarker.parse(self.storage.read(path).to_pybytes().decode(errors="replace"))
        return found[:1] if chosen is None else [chosen]

    def propose_base(self) -> None:
        """Lets all tasks of the next micro-batch start from what this store committed last, unless a file
        says already from which attempt they do."""
        assert self._marker is not None
        self._propose(self._marker)

    def _propose(self, marker: CommitMarker) -> None:
        version = marker.version
        what = f"the base of batch {version.batch + 1}"
        self.storage.create(self._base_path(version), marker.name.encode(), what)

    def _base_path(self, version: Version) -> str:
        return f"{self._join}/{COMMITS}/{base_file(self.partition, version.batch, version.run)}"

    def manifest(self, version: Version, attempts: Sequence[CommitMarker] | None = None) -> Manifest:
        """The partition's manifest of a committed version: the first of these attempts that can be read.
        Without them the micro-batch is listed."""
        if attempts is None:
            attempts = self.base(version, self.log.read_markers(version.batch))
        old = CommitMarker(self.partition, version, ())
        paths = [attempt.manifest for attempt in attempts] or [old.manifest]
        for path in paths:
            try:
                return self._read(path)
            except FileNotFoundError:
                if path == paths[-1]:
                    raise StateError(
                        f"the manifest {self.storage.at(f'{self._join}/{path}')} is missing, though batch "
                        f"{version.batch} was committed; put it back from a copy of the state directory, or "
                        "start the query with a new checkpoint"
                    ) from None
            except StateError:
                # On a filesystem that is not atomic, an attempt that was killed may leave a part of a file.
                if path == paths[-1]:
                    raise
        raise AssertionError("there is a path")

    def _read(self, path: str) -> Manifest:
        lasting, path = path.startswith(COMMITS), f"{self._join}/{path}"
        if self.cache is None or not lasting:  # before format 8, another attempt may replace a manifest
            return Manifest.read(self.storage, path)
        name, where = path.rpartition("/")[2], self.storage.at(path)
        kept = self.cache.get(name, None, lambda: self.storage.read(path))
        try:
            return Manifest.from_bytes(kept.buffer.to_pybytes(), where)
        except StateError:
            self.cache.drop(name)  # only the local copy may be damaged
            return Manifest.read(self.storage, path)

    def clear(self) -> None:
        """Forgets all stored parts, for a start without state: they may belong to a void version, whose files
        cleanup removes."""
        self._catalog, self._opened, self._mapped = PartCatalog(), {}, {}

    def load(self, manifest: Manifest, lazy: bool = False) -> State:
        """The state of a version, its parts mapped and verified. If `lazy`, payloads are verified only when
        they are read, and files that this machine has written not at all.

        Parts of the version that this store loaded or committed last are not read again, unless they were
        only opened and must now be verified.
        """
        parts, payloads = manifest.parts, payload_parts(manifest.metadata) if lazy else set()
        opened = {part: self._opened[part] for part in parts if lazy and part in self._opened}
        known = {part: self._catalog.batch(part) for part in parts if lazy or part not in self._opened}
        known = {part: batch for part, batch in known.items() if batch is not None}
        new = dict.fromkeys(part for part in parts if part not in known)
        files = PartFiles(self.storage, self._directory, self.cache, manifest, self._mapped)
        files.fetch(new)
        needed = {part for number, part in enumerate(parts) if number not in payloads}
        for part in new:
            trusted = lazy and files.is_trusted(part)
            if trusted or part not in needed:
                opened[part] = _Opened(partial(files.read, part), trusted)
        known |= files.read_all(part for part in new if part not in opened)
        known |= {part: files.open(part) for part in new if part in opened}
        checks = {
            number: opened[part].read
            for number, part in enumerate(parts)
            if number in payloads and part in opened and not opened[part].trusted
        }
        batches = tuple(known[part] for part in parts)
        self._catalog, self._opened = PartCatalog(batches, parts, manifest.files, manifest.inline), opened
        self._mapped = files.mapped
        return State(manifest.metadata, batches, files.locate, checks)

    def commit(
        self,
        version: Version,
        state: State,
        times: Sequence[int | None],
        demand: int | None = None,
        partition_times: Sequence[Mapping[str | None, int]] = (),
    ) -> Manifest:
        """Commits `state` as a version. It is durable on return. If the commit fails, the version before it
        is intact."""
        content = uuid4().hex
        placed = self._catalog.stored(state.parts)
        new = {key: part for part in state.parts if (key := key_of(part)) not in placed}
        what = f"the state of batch {version.batch}, partition {self.partition},"
        large = sum(map(_size, new.values())) > SMALLEST_FILE
        file = parts_name(version, content) if large else inline_file(content)
        # Files become visible in this order: parts, manifest. After a crash between them the manifest is
        # missing, so the version does not count and the task runs again.
        with self.storage.commit(what, self._directory) as commit:
            inline, size = self._write(commit, file, large, new, placed)
            parts = tuple(placed[key_of(part)] for part in state.parts)
            sizes = self._catalog.files | ({file: size} if large else {})
            manifest = Manifest(
                version=version,
                content=content,
                partition=self.partition,
                partitions=self.partitions,
                metadata=state.metadata,
                parts=parts,
                files={f: sizes[f] for f in dict.fromkeys(p.file for p in parts) if f in sizes},
                times=tuple(times),
                created=self.log.clock(),
                demand=demand,
                partition_times=[list(each.items()) for each in partition_times] or None,
                inline=inline,
            )
            run = self.log.run(version.run)
            number = 0 if run is None else run.number
            marker = CommitMarker(self.partition, version, manifest.times, demand, content, number)
            sealed = manifest.to_bytes()
            commit.open(f"{self._join}/{marker.manifest}").write(sealed)
        if self.cache is not None:
            self.cache.put(marker.name.rpartition("/")[2], pa.py_buffer(sealed))
        self._marker, self._committed[marker.manifest] = marker, CommittedFiles.of(manifest)
        if large and isinstance(self.storage, LocalStorage):
            trust(str(self.storage.directory / self._directory / file))
        self._catalog = PartCatalog(state.parts, parts, manifest.files, inline)
        self._written = file if large else None
        self._opened = {part: self._opened[part] for part in parts if part in self._opened}
        return manifest

    def map_written(self) -> dict[int, pa.RecordBatch]:
        """Maps the parts that the last commit has written, if their file is local, and continues with those
        in place of the ones in memory. Returns them by the identity of the part they replace."""
        file = self._written
        contents = None if file is None else self._local(file, self._catalog.files[file])
        if file is None or contents is None:
            return {}
        self._mapped = {each: held for each, held in self._mapped.items() if each in self._catalog.files}
        self._mapped[file] = contents
        found, parts = {}, dict(self._catalog.parts)
        for place, part in self._catalog.parts.items():
            if place.file == file and isinstance(part, pa.RecordBatch) and part.num_rows:
                found[id(part)] = parts[place] = open_part(contents.buffer, place, file)
        before = self._catalog
        self._catalog = PartCatalog(list(parts.values()), list(parts), before.files, before.inline)
        return found

    def _local(self, file: str, size: int) -> Contents | None:
        if self.cache is not None:
            return self.cache.mapped(file, size)
        path = f"{self._directory}/{file}"
        if not isinstance(self.storage, LocalStorage):
            return None
        return Contents(self.storage.read(path), str(self.storage.directory / path))

    def collect(self, start: Start) -> None:
        """Removes versions that no task of this partition can start from, and files of failed attempts."""
        removed = remove_obsolete(self.log, self.partition, start.version, self._committed)
        self._committed = removed.known
        if self.cache:
            for name in removed.files:
                self.cache.drop(name)
            self.cache.trim()

    def _write(
        self,
        commit: AtomicCommit,
        file: str,
        large: bool,
        new: Mapping[Key, Part],
        placed: dict[Key, StoredPart],
    ) -> tuple[bytes, int]:
        """Writes parts to one new file if they are `large`, adds their places to `placed`, and returns what
        goes into the manifest instead, and the size."""
        memory = pa.BufferOutputStream()
        sink = commit.open(f"{self._directory}/{file}") if large else memory
        writer = PartWriter(file, sink if self.cache is None else memory)
        for key, part in new.items():
            place = self._catalog.place(key)
            if place is not None and place.file not in self._catalog.files:
                placed[key] = writer.copy(self._catalog.inline, place)
                continue
            # A part that moves to this file gets a new checksum, so the old one is verified first.
            before = None if place is None else self._opened.get(place)
            placed[key] = writer.append(batch_of(part) if before is None else before.read())
        contents = memory.getvalue()
        if large and self.cache is not None:
            sink.write(contents)
            self.cache.put(file, contents)
            trust(str(self.cache.directory / file))
        return b"" if large else contents.to_pybytes(), writer.bytes


def _size(part: Part) -> int:
    return SMALLEST_FILE + 1 if isinstance(part, Made) else _PART + part.nbytes
