"""Experiments and their outcomes.

An experiment covers one figure, table or worked example of a paper. It is a list of independent tasks, a
function that runs one of them and returns rows of plain values, a function that reads the claims off all
rows, and a function that draws them. Whether a claim holds is always computed from the rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from matplotlib.figure import Figure

Size = Literal["full", "quick"]
Row = dict[str, Any]
Task = Any
"""A frozen dataclass or tuple that pickles."""


@dataclass(frozen=True)
class Claim:
    """One promise of a paper beside what was measured.

    Parameters
    ----------
    id
        The claim's id in the ledger, such as "M4".
    says
        What must be seen.
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

    @property
    def holds(self) -> bool:
        return all(claim.holds for claim in self.claims)

    def to_json(self) -> str:
        """The record kept of the run, in the format of the claims ledger."""
        record = {
            "experiment": self.experiment,
            "parameters": dict(self.parameters),
            "rows": list(self.rows),
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
