"""Spark, simulated: drivers, tasks, twins, zombies, crashes, rescalings, checkpoints and copies, around the
real task, log and store.

A schedule is drawn from a seed. Whatever happens, in the end the results of all batches are those of the
batches as they were formed last, each once; or some task said clearly why it cannot go on. If checkpoint and
state were copied and a second query goes on from the copies, that holds for each of the two.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import UUID

import windrow as wr
from simulated_checkpoint import Backup, Checkpoint
from simulated_machines import Machines
from simulated_rows import SimulatedRows
from simulated_store import FAULT, Actor, Killed, Scheduler, SimulatedRoot
from simulated_tasks import (
    SECOND,
    SMALL,
    WHOLE,
    Batch,
    SmallKind,
    SmallTask,
    WholeTask,
    pairs_in,
)
from windrow.spark import operator_cache, task
from windrow.spark.microbatch import MicroBatch
from windrow.spark.operator_cache import OperatorCache
from windrow.spark.task import freeze_loaded_objects
from windrow.state import paths, rescale, store
from windrow.state.cleanup import KEPT_BEHIND
from windrow.state.commit_log import CommitLog
from windrow.state.layout import StoredLayout
from windrow.state.paths import JoinId
from windrow.state.runs import Version

ATTEMPTS, RESTARTS = 4, 12
PARTITIONS = (1, 2, 3)
WINDOWS = {"time": "6 seconds", "rows": "2 rows per key"}
REAL_OPERATOR = 0.1
"""Of the schedules; the others have a small one that is many times as fast."""
PASSING = ("another run of this query", FAULT, "cannot spill")
"""What a query is refused for may go away if these words are in it."""
COPY = "copy"
"""The actor that copies the state."""


@dataclass
class Outcome:
    """How a schedule ended, for one of its queries."""

    results: Counter[tuple]
    wanted: Counter[tuple]
    refused: str | None
    lost: bool
    """It cannot go on, though nothing has happened that state is not kept for."""
    trace: list[str]


class Simulation:
    """A scheduler, machines, and one query, or two once it was copied."""

    def __init__(self, seed: int) -> None:
        freeze_loaded_objects()
        self.rng = Random(seed)
        # Or else a seed would not be one schedule.
        store.uuid4 = rescale.uuid4 = lambda: UUID(int=self.rng.getrandbits(128))
        self.scheduler = Scheduler(self.rng)
        self.machines = Machines(self.scheduler, self.rng)
        self.last = self.rng.randint(3, 6)
        self.faults = self.rng.choice([0.0, 0.002, 0.01])
        self.real = self.rng.random() < REAL_OPERATOR
        self.counted = self.real and self.rng.random() < 0.4
        self.spills = self.real and self.rng.random() < 0.6
        self.late = self.rng.choice([0, 2 * SECOND])
        held_back = self.counted or self.rng.random() < 0.4
        within = WINDOWS["rows" if self.counted else "time"]
        streams = {alias: wr.Stream("ts", within) for alias in "ab"}
        limits = {"memory": self.rng.choice([1, 2000]), "disk": "unlimited"} if self.spills else {}
        self.query = wr.Query(streams, "a.k = b.k", late=f"{self.late // SECOND} s", **limits)
        self.schema = WHOLE if self.real else SMALL
        options: dict[str, Any] = {
            "query": self.query, "schemas": (self.schema, self.schema),
            "keys": (None, None), "partitions": 1, "name": "join", "state": "",
            "parallel_tasks": self.rng.choice([1, 100]),
        }  # fmt: skip
        root = self.root(eventual=self.rng.random() < 0.5)
        # Attempts agree on where to start from only if they list the same (decision 17).
        self.deferring = not self.real and not root.eventual and self.rng.random() < 0.6
        kind = SmallKind(held_back, self.rng if self.deferring else None)
        self.task = WholeTask(**options) if self.real else SmallTask(**options, kind=kind)
        self.rows = SimulatedRows(self.rng, self.query, self.schema, self.late, self.counted)
        flushes = 2 if held_back and (self.late or not self.real) else 0
        batches = [self.rows.form(n) for n in range(self.last)]
        batches += [self.rows.flush(n) for n in range(flushes)]
        batches += [Batch({"a": [], "b": []}, self.schema)] * self.deferring  # hands on what was deferred
        self.queries = [SimulatedQuery(self, "query", root, batches, Checkpoint())]

    def root(self, eventual: bool) -> SimulatedRoot:
        return SimulatedRoot(self.scheduler, eventual, local=not self.machines.remote)

    def run(self) -> list[Outcome]:
        collecting = self.rng.choice([1, 1, 2, 8])
        group, smallest = self.rng.choice([1, 2, 32]), self.rng.choice([0, 0, 0, 2048, 1 << 14])
        with (
            self.machines.running(),
            patch.object(task, "COLLECTING", collecting),
            patch.object(paths, "GROUP", group),
            patch.object(store, "SMALLEST_FILE", smallest),
            patch.object(operator_cache, "release_memory"),  # a third of the time of a schedule
        ):
            self._run()
        return [query.outcome() for query in self.queries]

    def _run(self) -> None:
        while running := [query for query in self.queries if not query.over]:
            query = self.rng.choice(running)
            if (self.machines.remote or self.spills) and self.rng.random() < 0.5:
                self.machines.strike()
            query.go_on()
            if len(self.queries) == 1 and not query.over and self.rng.random() < 0.05:
                self.queries.append(query.copied())
        for zombie in list(self.scheduler.actors):
            self.scheduler.kill(zombie)


class SimulatedQuery:
    """A streaming query: its checkpoint, its state, and its rows as they were formed last."""

    def __init__(
        self, sim: Simulation, name: str, root: SimulatedRoot, batches: list[Batch], checkpoint: Checkpoint
    ) -> None:
        self.sim, self.rng, self.scheduler = sim, sim.rng, sim.scheduler
        self.name, self.root, self.batches, self.checkpoint = name, root, batches, checkpoint
        self.token = name
        self.partitions = self.rng.choice(PARTITIONS)
        self.run: str | None = None
        """Of the driver that runs it; None while there is none."""
        self.restarts = 0
        self.refused: str | None = None
        self.stopped = False
        """What it was refused for does not go away."""
        self.highest = 0
        """Of the batches that tasks have run."""
        self.excused = False
        """It was set back further than state is kept, or put back from a copy that may be torn."""
        self.backup: Backup | None = None
        self.rival = -1
        """The last batch that another driver has run."""

    @property
    def done(self) -> bool:
        return self.checkpoint.next == len(self.batches)

    @property
    def over(self) -> bool:
        return self.done or self.stopped or (self.run is None and self.restarts >= RESTARTS)

    def outcome(self) -> Outcome:
        found = sum(self.checkpoint.sink.values(), Counter())
        refused = None if self.done else self.refused or "gave up"
        lost = self.stopped and not self.excused
        return Outcome(found, self.sim.rows.wanted(self.batches), refused, lost, self.scheduler.trace)

    def note(self, event: str) -> None:
        self.scheduler.trace.append(f"{self.name}: {event}")

    # -- the driver ---------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Runs the next batch, in a new run if there is none; all that may happen between batches, may."""
        if self.run is None:
            self._start()
        try:
            if not self._next_batch():
                self.run = None
        except wr.StateError as error:
            self.run, self.refused = None, str(error)
            self.note(f"refused: {self.refused[:160]}")
            self.stopped = not any(said in self.refused for said in PASSING)
        except (OSError, Killed):
            self.run = None
            self.note("the query fails: a task failed too often")
        if self.run is None and self.rng.random() < 0.5:
            for zombie in list(self.scheduler.actors):
                self.scheduler.kill(zombie)

    def _start(self) -> None:
        self.restarts += 1
        self.run = f"{self.rng.getrandbits(128):032x}"
        if self.rng.random() < 0.3 and not self.sim.deferring:
            self._rescale()
        before = self.partitions
        if self.rng.random() < 0.4:
            self.partitions = self.rng.choice(PARTITIONS)
        self.note(f"run {self.run[:2]} from batch {self.checkpoint.next} in {self.partitions} partitions")
        if self.rng.random() < 0.5 or self.partitions != before:
            # Another driver process; workers of the old one may live on as zombies.
            self.token = self.run
            self.sim.machines.start_workers()

    def _next_batch(self) -> bool:
        """Whether the driver lives on."""
        assert self.run is not None
        checkpoint, batch, chance = self.checkpoint, self.checkpoint.next, self.rng.random
        out = self._batch(self.run, batch)
        if chance() < 0.1:
            return False  # the driver is killed before the sink has it
        checkpoint.sink[batch] = out
        if chance() < 0.1:
            return False  # ... or after that: the batch is run again, and the sink knows it
        checkpoint.next += 1
        if chance() < 0.1:
            return False  # the query is stopped
        if chance() < 0.1:
            self._set_back()
            return False
        if chance() < 0.05:
            self._rival()
        if chance() < 0.1:
            self._back_up()
        elif self.backup is not None and chance() < 0.1:
            self._put_back(self.backup)
            return False
        return True

    def _batch(self, run: str, batch: int) -> Counter[tuple]:
        self.highest = max(self.highest, batch)
        order = list(range(self.partitions))
        self.rng.shuffle(order)
        # A function of foreachBatch may take a row only, or ignore its frame.
        read = self.rng.randrange(len(order)) if self.rng.random() < 0.1 else len(order)
        found: Counter[tuple] = Counter()
        for partition in order[:read]:
            found.update(self._partition(run, batch, partition))
        if not self._is_complete(run, batch):
            self.note(f"batch {batch}, read in {read} partitions, is completed")
            for number, partition in enumerate(order):
                again = self._partition(run, batch, partition)
                if number >= read:
                    found.update(again)
        return found

    def _is_complete(self, run: str, batch: int) -> bool:
        """What the driver finds when the function has returned."""
        log = CommitLog(self.root, JoinId("query", "join"), self.partitions)
        actor = self.scheduler.spawn(f"{self.name} driver", lambda: log.is_complete(Version(batch, run)))
        self.scheduler.run(lambda: actor.done, self.sim.faults)
        if actor.error is not None:
            raise actor.error
        return bool(actor.result)

    def _partition(self, run: str, batch: int, partition: int) -> Counter[tuple]:
        """The output of the attempt that finishes first. A twin that does not becomes a zombie, or is
        killed."""
        error: BaseException | None = None
        for _ in range(ATTEMPTS):
            attempts = [self._launch(run, batch, partition) for _ in range(self.rng.choice([1, 1, 1, 2]))]
            self.scheduler.run(lambda attempts=attempts: any(a.done and a.error is None for a in attempts)
                               or all(a.done for a in attempts), self.sim.faults)  # fmt: skip
            for twin in attempts:
                if not twin.done and self.rng.random() < 0.5:
                    self.scheduler.kill(twin)
            good = next((a for a in attempts if a.done and a.error is None), None)
            if good is not None:
                assert isinstance(good.result, Counter)
                return good.result
            error = next((a.error for a in attempts if a.error is not None), error)
        raise error or AssertionError("no attempt ended")

    def _launch(self, run: str, batch: int, partition: int) -> Actor:
        partitions, token = self.partitions, self.token
        root, rows = self.root, self.batches[batch].part(partition, partitions)

        def attempt(worker: OperatorCache) -> Counter[tuple]:
            task = replace(self.sim.task, partitions=partitions, token=token).of(partition)
            found: Counter[tuple] = Counter()
            for out in task.run_micro_batch(root, MicroBatch("query", run, batch), rows, 0.0, worker):
                found.update(pairs_in(out))
                self.scheduler.step("hand on")
            return found

        return self.sim.machines.launch(f"{self.name} {run[:2]}.b{batch}.p{partition}", attempt)

    # -- what happens to checkpoint and state -------------------------------------------------------------

    def _set_back(self) -> None:
        """The checkpoint is put back from a copy, by a few batches or to the beginning, and batches are
        formed anew, with other rows or the same."""
        next = self.checkpoint.next
        self.checkpoint.next -= min(self.rng.choice([1, 2, 3, next]), next)
        self.excused |= 0 < self.checkpoint.next < self.highest - KEPT_BEHIND
        self._form_again()
        self.note(f"set back to batch {self.checkpoint.next}")

    def _form_again(self) -> None:
        for batch in range(self.checkpoint.next, len(self.batches)):
            self.checkpoint.sink.pop(batch, None)
            if batch < self.sim.last and self.rng.random() < 0.8:
                self.batches[batch] = self.sim.rows.form(batch)

    def _back_up(self) -> None:
        """Begins to copy the state, one directory after another; tasks run meanwhile."""
        root, checkpoint, backup = self.root, self.checkpoint, Backup(self.checkpoint.copy(), self.batches[:])
        begun = checkpoint.next
        self.note(f"a copy is begun before batch {begun}")

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
            # The checkpoint may be copied after the state; but not around a rival, whose version would then
            # pass for the one that the copy of the state lacks.
            if self.rng.random() < 0.5 and self.rival < begun:
                backup.checkpoint, backup.batches = checkpoint.copy(), self.batches[:]
            self.backup = backup
            return None

        self.scheduler.spawn(COPY, work)

    def _put_back(self, backup: Backup) -> None:
        """The query is stopped; it will go on from the copies, elsewhere or in the same place."""
        self.note(f"put back from the copies, to batch {backup.checkpoint.next}")
        elsewhere = self.rng.random() < 0.5
        for actor in list(self.scheduler.actors):
            if not elsewhere or actor.name == COPY:
                self.scheduler.kill(actor)
        if elsewhere:
            self.root, self.token = self.sim.root(self.root.eventual), f"{self.rng.random()}"
        self.root.files, self.root.recent = dict(backup.files), {}
        self.excused = True
        self.batches, self.checkpoint, self.backup = backup.batches[:], backup.checkpoint, None

    def copied(self) -> SimulatedQuery:
        """A second query with copies of checkpoint and state, made between two batches. Both go on, with rows
        of their own, at the same time and on the same workers."""
        root = self.sim.root(self.root.eventual)
        root.files = dict(self.root.files)
        copy = SimulatedQuery(self.sim, "the copy", root, self.batches[:], self.checkpoint.copy())
        copy.highest, copy.excused = self.highest, self.excused
        copy._form_again()
        copy.note(f"copied before batch {copy.checkpoint.next}")
        return copy

    def _rival(self) -> None:
        """Another driver starts with a copy of the checkpoint and runs a batch. This one must notice."""
        batch = self.checkpoint.next
        if batch >= len(self.batches):
            return
        run, mine = f"{self.rng.getrandbits(128):032x}", (self.partitions, self.token)
        self.rival = batch
        self.partitions, self.token = self.rng.choice(PARTITIONS), run
        self.note(f"a rival {run[:2]} from batch {batch} in {self.partitions} partitions")
        try:
            self._batch(run, batch)
        except (wr.StateError, OSError, Killed):
            self.note("the rival fails")
        self.partitions, self.token = mine

    def _rescale(self) -> None:
        """Somebody stores the state in another layout, or two do so at once. They may be killed, or go on
        while the query runs."""
        began = [self._launch_rescale(self.rng.choice(PARTITIONS)) for _ in range(self.rng.choice([1, 1, 2]))]
        if self.rng.random() < 0.7:
            self.scheduler.run(lambda: all(actor.done for actor in began), self.sim.faults)
        if not self.scheduler.actors:
            won = [actor.result for actor in began if actor.result]
            assert self.root.eventual or len(set(won)) == len(won), "two rescalings of one version have won"

    def _launch_rescale(self, partitions: int) -> Actor:
        root, task = self.root, replace(self.sim.task, partitions=partitions)
        self.note(f"rescaled to {partitions} partitions")

        def work() -> Version:
            stored = rescale.StoredVersion(root, "query/join", lambda: self.scheduler.now)
            made = rescale.Rescale(stored, StoredLayout(partitions))
            for partition in range(partitions):
                moves = task.moves(stored.layout, partition)
                made.build(partition, task.kind.redistributed(stored.states(), moves))
            made.finish()
            return stored.version

        return self.scheduler.spawn(f"{self.name} rescale", work)
