"""The store of one partition's state: versions by batch, each a manifest and the parts it names.

A task starts from the version that all partitions committed last and commits its own. A retry or a twin
starts from the same version and so does the same work: whose manifest comes last stands, and either is
right. Parts are written once and named by as many versions as hold them.
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
from windrow.state.commit_markers import CommitMarker
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
        Of the join.
    partition
        Which of its partitions.
    cache
        A local directory for copies, shared by the workers of a machine; of use only if the state is not
        local.

    It holds on to the batches of the version it loaded or committed last, to know them again.
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

    # -- versions -----------------------------------------------------------------------------------

    def manifest(self, version: Version) -> Manifest:
        """What the partition committed as that version, of which there is a commit marker."""
        path = self._path(version)
        try:
            data = self.storage.read(path).to_pybytes()
        except FileNotFoundError:
            raise StateError(
                f"the manifest {self.storage.at(path)} is missing, though batch {version.batch} was "
                "committed; put it back from a copy of the state directory, or start the query anew with a "
                "new checkpoint"
            ) from None
        return Manifest.from_bytes(data, self.storage.at(path))

    def clear(self) -> None:
        """Starts from nothing: what was stored before may be void and gone, so no part of it is named
        again."""
        self._catalog = PartCatalog()

    def load(self, manifest: Manifest) -> State:
        """The state of a version, its parts mapped and checked.

        Parts of the version this store loaded or committed last are taken over without another look.
        """
        contents: dict[str, pa.Buffer] = {}
        found: dict[StoredPart, pa.RecordBatch] = {}
        for part in dict.fromkeys(manifest.parts):
            known = self._catalog.batch(part)
            found[part] = self._read(part, manifest, contents) if known is None else known
        batches = [found[part] for part in manifest.parts]
        self._catalog = PartCatalog(batches, manifest.parts, manifest.files)
        return State(manifest.metadata, tuple(batches))

    def commit(
        self, version: Version, state: State, times: Sequence[int | None], demand: int | None = None
    ) -> Manifest:
        """Makes `state` that version. On return it is durable; if this fails, what it started from stands."""
        content = uuid4().hex
        placed = self._catalog.stored(state.parts)
        fresh = {key: b for b in state.parts if (key := key_of(b)) not in placed}
        what = f"the state of batch {version.batch}, partition {self.partition},"
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
            commit.open(f"{self._join}/{COMMITS}/{marker.name}")
        self._catalog = PartCatalog(state.parts, parts, manifest.files)
        return manifest

    def collect(self, start: Start) -> None:
        """Removes what no task of this partition can start from any more, and what failed attempts left."""
        remove_obsolete(self.storage, self._join, self.partition, start, self.log.clock())
        if self._cache:
            self._cache.trim()

    # -- inside -------------------------------------------------------------------------------------

    def _path(self, version: Version) -> str:
        return f"{self._directory}/{manifest_name(version)}"

    def _write(
        self,
        commit: AtomicCommit,
        file: str,
        fresh: Mapping[Key, pa.RecordBatch],
        placed: dict[Key, StoredPart],
    ) -> dict[str, int]:
        """Stores the batches in one new file and notes in `placed` where; returns the file's bytes."""
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
            # The copy may be what is damaged: look at the original.
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
        check_size(found, file, manifest.files, where)
        return found
