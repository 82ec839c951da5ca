"""The records that `windrow lab run` leaves behind, read again: what was measured, and what holds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windrow.errors import QueryError
from windrow_lab import experiments
from windrow_lab.claims import Promise, promises
from windrow_lab.experiment import Claim, Experiment, Outcome

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
    def size(self) -> str:
        return "" if self.outcome is None else str(self.outcome.parameters.get("size"))

    @property
    def command(self) -> str:
        return f"windrow lab run {self.experiment.name}{' --quick' if self.size == 'quick' else ''}"

    @property
    def papers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each[0] for each in self.experiment.claims))


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim, over all experiments that judge it."""

    promise: Promise
    statements: tuple[Claim, ...]
    missing: tuple[str, ...]
    """Experiments of these that have no result."""
    size: str
    """Of the runs: "full", or "quick" if any of them is."""

    @property
    def id(self) -> str:
        return self.promise.id

    @property
    def missed(self) -> tuple[Claim, ...]:
        return tuple(each for each in self.statements if not each.holds)

    @property
    def holds(self) -> bool | None:
        """None where an experiment has no result, and none of the others says no."""
        if self.missed:
            return False
        return None if self.missing or not self.statements else True

    @property
    def cause(self) -> str:
        """Why it misses, as far as known."""
        return self.promise.misses.get(self.size, "") if self.holds is False else ""

    @property
    def otherwise_at_quick_size(self) -> str:
        """What the ledger, held to it by tests, knows of quick runs where full size says the opposite."""
        if self.size == "quick" or self.holds is None:
            return ""
        cause = self.promise.misses.get("quick")
        if self.holds:
            return f"misses at quick size: {cause}" if cause else ""
        return "" if cause else "holds at quick size"


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
    return Outcome(name, dict(plain["parameters"]), rows, claims, dict(plain.get("ran", {})))


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"'holds' must be true or false, got {value!r}")
    return value


def verdicts(records: Sequence[Record]) -> list[ClaimVerdict]:
    """Claim by claim, in the order of the ledger; then the extras."""
    by_name = {record.experiment.name: record for record in records}
    found = []
    for promise in promises().values():
        judging = [by_name[name] for name in promise.judged_by]
        claims = [c for r in judging if r.outcome for c in r.outcome.claims if c.id == promise.id]
        quick = any(r.size == "quick" for r in judging)
        missing = tuple(r.experiment.name for r in judging if r.outcome is None)
        found.append(ClaimVerdict(promise, tuple(claims), missing, "quick" if quick else "full"))
    return found


def headline(judged: Sequence[ClaimVerdict]) -> str:
    """Only the ledger's claims count."""
    counted = [v for v in judged if v.promise.counted]
    held = sum(v.holds is True for v in counted)
    missed = sum(v.holds is False for v in counted)
    quick = sum(v.size == "quick" for v in counted if v.holds is not None)
    found = f"of {len(counted)} claims {held} hold, {missed} miss, {len(counted) - held - missed} not run"
    return f"{found} ({quick} judged at quick size)" if quick else found
