"""A predicate taken apart: what is checked on one stream, what an index can find, what remains.

A predicate is a conjunction. Each conjunct becomes
- a `Filter`, if it speaks of one stream: applied before a row is stored;
- an `Equality`, a `Comparison` or a `Band` between two `JoinColumn`s, if each side speaks of one stream:
  kernels and indexes understand these;
- a `Residual` otherwise: evaluated on whole batches of candidates. One that says how alike two sets are is
  also a `SetSimilarity`, which an inverted index finds and a kernel checks.

A `JoinColumn` is one number per row, computed when the row comes in. `Equality`, `Comparison` and `Band` are
false when either side is null or NaN, so a row whose word is null or NaN can be left out at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pyarrow as pa
from sqlglot import exp

WordKind = Literal["int", "float", "hash", "set"]


@dataclass(frozen=True)
class JoinColumn:
    """A single-stream expression as one number per row.

    kind "int": int64, exact. kind "float": float64. kind "hash": 64-bit hash of the value's bytes, equal
    for equal values; matches must be verified on the values themselves. kind "set": not one number but the
    distinct elements of a list, each as one; `type` is that of the elements.
    """

    stream: int
    sql: str
    """Canonical text, such as `a.id` or `LOWER(b.name)`."""
    type: pa.DataType
    """What the expression is cast to before it becomes a number: the common type of both sides."""
    kind: WordKind
    node: exp.Expression
    """The expression itself; not part of the word's identity, which is stream, text and type."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JoinColumn) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> tuple[int, str]:
        return (self.stream, self.name)

    @cached_property
    def name(self) -> str:
        """What its stream's window calls it: one expression may be compared as several types."""
        return f"{self.sql}: {self.type}"

    def __str__(self) -> str:
        return self.sql


@dataclass(frozen=True)
class Equality:
    left: JoinColumn
    right: JoinColumn

    @property
    def words(self) -> tuple[JoinColumn, JoinColumn]:
        return (self.left, self.right)

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


@dataclass(frozen=True)
class Comparison:
    left: JoinColumn
    right: JoinColumn
    op: Literal["<", "<=", ">", ">=", "<>"]

    @property
    def words(self) -> tuple[JoinColumn, JoinColumn]:
        return (self.left, self.right)

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True)
class Band:
    """|left - right| <= epsilon, or < epsilon if strict. Words of one kind, int or float.

    Rounded as written: form "abs" computes left - right; form "between" computes right - epsilon and
    right + epsilon and compares left with both.
    """

    left: JoinColumn
    right: JoinColumn
    epsilon: float | int
    strict: bool = False
    form: Literal["abs", "between"] = "abs"

    @property
    def words(self) -> tuple[JoinColumn, JoinColumn]:
        return (self.left, self.right)

    def __str__(self) -> str:
        if self.form == "between":
            return f"{self.left} BETWEEN {self.right} - {self.epsilon} AND {self.right} + {self.epsilon}"
        return f"ABS({self.left} - {self.right}) {'<' if self.strict else '<='} {self.epsilon}"


Atom = Equality | Comparison | Band


@dataclass(frozen=True)
class SetSimilarity:
    """How alike two sets must be: the elements they share, or their part of all elements of both.

    At least `threshold`, or more if strict; at least one shared element in any case, so that what shares
    none can be passed over. Words of kind "set".
    """

    left: JoinColumn
    right: JoinColumn
    measure: Literal["jaccard", "overlap"]
    threshold: float | int
    strict: bool = False

    @property
    def words(self) -> tuple[JoinColumn, JoinColumn]:
        return (self.left, self.right)

    @property
    def at_least(self) -> int:
        """Elements that any pair must share, whatever the size of the sets."""
        return int(self.threshold) + self.strict if self.measure == "overlap" else 1

    def __str__(self) -> str:
        call = f"{self.measure.upper()}({self.left}, {self.right})"
        return f"{call} {'>' if self.strict else '>='} {self.threshold}"


@dataclass(frozen=True)
class Filter:
    """A condition on one stream."""

    stream: int
    node: exp.Expression
    sql: str


@dataclass(frozen=True)
class Residual:
    """A condition on several streams that is evaluated on candidates."""

    streams: frozenset[int]
    node: exp.Expression
    sql: str
    likeness: SetSimilarity | None = None
    """The same for an inverted index, if it is about the likeness of two sets."""

    def __str__(self) -> str:
        return self.sql


@dataclass(frozen=True)
class Predicate:
    """The whole predicate of a query, taken apart and checked against the streams' schemas."""

    sql: str
    filters: tuple[Filter, ...]
    atoms: tuple[Atom, ...]
    residuals: tuple[Residual, ...]

    def columns_of(self, stream: int) -> tuple[JoinColumn, ...]:
        """The words a row of `stream` needs, each once, in the order of the atoms."""
        seen = {w: None for atom in self.atoms for w in atom.words if w.stream == stream}
        return tuple(seen)

    def sets_of(self, stream: int) -> tuple[JoinColumn, ...]:
        """The sets a row of `stream` needs, each once."""
        alike = [r.likeness for r in self.residuals if r.likeness is not None]
        return tuple({w: None for each in alike for w in each.words if w.stream == stream})
