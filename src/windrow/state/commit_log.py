"""The state that all partitions of a join share: its metadata, its runs, and the commit markers.

A task may continue a version of another layout. It then takes its rows from all partitions of that version;
see `spark/redistribution.py`. Nothing is rewritten before, so a run with a new layout may fail at any point,
and the next may go on in the old layout or in a third.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from windrow.engine.source_partitions import PartitionTimes
from windrow.errors import StateError
from windrow.state.batch_summary import ALL, BatchSummary, Demands
from windrow.state.commit_markers import CommitMarkers, incomplete
from windrow.state.join_metadata import JoinMetadata
from windrow.state.layout import StoredLayout
from windrow.state.parts import damaged
from windrow.state.paths import COMMITS, JOIN_METADATA, JoinId, batch_directory, batch_in, group_of
from windrow.state.runs import (
    QueryRun,
    Rescaling,
    Version,
    owner,
    rescaled_file,
    rescaled_of,
    run_file,
    run_of,
)
from windrow.state.storage import Storage, open_storage
from windrow.state.summaries import Summaries, summary_of


@dataclass(frozen=True)
class Start:
    """The starting point of a task: the same for all tasks of a micro-batch and all their attempts."""

    version: Version
    """The version that the task will commit."""
    base: Version | None
    """The version that it continues; None in the first micro-batch."""
    markers: CommitMarkers
    layout: StoredLayout | None = None
    """The layout of the version that it continues."""

    @property
    def batch(self) -> int:
        return self.version.batch

    def moved_to(self, layout: StoredLayout) -> StoredLayout | None:
        """The layout of the version that it continues, if it differs from this one."""
        return self.layout if self.layout is not None and self.layout != layout else None

    @property
    def times(self) -> list[int | None]:
        """Per stream, the max event time over all partitions."""
        return self.markers.times(self.base)

    def demands(self, partition: int) -> Demands:
        """Memory demands, as the partition needs to know them."""
        return self.markers.demands(self.base, partition)


class CommitLog:
    """
    Parameters
    ----------
    root
        A local path, or a URL that pyarrow or fsspec understands.
    scope
        The join that owns the state.
    partitions, layout
        Number of partitions of the join, and where its rows lie.
    clock
        Seconds since 1970.
    sums_up
        Whether tasks leave summaries of what a micro-batch has committed; see `state/summaries.py`.
    """

    def __init__(
        self,
        root: str | Storage,
        scope: JoinId,
        partitions: int,
        clock: Callable[[], float] = time.time,
        layout: StoredLayout | None = None,
        sums_up: bool = False,
    ) -> None:
        self.storage = open_storage(root)
        self.join_id = scope
        self.partitions = partitions
        self.layout = layout or StoredLayout(partitions)
        self.clock = clock
        self.directory = scope.directory
        self._metadata: JoinMetadata | None = None
        self._runs: dict[str, QueryRun] = {}
        self._rescalings: dict[Version, Rescaling] = {}
        self.summaries = Summaries(self.storage, scope, partitions, sums_up)
        self._start: Start | None = None
        """Of the newest micro-batch; from a listing of all its markers."""
        self._listed: tuple[Version, dict[int, list[str]]] | None = None
        """Listings of groups, in the newest micro-batch."""
        self._partition_times: tuple[Version, list[PartitionTimes]] | None = None
        self._after: dict[tuple[Version, int], CommitMarkers] = {}

    def check_metadata(self, query: Mapping[str, Any], first: bool) -> None:
        """Refuses state of another join. In the `first` micro-batch, writes the metadata."""
        now = JoinMetadata.of(query)
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

    def begin(self, run: str, batch: int, partition: int = 0) -> Start:
        """The starting point of a task. Refuses a run that a later one has replaced, and a micro-batch whose
        predecessor is not complete.

        It takes one listing, which the tasks of a micro-batch in this process share: of all markers, or of
        those of a group with a summary. The first micro-batch of a run takes one more, for the runs there
        are.
        """
        version = Version(batch, run)
        if self._start is not None and self._start.version == version:
            return self._start
        mine = self.run(run) or self._record(run, batch)
        if mine.layout is not None and mine.layout != self.layout:
            raise StateError(
                f"run {run} has begun in {self.storage.at(self.directory)} with another layout: "
                f"{mine.layout.difference(self.layout)}; if one query has two joins, give "
                "each its own name"
            )
        markers = self._summarised(version, partition) if batch > mine.first else None
        if markers is None:
            names = self.summaries.names(batch - 1) if batch else []
            markers = self._markers(names + (self._beside() if batch == mine.first else []), mine)
        self._refuse_replaced(mine, markers.runs)
        base = self._base(mine, batch, markers)
        start = Start(version, base, markers, None if base is None else markers.layout(base))
        if markers.summary is None:
            self._start = start
        return start

    def _summarised(self, version: Version, partition: int) -> CommitMarkers | None:
        """The markers of one partition, with a summary of all; None if there is no summary."""
        if not self.summaries.used:
            return None
        if self._listed is None or self._listed[0] != version:
            self._listed = version, {}
        group, listed, base = group_of(partition), self._listed[1], Version(version.batch - 1, version.run)
        listed[group] = listed.get(group) or self.summaries.listed(base.batch, group)
        wanted = (ALL, f"p{partition}.", run_file(""))
        directory = batch_directory(base.batch, group)
        own = [f"{directory}/{name}" for name in listed[group] if name.startswith(wanted)]
        summary = summary_of(base, own)
        return None if summary is None else self._markers(own, self.run(version.run), summary)

    def _refuse_replaced(self, mine: QueryRun, runs: Iterable[QueryRun]) -> None:
        newest = max(runs, default=mine)
        if newest > mine:
            raise StateError(
                f"another run of this query ({newest.id}, from batch {newest.first} on) has taken over the "
                f"state in {self.storage.at(self.directory)}; two queries must not share a state. If the "
                "checkpoint was copied, give the copy a `state` of its own; if the query was started "
                "twice, stop one"
            )

    def in_layout(self, layout: StoredLayout) -> CommitLog:
        """The same log for tasks of another layout."""
        return CommitLog(self.storage, self.join_id, layout.partitions, self.clock, layout)

    def is_complete(self, version: Version) -> bool:
        """Whether all partitions have committed the version."""
        return len(CommitMarkers(self.summaries.names(version.batch)).markers(version)) == self.partitions

    @property
    def runs(self) -> tuple[QueryRun, ...]:
        """All that this log has seen, in order."""
        return tuple(sorted(self._runs.values()))

    def is_void(self, version: Version) -> bool:
        """Whether a later run has taken over the version's micro-batch."""
        mine, last = self.run(version.run), owner(self._markers(self._beside()).runs, version.batch)
        return mine is not None and last is not None and last > mine

    def read_markers(self, batch: int | None = None) -> CommitMarkers:
        """The current markers, of one micro-batch or of all, with their runs."""
        if batch is not None:
            return self._markers(self.summaries.names(batch))
        return self._markers(self.storage.names(f"{self.directory}/{COMMITS}", below=True))

    def markers_after(self, version: Version, group: int, oldest: int) -> CommitMarkers:
        """The markers of a group from micro-batch `oldest` on, listed after a task of this process has
        committed the version; and the directories of micro-batches. Later commits by other tasks of the
        micro-batch may be missing."""
        key = version, group
        if key not in self._after:
            beside = self._beside()
            held = [number for name in beside if (number := batch_in(name)) is not None and number >= oldest]
            found = self._markers(beside + [n for b in held for n in self.summaries.names(b, group)])
            self._after = {k: v for k, v in self._after.items() if k[0] == version} | {key: found}
        return self._after[key]

    def _beside(self) -> list[str]:
        """What is beside the commits: records of runs, and directories of micro-batches."""
        return self.storage.names(f"{self.directory}/{COMMITS}")

    def _markers(
        self, names: list[str], mine: QueryRun | None = None, summary: BatchSummary | None = None
    ) -> CommitMarkers:
        """Markers with the runs and rescalings that are named, and `mine`: a listing may be behind and not
        yet show this run's own record. A run without a record has no layout."""
        found = CommitMarkers(names, summary=summary)
        named = (self.run(run) for name in found.others if (run := run_of(name)) is not None)
        known = {run.id: run for run in (*named, mine) if run is not None}
        begun: dict[str, QueryRun] = {}
        for marker in found.committed:
            name, batch = marker.version.run, marker.version.batch
            if marker.number and name not in known and (name not in begun or batch < begun[name].first):
                begun[name] = QueryRun(marker.number, name, batch)
        known |= {name: self.run(name) or run for name, run in begun.items()}
        found.runs = tuple(sorted(known.values()))
        rescaled = [self.rescaling(of, name) for name in found.others if (of := rescaled_of(name))]
        found.rescalings = {each.of: each for each in rescaled if each is not None}
        return found

    def partition_times(self, start: Start) -> list[PartitionTimes]:
        """Per stream, the max event time of each source partition over all partitions of the join. The tasks
        of a micro-batch in this process read them once."""
        if self._partition_times is None or self._partition_times[0] != start.version:
            summary, markers = start.markers.summary, start.markers.markers(start.base)
            times = self.summaries.times(markers) if summary is None else self.summaries.summed(summary)
            self._partition_times = start.version, times
        return self._partition_times[1]

    def _base(self, mine: QueryRun, batch: int, markers: CommitMarkers) -> Version | None:
        if batch == 0:
            return None
        missing, partitions = markers.missing(batch - 1)
        if missing > 0:
            # A later run that was set back removes what this one has committed since.
            self._refuse_replaced(mine, self._markers(self._beside(), mine).runs)
            raise StateError(
                f"{incomplete(batch - 1, missing, partitions)}. Either state in "
                f"{self.storage.at(self.directory)} was deleted, or the query was set back further than "
                "state is kept: put the state back from a copy of that time, or start the query with a new "
                "checkpoint"
            )
        base = markers.version(batch - 1)
        if base is not None and markers.layout(base) is None:
            path = f"{self.directory}/{COMMITS}/{run_file(base.run)}"
            raise StateError(damaged(self.storage.at(path), f"it is missing, and batch {batch} needs it"))
        return base

    def run(self, run: str) -> QueryRun | None:
        """A recorded run. Reads the file by name, because a listing may be behind."""
        if run not in self._runs:
            path = f"{self.directory}/{COMMITS}/{run_file(run)}"
            try:
                data = self.storage.read(path).to_pybytes()
            except FileNotFoundError:
                return None
            found = QueryRun.from_bytes(run, data, self.storage.at(path))
            self._runs[run] = found if found.layout else replace(found, layout=self._first_layout())
        return self._runs[run]

    def _first_layout(self) -> StoredLayout:
        """Of a run that does not record its layout."""
        before = JoinMetadata.read(self.storage, f"{self.directory}/{JOIN_METADATA}")
        return self.layout if before is None or before.layout is None else before.layout

    def rescaling(self, of: Version, name: str | None = None) -> Rescaling | None:
        """The rescaling of a version, if there is one."""
        if of not in self._rescalings:
            path = f"{self.directory}/{COMMITS}/{name or rescaled_file(of)}"
            try:
                data = self.storage.read(path).to_pybytes()
            except FileNotFoundError:
                return None
            self._rescalings[of] = Rescaling.from_bytes(of, data, self.storage.at(path))
        return self._rescalings[of]

    def _record(self, run: str, batch: int) -> QueryRun:
        """Records that a run begins. All tasks of its first micro-batch may do so at once: they record the
        same micro-batch, and it does not matter whose number is kept."""
        beside = self._beside()
        number = 1 + max((r.number for r in self._markers(beside).runs), default=0)
        made = QueryRun(number, run, batch, self.layout)
        # A start that is refused leaves no record: it would count from its first micro-batch on.
        self._base(
            made, batch, self._markers(beside + (self.summaries.names(batch - 1) if batch else []), made)
        )
        what, commits = f"the record of run {run}", f"{self.directory}/{COMMITS}"
        # Notices come first: the record makes the run count.
        for noticed in range(max(batch - 1, 0), batch + 1):
            self.storage.create(f"{commits}/{batch_directory(noticed)}/{made.name}", b"", what)
        self.storage.create(f"{commits}/{made.name}", made.to_bytes(), what)
        return self.run(run) or made
