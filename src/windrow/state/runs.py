"""Runs of a query, which run owns a micro-batch, and in which layout its rows lie.

Spark gives every start of a query a run id. After a checkpoint is set back or a source changes, a run may
form a micro-batch again that an earlier run committed with other rows. So every version and every commit
marker carries its run. The last run that began at or before a micro-batch owns it; versions of older runs are
void.

A run is recorded once, with its first micro-batch and its layout, in a file named by its id. Numbers order
the runs. If two runs begin at the same time and get the same number, the larger id counts as the later run.

A task lists only the micro-batch before its own. So that the earlier of two runs is refused when it begins
its next micro-batch, a run that begins leaves an empty notice, with the name of its record, among the commits
of its first micro-batch and of the one before.

A rescaling stores one version once more, in another layout, under a run id of its own. Its record is named by
the version that it stands for, so there is at most one. It says nothing about other micro-batches.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from windrow.errors import StateError
from windrow.state.layout import StoredLayout
from windrow.state.parts import damaged
from windrow.state.paths import batch_directory

_PREFIX = "run."
_RESCALED = re.compile(r"(?:batch-(\d+)/rescaled|rescaled\.b(\d+))\.([0-9a-f]+)")
"""Format 7 has rescalings beside the runs."""


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
    layout: StoredLayout | None = field(default=None, compare=False)
    """None in records of format 1, whose layout is in the join's metadata."""

    @property
    def name(self) -> str:
        return run_file(self.id)

    def to_bytes(self) -> bytes:
        layout = None if self.layout is None else self.layout.to_json()
        saved = {"format": 3, "number": self.number, "first": self.first, "layout": layout}
        return json.dumps(saved).encode()

    @classmethod
    def from_bytes(cls, run: str, data: bytes, where: str) -> QueryRun:
        try:
            saved = json.loads(data)
            layout = saved.get("layout")
            laid = None if layout is None else StoredLayout.from_json(layout)
            return cls(int(saved["number"]), run, int(saved["first"]), laid)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StateError(damaged(where, f"it does not describe a run ({error})")) from error


@dataclass(frozen=True)
class Rescaling:
    """A version that is stored once more in another layout."""

    of: Version
    run: str
    layout: StoredLayout

    @property
    def name(self) -> str:
        return rescaled_file(self.of)

    @property
    def version(self) -> Version:
        return Version(self.of.batch, self.run)

    def to_bytes(self) -> bytes:
        return json.dumps({"run": self.run, "layout": self.layout.to_json()}).encode()

    @classmethod
    def from_bytes(cls, of: Version, data: bytes, where: str) -> Rescaling:
        try:
            saved = json.loads(data)
            return cls(of, str(saved["run"]), StoredLayout.from_json(saved["layout"]))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StateError(damaged(where, f"it does not describe a rescaling ({error})")) from error


def run_file(run: str) -> str:
    return f"{_PREFIX}{run}"


def run_of(name: str) -> str | None:
    """The run that a file in the directory of commits records or gives notice of; None for other files."""
    name = name.rpartition("/")[2]
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else None


def rescaled_file(of: Version) -> str:
    return f"{batch_directory(of.batch)}/rescaled.{of.run}"


def rescaled_of(name: str) -> Version | None:
    """The version that the rescaling in a file of this name stands for; None for other files."""
    match = _RESCALED.fullmatch(name)
    return Version(int(match[1] or match[2]), match[3]) if match else None


def owner(runs: Iterable[QueryRun], batch: int) -> QueryRun | None:
    """The run whose version of the micro-batch is valid.

    >>> runs = [QueryRun(1, "a", 0), QueryRun(2, "b", 8)]
    >>> [owner(runs, batch).id for batch in (7, 8, 9)]
    ['a', 'b', 'b']
    """
    return max((run for run in runs if run.first <= batch), default=None)
