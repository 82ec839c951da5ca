"""Runs in a Python worker: one partition of the join, in one micro-batch.

    read all input -> load the windows -> process -> commit the windows -> return the results -> clean up

The windows are loaded as micro-batch b-1 left them, and committed as those of b before the first result is
returned. A reader that stops early therefore loses nothing of the windows. An attempt that fails after its
commit does no harm: the next starts from b-1 again and does the same work.

Every partition runs in every micro-batch, even without rows: its event time advances, which makes buffered
rows processable. Micro-batch b runs only if every partition has committed b-1.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Self
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext

from windrow.engine.redistribution import Moves
from windrow.engine.runner import JoinRunner
from windrow.errors import StateError
from windrow.model.limits import Deadline, MemoryLimit
from windrow.model.predicate import JoinColumn
from windrow.model.query import Query
from windrow.planning.bound_query import BoundQuery
from windrow.spark.files.places import PlaceFinder
from windrow.spark.first_copies import count_ahead, dropped_for_time, first_copy_counts
from windrow.spark.hot_keys import hottest
from windrow.spark.memory_pool import MemoryPool
from windrow.spark.metrics import COLUMN
from windrow.spark.microbatch import MicroBatch, micro_batch
from windrow.spark.operator_cache import CachedJoin, OperatorCache, open_store, release_memory
from windrow.spark.partition_join import JoinKind, PartitionJoin, SingleQuery, apply_controls
from windrow.spark.partition_report import partition_metrics
from windrow.spark.redistribution import layout_moves
from windrow.spark.task_input import TaskInput, gather
from windrow.spark.union import UnionColumns
from windrow.state.batch_summary import Demands
from windrow.state.commit_log import Start
from windrow.state.commit_markers import CommitMarker
from windrow.state.layout import StoredLayout
from windrow.state.paths import GROUP, JoinId
from windrow.state.runs import Version
from windrow.state.storage import Storage
from windrow.state.store import StateStore

COLLECTING = 8
"""Micro-batches between two cleanups of a partition. Partitions take turns."""
REPORTING_PARTITIONS = 2
"""Partitions that report their learned models in a micro-batch."""


@cache
def freeze_loaded_objects() -> None:
    """Exempt loaded objects from garbage collection, once per process. Spark's workers collect after every
    task; these objects are never freed, and traversing them takes longer than a small task."""
    gc.collect()
    gc.freeze()


_cache = OperatorCache()
"""Cache of this worker."""


@dataclass(frozen=True)
class JoinTask:
    """The join as sent to workers.

    Parameters
    ----------
    schemas
        Per stream, its columns.
    keys
        Per stream: the join column that rows are partitioned by, if any.
    state
        Where windows are stored; None for frames that are not streams, which have only one batch.
    """

    query: Query
    schemas: tuple[pa.Schema, ...]
    keys: tuple[JoinColumn | None, ...]
    partitions: int
    name: str
    state: str | None
    layout: StoredLayout | None = None
    """Where rows lie; None for frames that are not streams."""
    places: tuple[PlaceFinder, ...] = ()
    """Per stream: finds the partitions of its rows."""
    pool: MemoryPool | None = None
    """Memory pool shared with other joins."""
    parallel_tasks: int = 1
    """Number of tasks that run at the same time."""
    union: UnionColumns = field(default_factory=UnionColumns)
    """The columns of the input."""
    kind: JoinKind = field(default_factory=SingleQuery)
    """A single query, or several that share the join."""
    late_rows: str | Storage | None = None
    """Where late rows and rows too far ahead are stored; None to discard them."""
    token: str = field(default_factory=lambda: uuid4().hex)
    """Identifies this call of `join`, because a worker may cache joins of several queries."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_loaded_objects()
        began = time.perf_counter()
        arrived = gather(batches, self.schemas, self.union)
        read = time.perf_counter()
        task = self.of(arrived.partition or 0)
        if task.state is None:
            yield from task._run_static(arrived, read - began)
        else:
            yield from task.run_micro_batch(
                task.state, micro_batch(TaskContext.get()), arrived, read - began, _cache
            )
            if self.pool is not None or self.query.memory_limit is not None:
                del arrived
                release_memory()

    def of(self, partition: int) -> Self:
        """The task with the partition's own seed. With one seed, the errors of all estimates would
        correlate."""
        return replace(self, query=replace(self.query, seed=self.query.seed * self.partitions + partition))

    def _run_static(self, arrived: TaskInput, reading: float) -> Iterator[pa.RecordBatch]:
        """Process a batch job's whole input at once."""
        if arrived.partition is None:
            return
        join = self._fresh()
        runner = join.runner
        limit = self._set_memory_share(runner, Demands(), self.query.memory_limit)
        errors = apply_controls(join, arrived.control_messages)
        before = runner.metrics()
        counted = first_copy_counts(self.query, self.schemas, runner, arrived)
        began = time.perf_counter()
        allowed = self._deadline_share(arrived)
        results = [join.process(self._named(arrived), allowed), join.finish()]
        yield self._report(
            join,
            arrived,
            batch=None,
            before=before,
            after=runner.metrics(),
            counted=counted,
            limit=limit,
            allowed=allowed,
            control_errors=errors + join.control_errors(),
            seconds_read_input=reading,
            seconds_load_state=0.0,
            seconds_process=time.perf_counter() - began,
            seconds_commit_state=0.0,
            state_cache_hit=False,
        )
        for found in results:
            yield from found

    def run_micro_batch(
        self, root: str | Storage, now: MicroBatch, arrived: TaskInput, reading: float, cache: OperatorCache
    ) -> Iterator[pa.RecordBatch]:
        """Process the input of one micro-batch. `reading` is how long it took to read, in seconds."""
        began = time.perf_counter()
        scope = JoinId(now.query, self.name)
        tracked = any(stream.source_partition for stream in self.query.streams.values())
        sums_up = tracked or self.parallel_tasks > GROUP
        log = cache.log(self.token, root, scope, self.partitions, self.layout, sums_up)
        log.check_metadata(self.kind.fingerprint(self.query), first=now.batch == 0)
        if arrived.partition is None:
            raise StateError("this task received no rows, not even the beat with its partition")
        start = log.begin(now.run, now.batch, arrived.partition)
        # Load the windows.
        cache.drop_outdated(self.token, scope, now.batch)
        kept = cache.checkout(self.token, log, arrived.partition)
        known = kept.content
        join = self._load(kept, start)
        hit = known is not None and kept.content == known
        runner = join.runner
        changes, runner.changes = runner.changes, ()
        before = runner.metrics()
        # Take over what other partitions know, and the limits of this micro-batch.
        runner.advance_event_time(dict(zip(self.query.aliases, start.times, strict=False)))
        if tracked:
            runner.advance_partition_times(log.partition_times(start))
        demands = Demands() if start.moved_to(log.layout) else start.demands(arrived.partition)
        whole = self.query.memory_limit if self.pool is None else self.pool.share(scope)
        limit = self._set_memory_share(runner, demands, whole)
        if whole is not None and limit is not None:
            # Room for this partition beside those that the worker keeps; eviction copies the rows that stay.
            own = limit.size * (2 if self.query.disk_limit is None else 1)
            cache.limit(self.token, scope, whole.size / self.parallel_tasks - own)
        errors = apply_controls(join, arrived.control_messages)
        # Late rows are counted before processing, which advances the watermark.
        counted = first_copy_counts(self.query, self.schemas, runner, arrived)
        count_ahead(runner, arrived)
        late = None
        if self.late_rows is not None:
            late = dropped_for_time(self.query, self.schemas, runner, arrived)
        loaded = time.perf_counter()
        allowed = self._deadline_share(arrived)
        left = None if allowed is None else allowed - runner.overhead
        results = join.process(self._named(arrived), left)
        processed = time.perf_counter()
        runner.learn_overhead(reading + loaded - began + kept.committing)
        after = runner.metrics()
        # Commit. Late rows come first, because their readers do not know the commit log.
        if late is not None and self.late_rows is not None:
            place = cache.late_rows(self.token, self.late_rows, scope)
            place.publish(log, start, arrived.partition, late)
        times = [after.streams[alias].max_event_time for alias in self.query.aliases]
        measured = runner.join.memory_demand() if runner.join else None
        demand = None if measured is None else math.ceil(measured)
        by_source = runner.watermarks.partition_times if tracked else ()
        kept.content = kept.store.commit(start.version, join.capture(), times, demand, by_source).content
        kept.batch = now.batch
        if self.query.disk_limit is not None and runner.join is not None:
            # What is stored on a local disk need not be in memory, nor in a spill file.
            runner.join.windows.replace_parts(kept.store.map_written())
            after = runner.metrics()
        kept.committing = time.perf_counter() - processed
        if demand is not None:
            self._share_forecast(scope, runner, demands, arrived.partition, demand)
        cache.checkin(self.token, arrived.partition, kept)
        if whole is not None:
            kept.held = after.memory_bytes if whole.kind == "bytes" else after.window_rows
            cache.limit(self.token, scope, whole.size / self.parallel_tasks)
        yield self._report(
            join,
            arrived,
            batch=now.batch,
            before=before,
            after=after,
            counted=counted,
            limit=limit,
            allowed=allowed,
            control_errors=errors + join.control_errors(),
            seconds_read_input=reading,
            seconds_load_state=loaded - began,
            seconds_process=processed - loaded,
            seconds_commit_state=time.perf_counter() - processed,
            state_cache_hit=hit,
            changes=changes,
        )
        yield from results
        log.summaries.leave(start.version, arrived.partition, tracked)
        if self._deadline is not None:
            kept.store.propose_base()
        if (now.batch + arrived.partition) % COLLECTING == 0:
            kept.store.collect(start)

    def _fresh(self) -> PartitionJoin:
        return self.kind.start(self.query, dict(zip(self.query.aliases, self.schemas, strict=True)))

    # -- loading the windows ----------------------------------------------------------------------------

    def _load(self, kept: CachedJoin, start: Start) -> PartitionJoin:
        if (before := start.moved_to(kept.store.log.layout)) is not None:
            return self._take_over(kept, start, before)
        base = start.base
        attempts = [] if base is None else self._attempts(kept.store, start, base)
        if kept.join is not None and kept.content in {attempt.content for attempt in attempts}:
            return kept.join
        kept.content, kept.batch, kept.join = None, start.batch - 1, self._fresh()
        if base is None:
            kept.store.clear()
        else:
            manifest = kept.store.manifest(base, attempts)
            kept.content = manifest.content
            kept.join.restore(kept.store.load(manifest, lazy=True), start.times)
        return kept.join

    def _attempts(self, store: StateStore, start: Start, base: Version) -> list[CommitMarker]:
        """Attempts hold the same rows. Under a deadline they took different times, from which the next plan
        is made, and then all tasks must start from the same one."""
        return store.base(base, start.markers, agreed=self._deadline is not None)

    def _take_over(self, kept: CachedJoin, start: Start, before: StoredLayout) -> PartitionJoin:
        """Load the windows from all partitions of another layout. Every task of the first micro-batch in a
        new layout does so."""
        assert start.base is not None
        log, partition = kept.store.log, kept.store.partition
        old = log.in_layout(before)
        stores = [open_store(old, p) for p in range(before.partitions)]
        bases = [(store, self._attempts(store, start, start.base)) for store in stores]
        states = [store.load(store.manifest(start.base, attempts)) for store, attempts in bases]
        kept.content, kept.join = None, self._fresh()
        kept.store.clear()
        kept.join.restore(self.kind.redistributed(states, self.moves(before, partition)), start.times)
        runner = kept.join.runner
        changed = f"rows held were redistributed: {before.difference(log.layout)}"
        runner.changes = (*runner.changes, changed)
        return kept.join

    def moves(self, before: StoredLayout, partition: int) -> Moves:
        """What a partition takes over of a state in another layout."""
        return layout_moves(BoundQuery.of(self.query, self.schemas), self.places, before, partition)

    def _share_forecast(
        self, scope: JoinId, runner: JoinRunner, demands: Demands, partition: int, demand: int
    ) -> None:
        """Publish the forecast of one partition for all, since they hold rows of the same streams."""
        if self.pool is None or (demands.count and partition > demands.first):
            return
        forecast = runner.forecast()
        if forecast is not None and forecast.memory[-1] > 0:
            whole = demands.total - demands.own + demand
            self.pool.share_forecast(scope, forecast, whole / max(demand, 1))

    def _set_memory_share(
        self, runner: JoinRunner, demands: Demands, limit: MemoryLimit | None
    ) -> MemoryLimit | None:
        """Set the partition's share of the memory limit, in proportion to its demand at its last commit. New
        partitions get an even share, so that the sum never exceeds the limit.

        Demands are read from commit markers of earlier micro-batches, so a replay gets the same shares.
        """
        if limit is None:
            return None
        even = limit.size / self.partitions
        if demands.own:
            even *= demands.count * demands.own / demands.total
        share = MemoryLimit(limit.kind, max(len(self.query.aliases), int(even)))
        runner.set_memory_limit(share)
        return share

    def _deadline_share(self, arrived: TaskInput) -> float | None:
        """Seconds the partition may take in all; None without a deadline."""
        if (limit := self._deadline) is None:
            return None
        rows = sum(batch.num_rows for batch in arrived.rows.values())
        tasks = self.parallel_tasks if limit.rate else min(1.0, self.parallel_tasks / self.partitions)
        return limit.seconds(rows) * tasks

    @property
    def _deadline(self) -> Deadline | None:
        return self.query.time_limit or self.kind.deadline

    def _named(self, arrived: TaskInput) -> dict[str, pa.RecordBatch]:
        return {self.query.aliases[s]: rows for s, rows in arrived.rows.items()}

    # -- metrics ----------------------------------------------------------------------------------------

    def _report(
        self, join: PartitionJoin, arrived: TaskInput, batch: int | None, **own: Any
    ) -> pa.RecordBatch:
        """The metrics row of the partition. `own` are parameters of `partition_metrics`."""
        hot_key, share = hottest(self.query, self.keys, arrived.rows)
        metrics = partition_metrics(
            self.query,
            batch=batch,
            partition=arrived.partition,
            queries=join.query_metrics(),
            hot_key=hot_key,
            hot_key_share=share,
            learned_models=self._learned(join.runner, arrived.partition or 0, batch or 0),
            **own,
        )
        columns = self.kind.columns(self.query, self.schemas)
        arrays = [*(pa.nulls(1, kind) for kind in columns.types), pa.array([metrics.to_json()], pa.string())]
        return pa.RecordBatch.from_arrays(arrays, [*columns.names, COLUMN])

    def _learned(self, runner: JoinRunner, partition: int, batch: int) -> dict[str, Any] | None:
        """The learned models, if it is this partition's turn to report them. Only two or three partitions
        report per micro-batch, which keeps metrics small."""
        turns = max(1, self.partitions // REPORTING_PARTITIONS)
        return runner.learned_models().to_dict() if (partition - batch) % turns == 0 else None
