"""Spark, simulated: drivers, tasks, twins, zombies, crashes and checkpoints, around the real task, log and
store.

A schedule is drawn from a seed. Whatever happens, in the end the results of all batches are those of one
operator that saw the batches as they were formed last, each once; or some task said clearly why it cannot
go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
import pyarrow as pa

import windrow as wr
from results import ids
from simulated_store import Actor, Killed, Scheduler, SimulatedRoot
from windrow.spark.metrics import COLUMN
from windrow.spark.microbatch import MicroBatch
from windrow.spark.operator_cache import OperatorCache
from windrow.spark.task import JoinTask
from windrow.spark.task_input import TaskInput

SECOND = 1_000_000
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])
ATTEMPTS = 4
WINDOWS = {"time": "6 seconds", "rows": "2 rows per key"}
COPY = "copy"
"""The actor that copies the state."""
Tables = dict[str, pa.Table]


@dataclass
class Outcome:
    """How a schedule ended."""

    results: Counter[tuple]
    wanted: Counter[tuple]
    refused: str | None
    trace: list[str]


@dataclass
class Checkpoint:
    """Spark's: which batch comes next, and what the sink holds of those before."""

    next: int = 0
    sink: dict[int, Counter[tuple]] = field(default_factory=dict)

    def copy(self) -> Checkpoint:
        return Checkpoint(self.next, dict(self.sink))


@dataclass
class Backup:
    """A copy of the state made file by file while tasks ran, and one of the checkpoint made when it began."""

    checkpoint: Checkpoint
    batches: list[Tables]
    files: dict[str, tuple[bytes, float]] = field(default_factory=dict)


class Simulation:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.scheduler = Scheduler(self.rng)
        self.root = SimulatedRoot(self.scheduler, eventual=self.rng.random() < 0.5)
        self.partitions = self.rng.choice([1, 2, 3])
        self.last = self.rng.randint(3, 6)
        self.faults = self.rng.choice([0.0, 0.002, 0.01])
        self.counted = self.rng.random() < 0.4
        within = WINDOWS["rows" if self.counted else "time"]
        streams = {alias: wr.Stream("ts", within) for alias in "ab"}
        late = self.rng.choice(["0 s", "2 s"])
        self.query = wr.Query(streams, "a.k = b.k", late=late)
        flushes = 2 if self.counted and late != "0 s" else 0
        self.batches = [self._form(n) for n in range(self.last)] + [self._flush(n) for n in range(flushes)]
        task = JoinTask(
            query=self.query, schemas=(SCHEMA, SCHEMA), union_columns=(), keys=(None, None),
            partitions=self.partitions, name="join", state="",
        )  # fmt: skip
        self.tasks = [task.of(partition) for partition in range(self.partitions)]
        self.workers = [self._worker() for _ in range(3)]
        self.token = "first"
        self.backup: Backup | None = None

    # -- the rows -----------------------------------------------------------------------------------------

    def _form(self, batch: int) -> Tables:
        """Few rows of few keys, so that partitions without rows and batches without any are common."""
        return {
            alias: self._rows([self.rng.uniform(batch - 2, batch) for _ in range(self.rng.randint(0, 4))])
            for alias in "ab"
        }

    def _flush(self, number: int) -> Tables:
        """Rows of a time so late that all held back comes out, after the second of them in every partition.
        None matches them."""
        time = 1000.0 * (number + 1)
        return {alias: self._rows([time], key) for alias, key in (("a", -number), ("b", -50 - number))}

    def _rows(self, times: list[float], key: int | None = None) -> pa.Table:
        keys = [self.rng.randint(1, 3) if key is None else key for _ in times]
        seconds = [int(t * SECOND) for t in times]
        numbers = [self.rng.getrandbits(40) for _ in times]
        return pa.table(
            [numbers, pa.array(seconds, SCHEMA.field("ts").type), pa.array(keys, pa.int64())], SCHEMA
        )

    def wanted(self) -> Counter[tuple]:
        op = wr.Operator(self.query, dict.fromkeys("ab", SCHEMA))
        found: Counter[tuple] = Counter()
        for tables in self.batches:
            found.update(ids(op.process(tables)))
        return found

    # -- tasks --------------------------------------------------------------------------------------------

    def _worker(self) -> OperatorCache:
        return OperatorCache(lambda: self.scheduler.now)

    def _attempt(self, run: str, batch: int, partition: int, worker: OperatorCache) -> Counter[tuple]:
        task = replace(self.tasks[partition], token=self.token)
        rows = {s: self._own(self.batches[batch][a], partition) for s, a in enumerate("ab")}
        arrived = TaskInput(partition, {s: r for s, r in rows.items() if r.num_rows})
        now = MicroBatch("query", run, batch)
        found: Counter[tuple] = Counter()
        for out in task.run_micro_batch(self.root, now, arrived, 0.0, worker):
            if out.column(COLUMN).null_count:
                found.update(ids(pa.Table.from_batches([out.select(["a", "b"])])))
            self.scheduler.step("hand on")
        return found

    def _own(self, table: pa.Table, partition: int) -> pa.RecordBatch:
        mine = np.asarray(table.column("k")) % self.partitions == partition
        return table.filter(pa.array(mine)).combine_chunks().to_batches()[0] if mine.any() else _NONE

    def _launch(self, run: str, batch: int, partition: int) -> Actor:
        worker = self.rng.choice(self.workers)
        self.workers.remove(worker)  # a worker runs one task at a time
        if not self.workers or self.rng.random() < 0.2:
            self.workers.append(self._worker())

        def work() -> object:
            try:
                return self._attempt(run, batch, partition, worker)
            finally:
                self.workers.append(worker)

        return self.scheduler.spawn(f"{run[:2]}.b{batch}.p{partition}", work)

    # -- drivers ------------------------------------------------------------------------------------------

    def _partition(self, run: str, batch: int, partition: int) -> Counter[tuple]:
        """The output of the attempt that finishes first. A twin that does not becomes a zombie, or is
        killed."""
        error: BaseException | None = None
        for _ in range(ATTEMPTS):
            attempts = [self._launch(run, batch, partition) for _ in range(self.rng.choice([1, 1, 1, 2]))]
            self._run_until(lambda attempts=attempts: any(a.done and a.error is None for a in attempts)
                            or all(a.done for a in attempts))  # fmt: skip
            for twin in attempts:
                if not twin.done and self.rng.random() < 0.5:
                    self.scheduler.kill(twin)
            good = next((a for a in attempts if a.done and a.error is None), None)
            if good is not None:
                assert isinstance(good.result, Counter)
                return good.result
            error = next((a.error for a in attempts if a.error is not None), error)
        raise error or AssertionError("no attempt ended")

    def _run_until(self, over: Callable[[], bool]) -> None:
        def strike() -> bool:
            for actor in self.scheduler.actors:
                draw = self.rng.random()
                if draw < self.faults:
                    actor.failing = True
                elif draw < 1.5 * self.faults:
                    self.scheduler.kill(actor)
                    break
            return over()

        self.scheduler.run(strike)

    def _batch(self, run: str, batch: int) -> Counter[tuple]:
        order = list(range(self.partitions))
        self.rng.shuffle(order)
        found: Counter[tuple] = Counter()
        for partition in order:
            found.update(self._partition(run, batch, partition))
        return found

    def run(self) -> Outcome:
        checkpoint, refused, restarts = Checkpoint(), None, 0
        while checkpoint.next < len(self.batches) and restarts < 12:
            restarts += 1
            run = f"{self.rng.getrandbits(128):032x}"
            self.scheduler.trace.append(f"run {run[:2]} from batch {checkpoint.next}")
            if self.rng.random() < 0.5:
                # Another driver process; workers of the old one may live on as zombies.
                self.token, self.workers = run, [self._worker() for _ in range(3)]
            try:
                while checkpoint.next < len(self.batches):
                    batch = checkpoint.next
                    out = self._batch(run, batch)
                    if self.rng.random() < 0.1:
                        break  # the driver is killed before the sink has it
                    checkpoint.sink[batch] = out
                    if self.rng.random() < 0.1:
                        break  # ... or after that: the batch is run again, and the sink knows it
                    checkpoint.next += 1
                    if self.rng.random() < 0.1:
                        self._set_back(checkpoint)
                        break
                    if self.rng.random() < 0.05:
                        self._rival(checkpoint.next)
                    if self.rng.random() < 0.1:
                        self._back_up(checkpoint)
                    elif self.backup is not None and self.rng.random() < 0.1:
                        checkpoint = self._put_back(self.backup)
                        break
            except wr.StateError as error:
                refused = str(error)
                self.scheduler.trace.append(f"refused: {refused[:160]}")
                if "another run of this query" not in refused and "simulated" not in refused:
                    break
            except (OSError, Killed):
                self.scheduler.trace.append("the query fails: a task failed too often")
            if self.rng.random() < 0.5:
                for zombie in list(self.scheduler.actors):
                    self.scheduler.kill(zombie)
        done = checkpoint.next == len(self.batches)
        for zombie in list(self.scheduler.actors):
            self.scheduler.kill(zombie)
        found: Counter[tuple] = Counter()
        for out in checkpoint.sink.values():
            found.update(out)
        return Outcome(found, self.wanted(), None if done else refused or "gave up", self.scheduler.trace)

    def _set_back(self, checkpoint: Checkpoint) -> None:
        """The checkpoint is put back from a copy, and batches are formed anew, with other rows or the
        same."""
        back = min(self.rng.randint(1, 3), checkpoint.next)
        checkpoint.next -= back
        for batch in range(checkpoint.next, len(self.batches)):
            checkpoint.sink.pop(batch, None)
            if batch < self.last and self.rng.random() < 0.8:
                self.batches[batch] = self._form(batch)
        self.scheduler.trace.append(f"set back to batch {checkpoint.next}")

    def _back_up(self, checkpoint: Checkpoint) -> None:
        """Begins to copy the state, one directory after another; tasks run meanwhile."""
        root, backup = self.root, Backup(checkpoint.copy(), list(self.batches))
        self.scheduler.trace.append(f"a copy is begun before batch {checkpoint.next}")

        def work() -> object:
            directories = sorted({path.rpartition("/")[0] for path in root.files})
            self.rng.shuffle(directories)
            for directory in directories:
                names = [entry.name for entry in root.entries(directory)]
                self.rng.shuffle(names)
                for path in (f"{directory}/{name}" for name in names):
                    self.scheduler.step(f"copy {path}")
                    if path in root.files:
                        backup.files[path] = root.files[path]
            if self.rng.random() < 0.5:  # the checkpoint is copied after the state
                backup.checkpoint, backup.batches = checkpoint.copy(), list(self.batches)
            self.backup = backup
            return None

        self.scheduler.spawn(COPY, work)

    def _put_back(self, backup: Backup) -> Checkpoint:
        """The query is stopped; it will go on from the copies, elsewhere or in the same place."""
        self.scheduler.trace.append(f"put back from the copies, to batch {backup.checkpoint.next}")
        elsewhere = self.rng.random() < 0.5
        for actor in list(self.scheduler.actors):
            if not elsewhere or actor.name == COPY:
                self.scheduler.kill(actor)
        if elsewhere:
            self.root, self.token = SimulatedRoot(self.scheduler, self.root.eventual), f"{self.rng.random()}"
        self.root.files, self.root.recent = dict(backup.files), {}
        self.batches = list(backup.batches)
        self.backup = None
        return backup.checkpoint

    def _rival(self, batch: int) -> None:
        """Another driver starts with a copy of the checkpoint and runs a batch. This one must notice."""
        if batch >= len(self.batches):
            return
        run = f"{self.rng.getrandbits(128):032x}"
        self.scheduler.trace.append(f"a rival {run[:2]} from batch {batch}")
        try:
            self._batch(run, batch)
        except (wr.StateError, OSError, Killed):
            self.scheduler.trace.append("the rival fails")


_NONE = pa.RecordBatch.from_pylist([], schema=SCHEMA)
