"""The store of one partition's state: versions by batch, each a manifest and the parts it names.

A batch starts from the newest version below it and publishes its own. A retry or a twin starts from the
same version and so does the same work: whose manifest comes last stands, and either is right. Parts are
written once and named by as many versions as hold them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from windrow.engine.state import State
from windrow.errors import StateError
from windrow.state.cache import Cache
from windrow.state.collect import collect
from windrow.state.filesystem import Commit
from windrow.state.layout import FRONTIERS, partition_directory, parts_name
from windrow.state.ledger import Ledger
from windrow.state.manifest import Manifest, batch_of, manifest_name
from windrow.state.marks import Mark, Marks
from windrow.state.parts import Part, PartWriter, check_size, damaged, read_part
from windrow.state.shelf import Key, Shelf, key_of

_LISTINGS = 5


class StateStore:
    """
    Parameters
    ----------
    ledger
        Of the join.
    partition
        Which of its partitions.
    cache
        A local directory for copies, shared by the workers of a machine; of use only if the state is not
        local.

    It holds on to the batches of the version it loaded or published last, to know them again.
    """

    def __init__(self, ledger: Ledger, partition: int, cache: Path | None = None) -> None:
        if not 0 <= partition < ledger.partitions:
            raise StateError(f"partition must be 0 to {ledger.partitions - 1}, got {partition}")
        self.ledger = ledger
        self.root = ledger.root
        self.partition = partition
        self.partitions = ledger.partitions
        self._cache = None if cache is None or self.root.local else Cache(cache, ledger.clock)
        self._join = ledger.directory
        self._directory = f"{self._join}/{partition_directory(partition)}"
        self._shelf = Shelf()

    # -- versions -----------------------------------------------------------------------------------

    def newest(self, below: int) -> Manifest | None:
        """The last version before batch `below`."""
        path = self._directory
        for _ in range(_LISTINGS):
            batches = [batch_of(name) for name in self.root.names(self._directory)]
            batch = max((b for b in batches if b is not None and b < below), default=None)
            if batch is None:
                return None
            path = f"{self._directory}/{manifest_name(batch)}"
            try:
                data = self.root.read(path).to_pybytes()
            except FileNotFoundError:
                continue  # removed as outdated since the listing: there is a newer one
            return self._checked(Manifest.from_bytes(data, self.root.at(path)))
        raise StateError(damaged(self.root.at(path), "it is listed, but cannot be found"))

    def require(self, below: int, marks: Marks) -> Manifest | None:
        """As `newest`; but if the marks tell of a later one, that is an error."""
        found, last = self.newest(below), marks.last(self.partition, below)
        if last is not None and (found is None or found.batch < last):
            where = self.root.at(f"{self._directory}/{manifest_name(last)}")
            raise StateError(
                f"the manifest {where} of batch {last} is missing, though it was published; put it back from "
                "a copy of the state directory, or start the query anew with a new checkpoint"
            )
        return found

    def load(self, manifest: Manifest) -> State:
        """The state of a version, its parts mapped and checked.

        Parts of the version this store loaded or published last are taken over without another look.
        """
        contents: dict[str, pa.Buffer] = {}
        found: dict[Part, pa.RecordBatch] = {}
        for part in dict.fromkeys(manifest.parts):
            known = self._shelf.batch(part)
            found[part] = self._read(part, manifest, contents) if known is None else known
        batches = [found[part] for part in manifest.parts]
        self._shelf = Shelf(batches, manifest.parts, manifest.files)
        return State(manifest.head, tuple(batches))

    def publish(
        self, batch: int, state: State, frontier: Sequence[int | None], need: int | None = None
    ) -> Manifest:
        """Makes `state` the version of `batch`. On return it lasts; if this fails, the one before stands."""
        content, replaced = uuid4().hex, self._mark_of(batch)
        placed = self._shelf.stored(state.parts)
        fresh = {key: b for b in state.parts if (key := key_of(b)) not in placed}
        what = f"the state of batch {batch}, partition {self.partition},"
        with self.root.commit(what, self._directory) as commit:
            sizes = self._write(commit, parts_name(content), fresh, placed) if fresh else {}
            parts = tuple(placed[key_of(b)] for b in state.parts)
            sizes |= self._shelf.files
            manifest = Manifest(
                batch=batch,
                content=content,
                partition=self.partition,
                partitions=self.partitions,
                head=state.head,
                parts=parts,
                files={file: sizes[file] for file in dict.fromkeys(p.file for p in parts)},
                frontier=tuple(frontier),
                created=self.ledger.clock(),
                need=need,
            )
            commit.open(f"{self._directory}/{manifest_name(batch)}").write(manifest.to_bytes())
            mark = Mark(self.partition, batch, manifest.frontier, need)
            commit.open(f"{self._join}/{FRONTIERS}/{mark.name}")
        if replaced is not None and replaced != mark:
            # An earlier attempt had other rows: the query was set back. Its frontier must not count.
            self.root.delete(f"{self._join}/{FRONTIERS}/{replaced.name}")
        self._shelf = Shelf(state.parts, parts, manifest.files)
        return manifest

    def collect(self, committed: int, marks: Marks) -> None:
        """Removes this partition's versions that are more than two behind the `committed` batch, files that
        only they need, and what failed attempts left."""
        collect(self.root, self._join, self.partition, marks, committed, self.ledger.clock())
        self.ledger.collect(committed, marks)
        if self._cache:
            self._cache.trim()

    # -- inside -------------------------------------------------------------------------------------

    def _mark_of(self, batch: int) -> Mark | None:
        """The mark of the version of `batch` that is about to be replaced, if there is one to be read."""
        path = f"{self._directory}/{manifest_name(batch)}"
        try:
            manifest = Manifest.from_bytes(self.root.read(path).to_pybytes(), self.root.at(path))
        except (FileNotFoundError, StateError):
            return None
        return Mark(self.partition, batch, manifest.frontier, manifest.need)

    def _checked(self, manifest: Manifest) -> Manifest:
        if manifest.partitions != self.partitions:
            raise StateError(
                f"the state in {self.root.at(self._join)} has {manifest.partitions} partitions, the join now "
                f"asks for {self.partitions}; set partitions={manifest.partitions}, or start the query anew "
                "with a new checkpoint"
            )
        return manifest

    def _write(
        self, commit: Commit, file: str, fresh: Mapping[Key, pa.RecordBatch], placed: dict[Key, Part]
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

    def _read(self, part: Part, manifest: Manifest, contents: dict[str, pa.Buffer]) -> pa.RecordBatch:
        where = self.root.at(f"{self._directory}/{part.file}")
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
        where = self.root.at(path)
        try:
            if self._cache:
                found = self._cache.get(file, manifest.files[file], lambda: self.root.read(path))
            else:
                found = self.root.read(path)
        except FileNotFoundError:
            needed = f"it is missing, and batch {manifest.batch} needs it"
            raise StateError(damaged(where, needed)) from None
        check_size(found, file, manifest.files, where)
        return found
