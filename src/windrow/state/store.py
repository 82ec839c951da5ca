"""The state store of one partition: versions, each a manifest and the parts it names.

A task starts from the version of the micro-batch before, which all partitions have committed, and commits its
own. A retried or speculative attempt starts from the same version and does the same work, so it does not
matter which attempt's manifest remains. A part is written once and named by every version that holds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from windrow.engine.state import State
from windrow.errors import StateError
from windrow.state.cleanup import remove_obsolete
from windrow.state.commit_log import CommitLog, Start
from windrow.state.commit_markers import CommitMarker, times_to_bytes
from windrow.state.manifest import Manifest, manifest_name
from windrow.state.part_cache import PartCache
from windrow.state.part_catalog import Key, PartCatalog, key_of
from windrow.state.parts import PartWriter, StoredPart, check_size, damaged, read_part
from windrow.state.paths import COMMITS, partition_directory, parts_name
from windrow.state.runs import Version
from windrow.state.storage import AtomicCommit


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
        self._cache = None if cache is None or self.storage.local else PartCache(cache, log.clock)
        self._join = log.directory
        self._directory = f"{self._join}/{partition_directory(partition)}"
        self._catalog = PartCatalog()

    def manifest(self, version: Version) -> Manifest:
        """The partition's manifest of a committed version."""
        path = self._path(version)
        try:
            return Manifest.read(self.storage, path)
        except FileNotFoundError:
            raise StateError(
                f"the manifest {self.storage.at(path)} is missing, though batch {version.batch} was "
                "committed; put it back from a copy of the state directory, or start the query with a "
                "new checkpoint"
            ) from None

    def clear(self) -> None:
        """Forgets all stored parts, for a start without state: they may belong to a void version, whose files
        cleanup removes."""
        self._catalog = PartCatalog()

    def load(self, manifest: Manifest) -> State:
        """The state of a version, its parts mapped and verified.

        Parts of the version that this store loaded or committed last are not read again.
        """
        contents: dict[str, pa.Buffer] = {}
        found: dict[StoredPart, pa.RecordBatch] = {}
        for part in dict.fromkeys(manifest.parts):
            in_memory = self._catalog.batch(part)
            found[part] = self._read(part, manifest, contents) if in_memory is None else in_memory
        batches = [found[part] for part in manifest.parts]
        self._catalog = PartCatalog(batches, manifest.parts, manifest.files)
        return State(manifest.metadata, tuple(batches))

    def commit(
        self,
        version: Version,
        state: State,
        times: Sequence[int | None],
        demand: int | None = None,
        partition_times: Sequence[Mapping[str | None, int]] = (),
        marked: bool = True,
    ) -> Manifest:
        """Commits `state` as a version. It is durable on return. If the commit fails, the version before it
        is intact. A version that is not `marked` counts only if a rescaling names it."""
        content = uuid4().hex
        placed = self._catalog.stored(state.parts)
        fresh = {key: b for b in state.parts if (key := key_of(b)) not in placed}
        what = f"the state of batch {version.batch}, partition {self.partition},"
        # Files become visible in this order: parts, manifest, marker. After a crash between any two of them
        # the marker is missing, so the version does not count and the task runs again.
        with self.storage.commit(what, self._directory) as commit:
            sizes = self._write(commit, parts_name(content), fresh, placed) if fresh else {}
            parts = tuple(placed[key_of(b)] for b in state.parts)
            sizes |= self._catalog.files
            manifest = Manifest(
                version=version,
                content=content,
                partition=self.partition,
                partitions=self.partitions,
                metadata=state.metadata,
                parts=parts,
                files={file: sizes[file] for file in dict.fromkeys(p.file for p in parts)},
                times=tuple(times),
                created=self.log.clock(),
                demand=demand,
            )
            commit.open(self._path(version)).write(manifest.to_bytes())
            marker = CommitMarker(self.partition, version, manifest.times, demand)
            if marked:
                sink = commit.open(f"{self._join}/{COMMITS}/{marker.name}")
                sink.write(times_to_bytes(partition_times) if partition_times else b"")
        self._catalog = PartCatalog(state.parts, parts, manifest.files)
        return manifest

    def collect(self, start: Start) -> None:
        """Removes versions that no task of this partition can start from, and files of failed attempts."""
        where = self.storage, self._join, self.partition, self.partitions
        remove_obsolete(*where, start, self.log.clock())
        if self._cache:
            self._cache.trim()

    def _path(self, version: Version) -> str:
        return f"{self._directory}/{manifest_name(version)}"

    def _write(
        self,
        commit: AtomicCommit,
        file: str,
        fresh: Mapping[Key, pa.RecordBatch],
        placed: dict[Key, StoredPart],
    ) -> dict[str, int]:
        """Writes the batches to one new file, adds their places to `placed`, and returns the file's size."""
        sink = commit.open(f"{self._directory}/{file}")
        memory = pa.BufferOutputStream() if self._cache else None
        writer = PartWriter(file, sink if memory is None else memory)
        for key, batch in fresh.items():
            placed[key] = writer.append(batch)
        if memory is not None and self._cache is not None:
            contents = memory.getvalue()
            sink.write(contents)
            self._cache.put(file, contents)
        return {file: writer.bytes}

    def _read(self, part: StoredPart, manifest: Manifest, contents: dict[str, pa.Buffer]) -> pa.RecordBatch:
        where = self.storage.at(f"{self._directory}/{part.file}")
        try:
            if part.file not in contents:
                contents[part.file] = self._contents(part.file, manifest)
            return read_part(contents[part.file], part, where)
        except StateError:
            if self._cache is None:
                raise
            # Only the local copy may be damaged: read the original.
            self._cache.drop(part.file)
            contents[part.file] = self._contents(part.file, manifest)
            return read_part(contents[part.file], part, where)

    def _contents(self, file: str, manifest: Manifest) -> pa.Buffer:
        path = f"{self._directory}/{file}"
        where = self.storage.at(path)
        try:
            if self._cache:
                found = self._cache.get(file, manifest.files[file], lambda: self.storage.read(path))
            else:
                found = self.storage.read(path)
        except FileNotFoundError:
            needed = f"it is missing, and batch {manifest.batch} needs it"
            raise StateError(damaged(where, needed)) from None
        check_size(found, manifest.files[file], where)
        return found
