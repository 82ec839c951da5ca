"""The state that all partitions of a join share: its metadata, its runs, and the commit markers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from windrow.engine.source_partitions import PartitionTimes, latest
from windrow.errors import StateError
from windrow.state.commit_markers import CommitMarkers, incomplete, times_from_bytes
from windrow.state.join_metadata import JoinMetadata
from windrow.state.paths import COMMITS, JOIN_METADATA, JoinId
from windrow.state.runs import QueryRun, Version, run_file, run_of
from windrow.state.storage import Storage, open_storage


@dataclass(frozen=True)
class Start:
    """The starting point of a task: the same for all tasks of a micro-batch and all their attempts."""

    version: Version
    """The version that the task will commit."""
    base: Version | None
    """The version that it continues; None in the first micro-batch."""
    markers: CommitMarkers

    @property
    def batch(self) -> int:
        return self.version.batch

    @property
    def times(self) -> list[int | None]:
        """Per stream, the max event time over all partitions."""
        return self.markers.times(self.base)

    @property
    def demands(self) -> dict[int, int]:
        """Memory demand by partition."""
        return self.markers.demands(self.base)


class CommitLog:
    """
    Parameters
    ----------
    root
        A local path, or a URL that pyarrow or fsspec understands.
    scope
        The join that owns the state.
    partitions
        Number of partitions of the join.
    clock
        Seconds since 1970.
    """

    def __init__(
        self, root: str | Storage, scope: JoinId, partitions: int, clock: Callable[[], float] = time.time
    ) -> None:
        self.storage = open_storage(root)
        self.join_id = scope
        self.partitions = partitions
        self.clock = clock
        self.directory = scope.directory
        self._metadata: JoinMetadata | None = None
        self._runs: dict[str, QueryRun] = {}

    def check_metadata(
        self,
        query: Mapping[str, Any],
        first: bool,
        layout: Mapping[str, str] | None = None,
    ) -> None:
        """Refuses state of another join. In the `first` micro-batch, writes the metadata."""
        now = JoinMetadata.of(self.partitions, query, layout or {})
        if self._metadata == now:
            return
        path = f"{self.directory}/{JOIN_METADATA}"
        before = JoinMetadata.read(self.storage, path)
        if before is None and not first:
            raise StateError(
                f"there is no state in {self.storage.at(self.directory)}, though earlier batches of the "
                "query must have left one; set `state` to the path the query was begun with, put the "
                "directory back from a copy, or start the query with a new checkpoint"
            )
        if before is None:
            self.storage.create(path, now.to_bytes(), "the description of the join")
            # Another partition, or another join of the same name, may have created the file first.
            before = JoinMetadata.read(self.storage, path) or now
        before.check(now, self.storage.at(self.directory))
        self._metadata = now

    def begin(self, run: str, batch: int) -> Start:
        """The starting point of a task. Refuses a run that a later one has replaced, and a micro-batch whose
        predecessor is not complete."""
        mine = self.run(run) or self._record(run, batch)
        markers = self.read_markers()
        newest = max(markers.runs, default=mine)
        if newest > mine:
            raise StateError(
                f"another run of this query ({newest.id}, from batch {newest.first} on) has taken over the "
                f"state in {self.storage.at(self.directory)}; two queries must not share a state. If the "
                "checkpoint was copied, give the copy a `state` of its own; if the query was started "
                "twice, stop one"
            )
        # A listing may be behind and not yet show this run's own record.
        markers = CommitMarkers(markers.names, sorted({*markers.runs, mine}))
        return Start(Version(batch, run), self._base(batch, markers), markers)

    def is_complete(self, version: Version) -> bool:
        """Whether all partitions have committed the version."""
        names = self.storage.names(f"{self.directory}/{COMMITS}")
        return len(CommitMarkers(names, ()).markers(version)) == self.partitions

    def replaced(self, run: str) -> bool:
        """Whether a later run has taken over the state."""
        mine = self.run(run)
        return mine is not None and max(self.read_markers().runs, default=mine) > mine

    def read_markers(self) -> CommitMarkers:
        """The current markers, from one listing, with their runs."""
        names = self.storage.names(f"{self.directory}/{COMMITS}")
        found = [self.run(run) for name in names if (run := run_of(name)) is not None]
        return CommitMarkers(names, [run for run in found if run is not None])

    def partition_times(self, start: Start) -> list[PartitionTimes]:
        """Per stream, the max event time of each source partition over all partitions of the join."""
        found = []
        for marker in start.markers.markers(start.base):
            path = f"{self.directory}/{COMMITS}/{marker.name}"
            found.append(times_from_bytes(self.storage.read(path).to_pybytes(), self.storage.at(path)))
        return [latest(times) for times in zip(*found, strict=True)]

    def _base(self, batch: int, markers: CommitMarkers) -> Version | None:
        if batch == 0:
            return None
        missing = markers.missing(batch - 1, self.partitions)
        if missing:
            raise StateError(
                f"{incomplete(batch - 1, missing, self.partitions)}. Either state in "
                f"{self.storage.at(self.directory)} was deleted, or the query was set back further than "
                "state is kept: put the state back from a copy of that time, or start the query with a new "
                "checkpoint"
            )
        return markers.version(batch - 1)

    def run(self, run: str) -> QueryRun | None:
        """A recorded run. Reads the file by name, because a listing may be behind."""
        if run not in self._runs:
            path = f"{self.directory}/{COMMITS}/{run_file(run)}"
            try:
                data = self.storage.read(path).to_pybytes()
            except FileNotFoundError:
                return None
            self._runs[run] = QueryRun.from_bytes(run, data, self.storage.at(path))
        return self._runs[run]

    def _record(self, run: str, batch: int) -> QueryRun:
        """Records that a run begins. All tasks of its first micro-batch may do so at once: they record the
        same micro-batch, and it does not matter whose number is kept."""
        number = 1 + max((r.number for r in self.read_markers().runs), default=0)
        made = QueryRun(number, run, batch)
        path = f"{self.directory}/{COMMITS}/{made.name}"
        self.storage.create(path, made.to_bytes(), f"the record of run {run}")
        return self.run(run) or made
