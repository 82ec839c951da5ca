"""Policies that keep the most important results (iJoin), and what makes a row important.

An importance is a number from 0: an SQL expression over one stream's columns, or a table of values. It may
be given for some streams only; the others leave the importance of a result to those that have one. A result's
importance combines those of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.policies.base import MemoryPolicy
from windrow.model.units import parse_duration

COMBINATIONS = ("min", "max", "sum", "product", "mean")
RECOMPUTATIONS = ("successive", "k-successive", "adaptive")


@dataclass(frozen=True)
class Lookup:
    """Importance by a column's value.

    Parameters
    ----------
    column
        Of the stream it is given for.
    values
        Value to importance.
    default
        Importance of every other value, and of null.
    """

    column: str
    values: Mapping[Any, float]
    default: float = 0.0

    def __post_init__(self) -> None:
        with placed(Option(f"lookup by '{self.column}'")):
            for key, number in (*self.values.items(), ("the default", self.default)):
                if not isinstance(key, str | int | float):
                    raise QueryError(f"a value must be a text, a number or a truth value, got {key!r}")
                if not isinstance(number, int | float) or not 0 <= number < math.inf:
                    raise QueryError(f"importance must be a number from 0, got {number!r} for {key!r}")
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))

    def __repr__(self) -> str:
        return f"Lookup({self.column!r}, {dict(self.values)!r}, default={self.default!r})"


By = str | Mapping[str, str | Lookup] | None
"""What makes rows important: an expression, or alias to expression or table; None: all are equally so."""


def check_by(by: object) -> By:
    """As values. Tables may also be mappings with `column`, `values` and `default`, as JSON has them."""
    if by is None or isinstance(by, str):
        return by
    if not isinstance(by, Mapping) or not by:
        raise QueryError(f"expected an expression such as 'b.price', or one per alias, got {by!r}")
    return MappingProxyType({str(alias): _term(str(alias), term) for alias, term in by.items()})


def _term(alias: str, term: object) -> str | Lookup:
    if isinstance(term, str | Lookup):
        return term
    if not isinstance(term, Mapping) or not {"column", "values"} <= set(term) <= {
        "column",
        "values",
        "default",
    }:
        raise QueryError(
            f"expected an expression or wr.policies.Lookup(column, values) for '{alias}', got {term!r}"
        )
    values = term["values"]
    return Lookup(
        term["column"], values if isinstance(values, Mapping) else dict(values), term.get("default", 0.0)
    )


def by_to_plain(by: By) -> Any:
    """As JSON has it; the values of a table as pairs, since JSON's keys are texts only."""
    if not isinstance(by, Mapping):
        return by
    return {
        alias: term
        if isinstance(term, str)
        else {
            "column": term.column,
            "values": [list(p) for p in term.values.items()],
            "default": term.default,
        }
        for alias, term in by.items()
    }


@dataclass(frozen=True, kw_only=True)
class Size(MemoryPolicy):
    """Keeps the rows that were in the most results so far (SIZE; iJoin, section 5)."""

    name = "size"


@dataclass(frozen=True, kw_only=True)
class Greedy(MemoryPolicy):
    """The least important rows go first; of equally important ones the newest (GREEDY; iJoin, section 4).

    Parameters
    ----------
    by
        What makes a row important: "b.price", or {"a": "a.stars", "b": Lookup("category", {"news": 5})}.
        None: all rows are equally important.
    combine
        How the importance of a result comes from that of its rows: "min", "max", "sum", "product", "mean".
    """

    name = "greedy"
    by: By = None
    combine: str = "min"

    def _validate(self) -> None:
        super()._validate()
        _check_worth(self, self.by, self.combine)


@dataclass(frozen=True, kw_only=True)
class Importance(MemoryPolicy):
    """Keeps the rows that are expected to be in important results (IJOIN; iJoin, section 4).

    What is not given follows the streams: it is taken from the time a row can stay, which is the number of
    rows held over the rate at which they come.

    Parameters
    ----------
    by, combine
        As in `Greedy`.
    maturity
        How long every row may stay before it can be evicted: "2 seconds".
    unproductive
        After how long without a match a row is penalised: "3 seconds".
    penalty
        What the priority of such a row loses for each second since its last match.
    decay
        How fast matches are forgotten, per second: one of t seconds ago counts exp(-decay * t). 0: never.
    initial
        Priority of a row until it is first computed: a number, or given as `by` is. None: its importance.
    recompute
        When priorities are computed: "successive" at every eviction, "k-successive" at every k-th,
        "adaptive" when the importance of the results has fallen.
    k
        For "k-successive".
    tolerance
        For "adaptive": the part by which the importance of results per evaluation may fall.
    """

    name = "importance"
    by: By = None
    combine: str = "min"
    maturity: str | timedelta | int | None = None
    unproductive: str | timedelta | int | None = None
    penalty: float | None = None
    decay: float | None = None
    initial: float | By = None
    recompute: str = "successive"
    k: int = 10
    tolerance: float = 0.05

    def _validate(self) -> None:
        super()._validate()
        _check_worth(self, self.by, self.combine)
        for name in ("maturity", "unproductive"):
            value = getattr(self, name)
            if value is not None and type(value) is not int:  # True is one otherwise
                with placed(Option(name)):
                    object.__setattr__(self, name, parse_duration(value))
            if value is not None and getattr(self, name) < 0:
                raise QueryError(f"{name} must not be negative, got {value!r}")
        for name in ("penalty", "decay"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise QueryError(f"{name} must be a number from 0, got {value!r}")
        if isinstance(self.initial, int | float):
            if not math.isfinite(self.initial):
                raise QueryError(f"initial must be finite, got {self.initial!r}")
        else:
            with placed(Option("initial")):
                object.__setattr__(self, "initial", check_by(self.initial))
        if self.recompute not in RECOMPUTATIONS:
            raise QueryError(unknown("recompute", self.recompute, RECOMPUTATIONS))
        if self.k < 1:
            raise QueryError(f"k must be a number from 1, got {self.k!r}")
        if not 0 <= self.tolerance < 1:
            raise QueryError(f"tolerance must be from 0 to below 1, got {self.tolerance!r}")


def _check_worth(policy: MemoryPolicy, by: object, combine: str) -> None:
    with placed(Option("by")):
        object.__setattr__(policy, "by", check_by(by))
    if combine not in COMBINATIONS:
        raise QueryError(unknown("combine", combine, COMBINATIONS))


POLICIES: tuple[type[MemoryPolicy], ...] = (Size, Greedy, Importance)
