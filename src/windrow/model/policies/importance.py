"""Policies that keep the most important results (iJoin), and what makes a row important.

An importance is a number from 0 up: a SQL expression over one stream's columns, or a lookup table. It may be
given for some streams only; then these alone decide the importance of a result, which combines those of its
rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from windrow.errors import Option, QueryError, placed
from windrow.model.policies.base import MemoryPolicy, is_amount, policy
from windrow.model.settings import choice, duration, number, optional, setting

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
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))
        with placed(Option(f"lookup by '{self.column}'")):
            for key, importance in (*self.values.items(), ("the default", self.default)):
                if not isinstance(key, str | int | float):
                    raise QueryError(f"a value must be a text, a number or a truth value, got {key!r}")
                if not is_amount(importance):
                    raise QueryError(f"importance must be a number from 0, got {importance!r} for {key!r}")

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON. Importances are listed as pairs, because keys in JSON are text."""
        pairs = [list(pair) for pair in self.values.items()]
        return {"column": self.column, "values": pairs, "default": self.default}

    def __repr__(self) -> str:
        return f"Lookup({self.column!r}, {dict(self.values)!r}, default={self.default!r})"


By = str | Mapping[str, str | Lookup] | None
"""The importance of rows: an expression, or alias to expression or table; None: all are equally important."""


def check_by(by: object) -> By:
    """Check an importance. Tables may also be mappings with `column`, `values` and `default`, as in JSON."""
    if by is None or isinstance(by, str):
        return by
    if not isinstance(by, Mapping) or not by:
        raise QueryError(f"expected an expression such as 'b.price', or one per alias, got {by!r}")
    return MappingProxyType({str(alias): _term(str(alias), term) for alias, term in by.items()})


def _term(alias: str, term: object) -> str | Lookup:
    if isinstance(term, str | Lookup):
        return term
    if isinstance(term, Mapping) and {"column", "values"} <= set(term) <= {"column", "values", "default"}:
        return Lookup(**term)
    raise QueryError(
        f"expected an expression or wr.policies.Lookup(column, values) for '{alias}', got {term!r}"
    )


def by_to_plain(by: By) -> Any:
    """Values for JSON, which `check_by` reads."""
    if not isinstance(by, Mapping):
        return by
    return {alias: term if isinstance(term, str) else term.to_dict() for alias, term in by.items()}


def _initial(value: Any) -> float | By:
    if not isinstance(value, int | float):
        return check_by(value)
    if not math.isfinite(value):
        raise QueryError(f"must be finite, got {value!r}")
    return value


def _combine() -> Any:
    return setting(
        choice("combine", *COMBINATIONS),
        'How the importances of its rows make up that of a result: "min", "max", "sum", "product", "mean".',
        default="min",
    )


def _by() -> Any:
    return setting(
        check_by,
        'The importance of a row: "b.price", or {"a": "a.stars", "b": Lookup("category", {"news": 5})}. '
        "None: all rows are equally important.",
        default=None,
    )


AMOUNT = optional(number("a number from 0", lambda n: 0 <= n < math.inf))
TIME = optional(duration())


@policy
class Size(MemoryPolicy):
    """Keeps the rows that were in the most results so far (SIZE; iJoin, section 5)."""

    name = "size"


@policy
class Greedy(MemoryPolicy):
    """Evicts the least important rows first, of equally important ones the newest (GREEDY; iJoin, s. 4)."""

    name = "greedy"
    by: By = _by()
    combine: str = _combine()


@policy
class Importance(MemoryPolicy):
    """Keeps the rows that are expected to be in important results (IJOIN; iJoin, section 4).

    Parameters that are not given adapt to the streams: they follow from the residence time, which is the
    number of rows held divided by their arrival rate.
    """

    name = "importance"
    by: By = _by()
    combine: str = _combine()
    maturity: str | timedelta | int | None = setting(
        TIME, 'Minimum time that every row stays before it can be evicted: "2 seconds".', default=None
    )
    unproductive: str | timedelta | int | None = setting(
        TIME, 'Time without a match after which a row is penalised: "3 seconds".', default=None
    )
    penalty: float | None = setting(
        AMOUNT, "What the priority of such a row loses per second since its last match.", default=None
    )
    decay: float | None = setting(
        AMOUNT,
        "How fast matches are forgotten, per second: a match t seconds ago counts exp(-decay * t). 0: never.",
        default=None,
    )
    initial: float | By = setting(
        _initial,
        "Priority of a row until it is first computed: a number, or as in `by`. None: its importance.",
        default=None,
    )
    recompute: str = setting(
        choice("recompute", *RECOMPUTATIONS),
        'When priorities are computed: "successive" at every eviction, "k-successive" at every k-th, '
        '"adaptive" when the importance of the results has fallen.',
        default="successive",
    )
    k: int = setting(
        number("a whole number of at least 1", lambda n: n >= 1, whole=True),
        'For "k-successive".',
        default=10,
    )
    tolerance: float = setting(
        number("a fraction from 0 to below 1", lambda n: 0 <= n < 1),
        'For "adaptive": the fraction by which the importance of results per evaluation may fall.',
        default=0.05,
    )
