"""A predicate in parts: conditions on one stream, conditions that an index supports, and the rest.

A predicate is a conjunction. Each conjunct becomes one of these:

- a `Filter`, if it refers to one stream: applied before a row is stored;
- an `Equality`, a `Comparison` or a `Band` between two `JoinColumn`s, if each side refers to one stream:
  supported by kernels and indexes;
- a `Residual` otherwise: evaluated on whole batches of candidates. One on the similarity of two sets is also
  a `SetSimilarity`, which an inverted index finds and a kernel checks.

A `JoinColumn` is one number per row, computed on arrival. `Equality`, `Comparison` and `Band` are not true if
either side is null, so a row with such a join column can be left out at once. NaN equals itself and is above
every other number, as in Spark; in a `Band` it is never.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Literal

import pyarrow as pa
from sqlglot import exp

ColumnKind = Literal["int", "float", "ordered", "hash", "set"]


@dataclass(frozen=True)
class JoinColumn:
    """A single-stream expression as one number per row.

    kind "int": int64, exact. kind "float": float64, for bands. kind "ordered": a float as the int64 that has
    its place among all floats and NaN. kind "hash": 64-bit hash of the value's bytes, equal for equal values;
    matches must be verified on the values themselves. kind "set": the distinct elements of a list, one number
    each; `type` is the element type.
    """

    stream: int
    sql: str
    """Canonical text, such as `a.id` or `LOWER(b.name)`."""
    type: pa.DataType
    """The type the expression is cast to before it is encoded: the common type of both sides."""
    kind: ColumnKind
    node: exp.Expression
    """The expression itself; not part of the column's identity, which is stream, text and type."""

    # sqlglot compares expressions slowly, and the same text of one stream is the same expression.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, JoinColumn) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> tuple[int, str]:
        return (self.stream, self.name)

    @cached_property
    def reference(self) -> tuple[str, str] | None:
        """Alias and name of a plain column; None for other expressions."""
        return (self.node.table, self.node.name) if isinstance(self.node, exp.Column) else None

    @cached_property
    def name(self) -> str:
        """Its name in the window, with the type: an expression may be compared as several types."""
        return f"{self.sql}: {self.type}" + (" in order" if self.kind == "ordered" else "")

    def __str__(self) -> str:
        return self.sql


@dataclass(frozen=True)
class Pair:
    """A condition on two join columns of different streams."""

    left: JoinColumn
    right: JoinColumn

    @property
    def columns(self) -> tuple[JoinColumn, JoinColumn]:
        return (self.left, self.right)

    @property
    def streams(self) -> frozenset[int]:
        return frozenset((self.left.stream, self.right.stream))


@dataclass(frozen=True)
class Equality(Pair):
    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


@dataclass(frozen=True)
class Comparison(Pair):
    op: Literal["<", "<=", ">", ">=", "<>"]

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True)
class Band(Pair):
    """|left - right| <= epsilon, or < epsilon if strict. Join columns of one kind, int or float.

    Rounded as written: form "abs" computes left - right; form "between" computes right - epsilon and right +
    epsilon and compares left with both.
    """

    epsilon: float | int
    strict: bool = False
    form: Literal["abs", "between"] = "abs"

    def __str__(self) -> str:
        if self.form == "between":
            return f"{self.left} BETWEEN {self.right} - {self.epsilon} AND {self.right} + {self.epsilon}"
        return f"ABS({self.left} - {self.right}) {'<' if self.strict else '<='} {self.epsilon}"


Atom = Equality | Comparison | Band
Class = tuple[JoinColumn, ...]


def equality_classes(atoms: Iterable[Atom]) -> tuple[Class, ...]:
    """Classes of two or more columns that must be equal: a.k = b.k and b.k = c.k imply a.k = c.k.

    The implied equalities allow a probe between any two streams of a class. All columns of a class have one
    type, because equality is transitive only within a type. Classes are in the order in which an equality
    last extended them.
    """
    classes: list[Class] = []
    for atom in atoms:
        if isinstance(atom, Equality):
            # An equality merges up to two classes: that of its left side and that of its right side.
            linked = [members for members in classes if atom.left in members or atom.right in members]
            merged = dict.fromkeys([*chain.from_iterable(linked), *atom.columns])
            classes = [*(members for members in classes if members not in linked), tuple(merged)]
    return tuple(classes)


@dataclass(frozen=True)
class SetSimilarity(Pair):
    """How similar two sets must be: by shared elements, or by their fraction of all elements of both.

    At least `threshold`, or more if strict; always at least one shared element, so that an index can skip
    pairs without any. Join columns of kind "set".
    """

    measure: Literal["jaccard", "overlap"]
    threshold: float | int
    strict: bool = False

    @property
    def at_least(self) -> int:
        """Minimum number of shared elements of any pair, regardless of set size."""
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
    similarity: SetSimilarity | None = None
    """The same for an inverted index, if it is a similarity of two sets."""

    def __str__(self) -> str:
        return self.sql


@dataclass(frozen=True)
class Predicate:
    """The whole predicate of a query, in parts and checked against the streams' schemas."""

    sql: str
    filters: tuple[Filter, ...]
    atoms: tuple[Atom, ...]
    residuals: tuple[Residual, ...]
    conjuncts: Mapping[Atom, exp.Expression] = field(default_factory=dict, compare=False, repr=False)
    """The expression of each atom."""

    def with_residuals(self, atoms: Collection[Atom]) -> Predicate:
        """The same predicate with these atoms as residuals."""
        if not atoms:
            return self
        evaluated = [Residual(a.streams, self.conjuncts[a], str(a)) for a in atoms]
        kept = tuple(a for a in self.atoms if a not in atoms)
        return replace(self, atoms=kept, residuals=(*self.residuals, *evaluated))

    @cached_property
    def classes(self) -> tuple[Class, ...]:
        """Join columns that must be equal in any result."""
        return equality_classes(self.atoms)

    @property
    def links(self) -> list[frozenset[int]]:
        """The streams of each condition on several."""
        return [condition.streams for condition in (*self.atoms, *self.residuals)]

    def linked(self, first: int) -> set[int]:
        """The streams that conditions link with the first one, directly or through others."""
        reached = {first}
        while more := [link for link in self.links if link & reached and not link <= reached]:
            reached = reached.union(*more)
        return reached

    def columns_of(self, stream: int) -> tuple[JoinColumn, ...]:
        """The join columns of `stream`, each once, in the order of the atoms."""
        seen = {c: None for atom in self.atoms for c in atom.columns if c.stream == stream}
        return tuple(seen)

    def sets_of(self, stream: int) -> tuple[JoinColumn, ...]:
        """The sets of `stream`, each once."""
        alike = [r.similarity for r in self.residuals if r.similarity is not None]
        return tuple({c: None for each in alike for c in each.columns if c.stream == stream})
