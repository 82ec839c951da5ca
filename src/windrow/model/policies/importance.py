"""Policies that keep the most important results (iJoin), and what makes a row important.

An importance is a number from 0 up: a SQL expression over one stream's columns, or a lookup table. It may be
given for some streams only; then these alone decide the importance of a result, which combines those of its
rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from numbers import Integral
from types import MappingProxyType
from typing import Any

from windrow.errors import Option, QueryError, placed
from windrow.model.keywords import checks_keywords
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.validation import number
from windrow.model.settings import choice, duration, optional, setting

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
    """Values for JSON. The values of a table become pairs, because keys in JSON are text."""
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


BY = setting(check_by)
"""Metadata of a field that holds an importance."""
COMBINE = setting(choice("combine", *COMBINATIONS))
AMOUNT = setting(optional(number(lambda n: 0 <= n < math.inf, "a number from 0")))


def _initial(value: Any) -> float | By:
    if not isinstance(value, int | float):
        return check_by(value)
    if not math.isfinite(value):
        raise QueryError(f"must be finite, got {value!r}")
    return value


@checks_keywords("wr.policies.Size")
@dataclass(frozen=True, kw_only=True)
class Size(MemoryPolicy):
    """Keeps the rows that were in the most results so far (SIZE; iJoin, section 5)."""

    name = "size"


@checks_keywords("wr.policies.Greedy")
@dataclass(frozen=True, kw_only=True)
class Greedy(MemoryPolicy):
    """Evicts the least important rows first; of equally important ones the newest (GREEDY; iJoin, section 4).

    Parameters
    ----------
    by
        The importance of a row: "b.price", or {"a": "a.stars", "b": Lookup("category", {"news": 5})}. None:
        all rows are equally important.
    combine
        How the importances of its rows make up that of a result: "min", "max", "sum", "product", "mean".
    """

    name = "greedy"
    by: By = field(default=None, metadata=BY)
    combine: str = field(default="min", metadata=COMBINE)


@checks_keywords("wr.policies.Importance")
@dataclass(frozen=True, kw_only=True)
class Importance(MemoryPolicy):
    """Keeps the rows that are expected to be in important results (IJOIN; iJoin, section 4).

    Parameters that are not given adapt to the streams: they follow from the residence time, which is the
    number of rows held divided by their arrival rate.

    Parameters
    ----------
    by, combine
        As in `Greedy`.
    maturity
        Minimum time that every row stays before it can be evicted: "2 seconds".
    unproductive
        Time without a match after which a row is penalised: "3 seconds".
    penalty
        What the priority of such a row loses per second since its last match.
    decay
        How fast matches are forgotten, per second: a match t seconds ago counts exp(-decay * t). 0: never.
    initial
        Priority of a row until it is first computed: a number, or as in `by`. None: its importance.
    recompute
        When priorities are computed: "successive" at every eviction, "k-successive" at every k-th,
        "adaptive" when the importance of the results has fallen.
    k
        For "k-successive".
    tolerance
        For "adaptive": the fraction by which the importance of results per evaluation may fall.
    """

    name = "importance"
    by: By = field(default=None, metadata=BY)
    combine: str = field(default="min", metadata=COMBINE)
    maturity: str | timedelta | int | None = field(default=None, metadata=setting(optional(duration())))
    unproductive: str | timedelta | int | None = field(default=None, metadata=setting(optional(duration())))
    penalty: float | None = field(default=None, metadata=AMOUNT)
    decay: float | None = field(default=None, metadata=AMOUNT)
    initial: float | By = field(default=None, metadata=setting(_initial))
    recompute: str = field(default="successive", metadata=setting(choice("recompute", *RECOMPUTATIONS)))
    k: int = field(default=10, metadata=setting(number(lambda n: n >= 1, "a whole number from 1", Integral)))
    tolerance: float = field(
        default=0.05, metadata=setting(number(lambda n: 0 <= n < 1, "a fraction from 0 to below 1"))
    )


POLICIES: tuple[type[MemoryPolicy], ...] = (Size, Greedy, Importance)
