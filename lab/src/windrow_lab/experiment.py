"""Experiments and their outcomes.

An experiment covers one figure, table or worked example of a paper. It is a list of independent tasks, a
function that runs one of them and returns rows of plain values, a function that judges claims by all rows,
and a function that draws them. Whether a claim holds is always computed from the rows. `sweep.py` makes one
from a grid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from matplotlib.figure import Figure

Size = Literal["full", "quick"]
Row = dict[str, Any]
Task = Any
"""A frozen dataclass or tuple that pickles."""


@dataclass(frozen=True)
class Claim:
    """One statement of a claim beside what was measured.

    Parameters
    ----------
    id
        The claim's id in the ledger, such as "M4", or that of an extra.
    says
        What must be seen for it to hold.
    measured
        What was seen: a number, or several by name.
    holds
        Whether that is what the claim says.
    """

    id: str
    says: str
    measured: Any
    holds: bool


@dataclass(frozen=True)
class Outcome:
    """One run of an experiment."""

    experiment: str
    parameters: Mapping[str, Any]
    rows: Sequence[Row]
    claims: Sequence[Claim]
    ran: Mapping[str, Any] = field(default_factory=dict)
    """Commit, time and seconds of the run."""

    @property
    def holds(self) -> bool:
        return all(claim.holds for claim in self.claims)

    def to_json(self, rows: bool = True) -> str:
        """The record kept of the run, in the format of the claims ledger; the rows can be left out."""
        record = {
            "experiment": self.experiment,
            "ran": dict(self.ran),
            "parameters": dict(self.parameters),
            "rows": list(self.rows) if rows else [],
            "claims": [asdict(claim) for claim in self.claims],
        }
        return json.dumps(record, indent=1, ensure_ascii=False)


@dataclass(frozen=True)
class Experiment:
    """One figure, table or worked example.

    Parameters
    ----------
    name
        Such as "multijoin-fig4a".
    title
        What it shows, in a line.
    claims
        The ids in the ledger that it covers.
    parameters
        Everything chosen for a size: streams, constants, seeds.
    tasks
        The independent tasks for a size.
    run
        One task's rows. It and the tasks must pickle: a function of a module.
    assess
        The claims, from all rows.
    plot
        Draws all rows.
    """

    name: str
    title: str
    claims: tuple[str, ...]
    parameters: Callable[[Size], Mapping[str, Any]]
    tasks: Callable[[Size], Sequence[Task]]
    run: Callable[[Any], list[Row]]
    assess: Callable[[Sequence[Row]], list[Claim]]
    plot: Callable[[Sequence[Row], Figure], None]

    def outcome(self, size: Size, results: Sequence[list[Row]]) -> Outcome:
        """The outcome, from the rows of all tasks."""
        rows = [row for result in results for row in result]
        return Outcome(self.name, {"size": size, **self.parameters(size)}, rows, self.assess(rows))
