"""Runs of a query, and which of them a micro-batch belongs to.

Spark gives every start of a query a run id. A run may form a batch again that an earlier run has committed,
with other rows: the checkpoint was set back, or the source has changed. So every version and every commit
marker carries its run, and the last run that began at or before a batch owns it. What older runs left of
that batch is void.

A run is recorded once, with its first batch, in a file that its id names. Numbers order the runs; should two
runs begin at the same time, the larger id counts as the later one. The earlier one is refused as soon as it
looks.
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
    """What a run committed of a batch."""

    batch: int
    run: str


@dataclass(frozen=True, order=True)
class QueryRun:
    number: int
    id: str
    first: int = field(compare=False)
    """The first batch it ran."""

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
    """The run whose version of the batch is valid.

    >>> runs = [Run(1, "a", 0), Run(2, "b", 8)]
    >>> [owner(runs, batch).id for batch in (7, 8, 9)]
    ['a', 'b', 'b']
    """
    return max((run for run in runs if run.first <= batch), default=None)
