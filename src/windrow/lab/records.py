"""The records that `windrow lab run --out` leaves behind, read again: what was measured, what is missing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windrow.errors import QueryError
from windrow.lab import experiments
from windrow.lab.experiment import Claim, Experiment, Outcome

PAPERS = {
    "G": "GrubJoin",
    "S": "Shared",
    "I": "iJoin",
    "M": "MultiJoin",
    "A": "Memory",
    "B": "Beyond the papers",
}
"""By the first letter of a claim's id."""


@dataclass(frozen=True)
class Record:
    """One experiment with its last result, if there is one."""

    experiment: Experiment
    outcome: Outcome | None = None
    unreadable: str | None = None
    """Why the file that should hold the result cannot be used."""

    @property
    def quick(self) -> bool:
        return self.outcome is not None and self.outcome.parameters.get("size") == "quick"

    @property
    def command(self) -> str:
        return f"windrow lab run {self.experiment.name}{' --quick' if self.quick else ''}"

    @property
    def ids(self) -> tuple[str, ...]:
        """The claims it covers."""
        measured = tuple(c.id for c in self.outcome.claims) if self.outcome else ()
        return tuple(dict.fromkeys((*self.experiment.claims, *measured)))

    @property
    def papers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each[0] for each in self.ids))


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim of the ledger, over all experiments that cover it."""

    id: str
    statements: int
    held: int
    experiments: tuple[str, ...]
    missing: tuple[str, ...]
    """Experiments of these that have no result."""

    @property
    def holds(self) -> bool | None:
        """None where nothing was measured."""
        return None if not self.statements else self.held == self.statements


def read_records(directory: Path) -> list[Record]:
    """Every experiment there is, with what the directory holds of it."""
    try:
        files = {path.stem: path for path in sorted(directory.iterdir()) if path.suffix == ".json"}
    except OSError as error:
        message = f"{directory}: cannot be read: {error.strerror}"
        raise QueryError(f"{message}; `windrow lab run --all --out {directory}` makes it") from None
    found = [_record(experiments.find(name), files.get(name)) for name in experiments.names()]
    if not any(record.outcome or record.unreadable for record in found):
        raise QueryError(
            f"{directory}: holds no result of an experiment; "
            f"`windrow lab run --all --out {directory}` makes some"
        )
    return found


def _record(experiment: Experiment, path: Path | None) -> Record:
    if path is None:
        return Record(experiment)
    try:
        return Record(experiment, _outcome(experiment.name, json.loads(path.read_text(encoding="utf-8"))))
    except OSError as error:
        return Record(experiment, unreadable=f"{path.name}: {error.strerror}")
    except (ValueError, KeyError, TypeError) as error:
        return Record(experiment, unreadable=f"{path.name} is no record of this experiment: {error}")


def _outcome(name: str, plain: Mapping[str, Any]) -> Outcome:
    if plain["experiment"] != name:
        raise ValueError(f"it is of {plain['experiment']!r}")
    rows: list[dict[str, Any]] = [dict(row) for row in plain["rows"]]
    claims = [Claim(str(c["id"]), str(c["says"]), c["measured"], _truth(c["holds"])) for c in plain["claims"]]
    return Outcome(name, dict(plain["parameters"]), rows, claims)


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"'holds' must be true or false, got {value!r}")
    return value


def verdicts(records: Sequence[Record]) -> list[ClaimVerdict]:
    """Claim by claim, in the order of the ledger."""
    ids = sorted({each for record in records for each in record.ids}, key=_place)
    found = []
    for each in ids:
        covering = [record for record in records if each in record.ids]
        claims = [c for r in covering if r.outcome for c in r.outcome.claims if c.id == each]
        found.append(
            ClaimVerdict(
                each,
                len(claims),
                sum(c.holds for c in claims),
                tuple(r.experiment.name for r in covering),
                tuple(r.experiment.name for r in covering if r.outcome is None),
            )
        )
    return found


def _place(claim: str) -> tuple[int, int, str]:
    number = "".join(c for c in claim if c.isdigit())
    return list(PAPERS).index(claim[0]) if claim[0] in PAPERS else len(PAPERS), int(number or 0), claim
