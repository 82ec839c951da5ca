"""Runs of a query, and which run owns a micro-batch.

Spark gives every start of a query a run id. After a checkpoint is set back or a source changes, a run may
form a micro-batch again that an earlier run committed with other rows. So every version and every commit
marker carries its run. The last run that began at or before a micro-batch owns it; versions of older runs are
void.

A run is recorded once, with its first micro-batch, in a file named by its id. Numbers order the runs. If two
runs begin at the same time and get the same number, the larger id counts as the later run. The earlier run is
refused when it begins its next micro-batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from windrow.errors import StateError
from windrow.state.parts import damaged

_PREFIX = "run."


@dataclass(frozen=True, order=True)
class Version:
    """The state that a run committed for a micro-batch."""

    batch: int
    run: str


@dataclass(frozen=True, order=True)
class QueryRun:
    number: int
    id: str
    first: int = field(compare=False)
    """Its first micro-batch."""

    @property
    def name(self) -> str:
        return run_file(self.id)

    def to_bytes(self) -> bytes:
        return json.dumps({"number": self.number, "first": self.first}).encode()

    @classmethod
    def from_bytes(cls, run: str, data: bytes, where: str) -> QueryRun:
        try:
            saved = json.loads(data)
            return cls(int(saved["number"]), run, int(saved["first"]))
        except (ValueError, TypeError, KeyError) as error:
            raise StateError(damaged(where, f"it does not describe a run ({error})")) from error


def run_file(run: str) -> str:
    return f"{_PREFIX}{run}"


def run_of(name: str) -> str | None:
    """The run that a file in the directory of commits records; None for other files."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else None


def owner(runs: Iterable[QueryRun], batch: int) -> QueryRun | None:
    """The run whose version of the micro-batch is valid.

    >>> runs = [QueryRun(1, "a", 0), QueryRun(2, "b", 8)]
    >>> [owner(runs, batch).id for batch in (7, 8, 9)]
    ['a', 'b', 'b']
    """
    return max((run for run in runs if run.first <= batch), default=None)
