"""The claims ledger, `claims.toml`: its sentences, who judges each, which are known to miss, and why."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any


def about(value: float, stated: float, digit: float) -> bool:
    """Whether a value rounds to the figure that is stated, whose last digit counts `digit`s.

    >>> about(0.17, 0.2, 0.1), about(0.36, 0.3, 0.1)
    (True, False)
    """
    return abs(value - stated) <= digit / 2


def at_least_about(value: float, stated: float, digit: float) -> bool:
    """The same for gains, of which more is better."""
    return value >= stated - digit / 2


@dataclass(frozen=True)
class Promise:
    """A claim of the ledger, or an extra of our own.

    Parameters
    ----------
    where
        The figure, table or section.
    says
        What must be seen, in the ledger's words.
    judged_by
        Experiments; the claim holds if all their statements about it do.
    misses
        By size, why it is known to miss.
    missed_by
        By size, the experiments that are known to miss it; all that judge it where none is named.
    counted
        Whether it is one of the ledger's. Extras are not.
    timed
        Whether it is judged by wall-clock time, which no test asserts.
    """

    id: str
    says: str
    judged_by: tuple[str, ...]
    where: str = ""
    misses: Mapping[str, str] = field(default_factory=dict)
    missed_by: Mapping[str, Sequence[str]] = field(default_factory=dict)
    counted: bool = True
    timed: bool = False

    @classmethod
    def read(cls, plain: Mapping[str, Any], counted: bool) -> Promise:
        lists = {name: tuple(each) for name, each in plain.items() if isinstance(each, list)}
        return cls(**{**plain, **lists}, counted=counted)

    def known_miss(self, experiment: str, size: str) -> str | None:
        """Why an experiment is known to miss it at a size; None if it is expected to hold."""
        missing = self.missed_by.get(size, self.judged_by)
        return self.misses.get(size) if experiment in missing else None

    @property
    def paper(self) -> str:
        return self.id[0]


@cache
def promises() -> Mapping[str, Promise]:
    """The ledger's claims, then the extras, by id."""
    text = files("windrow_lab").joinpath("claims.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    listed = [
        *(Promise.read(each, counted=True) for each in table["claim"]),
        *(Promise.read(each, counted=False) for each in table.get("extra", ())),
    ]
    return {each.id: each for each in listed}


def ledger() -> Iterable[Promise]:
    """The claims that count."""
    return (each for each in promises().values() if each.counted)
