"""A simulated place for states, and a scheduler that decides with a seed who gets to touch it next.

Actors are coroutines. Each operation on a file hands the turn back to the scheduler, which may let another
actor go on, fail the operation, lose the answer to it, or kill the actor there for good, as `kill -9` would.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import greenlet
import pyarrow as pa

from windrow.state.storage import AtomicCommit, Entry, Pending, Storage, refused_reads, refused_writes

FAULT = "a fault of the disk that the schedule wants"
PAUSES = (0.0, 0.1, 3.0, 40.0)
"""Seconds between two operations."""


class Killed(BaseException):
    """Nothing catches it, so nothing is put in order."""


@dataclass(eq=False)
class Actor:
    name: str
    work: greenlet.greenlet
    failing: bool = False
    """Its next operation on a file fails."""
    unanswered: bool = False
    """Its next change of a file is made, and it never learns of it."""
    machine: Path | None = None
    """The local directory of the machine it runs on."""
    result: object = None
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        return self.work.dead


class Scheduler:
    """Runs actors by turns. `trace` is the schedule so far."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.trace: list[str] = []
        self.actors: list[Actor] = []
        self.now = 1_000_000.0
        self._running: Actor | None = None

    def spawn(self, name: str, work: Callable[[], object]) -> Actor:
        actor = Actor(name, greenlet.greenlet(work))
        self.actors.append(actor)
        return actor

    def step(self, operation: str) -> None:
        """Called by an actor before it touches a file."""
        actor = self._running
        if actor is None:
            return  # the test itself looks at the files
        self.trace.append(f"{actor.name}: {operation}")
        greenlet.getcurrent().parent.switch()
        if actor.failing:
            actor.failing = False
            self.trace.append(f"{actor.name}: fails")
            raise OSError(errno.EIO, FAULT)

    def answer(self) -> None:
        """Called by an actor after it has changed a file."""
        actor = self._running
        if actor is not None and actor.unanswered:
            actor.unanswered = False
            self.trace.append(f"{actor.name}: times out")
            raise TimeoutError(errno.ETIMEDOUT, FAULT)

    @property
    def machine(self) -> Path | None:
        """Where the actor runs that has its turn."""
        return None if self._running is None else self._running.machine

    def advance(self, actor: Actor) -> None:
        """Lets it run up to its next operation."""
        self.now += PAUSES[int(self.rng.random() * len(PAUSES))]
        self._resume(actor, actor.work.switch)

    def kill(self, actor: Actor) -> None:
        if not actor.done:
            self.trace.append(f"{actor.name}: killed")
            while not actor.done:
                self._resume(actor, actor.work.throw, Killed)

    def _resume(self, actor: Actor, go_on: Callable[..., object], *how: object) -> None:
        self._running = actor
        try:
            actor.result = go_on(*how)
        except (Exception, Killed) as error:
            actor.error = error
        self._running = None
        if actor.done:
            self.actors.remove(actor)

    def run(self, until: Callable[[], bool], faults: float) -> None:
        """Whoever is chosen goes on, until it is so, as some actor ends. At each turn an actor's next
        operation fails, or the actor is killed, as often as `faults` says."""
        while self.actors and not until():
            running = len(self.actors)
            while len(self.actors) == running:
                if faults and (draw := self.rng.random()) < 1.5 * faults * running:
                    struck = self.rng.choice(self.actors)
                    if draw >= faults * running:
                        self.kill(struck)
                        break
                    if self.rng.random() < 0.5:
                        struck.failing = True
                    else:
                        struck.unanswered = True
                self.advance(self.rng.choice(self.actors))


class SimulatedRoot(Storage):
    """Files in memory. On an `eventual` store a listing may lack what was put lately and show what was
    deleted lately, and two may create one file; but a file that is asked for by name is there. If it is not
    `local`, workers copy files to their machines, and a reader may be struck when it has half of one."""

    def __init__(self, scheduler: Scheduler, eventual: bool, local: bool) -> None:
        super().__init__("simulated://states")
        self.local = local
        self.scheduler = scheduler
        self.eventual = eventual
        self.files: dict[str, tuple[bytes, float]] = {}
        self.recent: dict[str, tuple[float, bool]] = {}
        """When a name appeared or vanished, and whether it was there before."""

    @contextmanager
    def commit(self, what: str, where: str) -> Iterator[AtomicCommit]:
        pending = Pending()
        yield pending
        with refused_writes(what, self.at(where)):
            for path, sink in pending.files.items():
                self._put(path, sink.getvalue().to_pybytes())

    def create(self, path: str, data: bytes, what: str) -> None:
        with refused_writes(what, self.at(path)):
            there = path in self.files
            if self.eventual:
                self.scheduler.step(f"look for {path}")
            if not there:
                self._put(path, data, replace=self.eventual)

    def read(self, path: str) -> pa.Buffer:
        with refused_reads(self.at(path)):
            self.scheduler.step(f"read {path}")
            if path not in self.files:
                raise FileNotFoundError(path)
            data = self.files[path][0]
            if not self.local:
                self.scheduler.step(f"read the rest of {path}")
            return pa.py_buffer(data)

    def entries(self, path: str, below: bool = False) -> list[Entry]:
        with refused_reads(self.at(path)):
            self.scheduler.step(f"list {path}")
        inside = f"{path}/" if path else ""
        names: dict[str, Entry] = {}
        for file in self._listed():
            if file.startswith(inside):
                name, _, rest = file[len(inside) :].partition("/")
                name = file[len(inside) :] if below else name
                data, modified = self.files.get(file, (b"", self.scheduler.now))
                names[name] = Entry(name, len(data), modified, bool(rest) and not below)
        return list(names.values())

    def delete(self, path: str) -> None:
        self.scheduler.step(f"delete {path}")
        if path in self.files:
            del self.files[path]
            self.recent[path] = (self.scheduler.now, True)
            self.scheduler.answer()

    def delete_tree(self, path: str) -> None:
        for file in [file for file in self.files if file.startswith(f"{path}/")]:
            self.delete(file)

    def _put(self, path: str, data: bytes, replace: bool = True) -> None:
        self.scheduler.step(f"put {path}")
        if replace or path not in self.files:
            self.recent.setdefault(path, (self.scheduler.now, path in self.files))
            self.files[path] = (data, self.scheduler.now)
            self.scheduler.answer()

    def _listed(self) -> list[str]:
        if not self.eventual:
            return list(self.files)
        behind = self.scheduler.rng.choice([0.0, 0.0, 0.0, 5.0])
        found = set(self.files)
        for path, (since, before) in list(self.recent.items()):
            if since < self.scheduler.now - 60:
                del self.recent[path]
            elif since > self.scheduler.now - behind:
                (found.add if before else found.discard)(path)
        return sorted(found)
