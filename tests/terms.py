"""Random conditions: every conjunct as SQL and as a Python function (`oracle.Term`).

So engine and oracle are told the same thing in two languages.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from flows import VALUES
from forms import computed_bands, computed_equalities
from likenesses import likenesses
from windrow.testing.oracle import Row, Term

Compare = Callable[[Any, Any], bool | None]
OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "<>": operator.ne}


def known(test: Callable[..., bool]) -> Callable[..., bool | None]:
    """The test with SQL's null; NaN gives false."""

    def checked(*values: Any) -> bool | None:
        if any(value is None for value in values):
            return None
        return False if any(value != value for value in values) else bool(test(*values))

    return checked


def compared(sign: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool | None]:
    """The operator with SQL's null and Spark's NaN, which equals itself and is above any other number."""

    def checked(x: Any, y: Any) -> bool | None:
        if x is None or y is None:
            return None
        if x != x or y != y:
            x, y = x != x, y != y
        return bool(sign(x, y))

    return checked


def either(x: bool | None, y: bool | None) -> bool | None:
    """SQL's `or`."""
    if x is True or y is True:
        return True
    return None if x is None or y is None else False


def negated(x: bool | None) -> bool | None:
    return None if x is None else not x


equal = compared(operator.eq)


def above_a_tenth(x: float | None, y: int | None) -> bool | None:
    return None if x is None or y is None else compared(operator.ge)(x * 2 - y, 0.1)


def alike(x: int | None, y: int | None) -> bool:
    """A registered function: both values odd, or both even."""
    return x is not None and y is not None and (x - y) % 2 == 0


FUNCTIONS = {"alike": alike}


def pair(sql: str, a: str, b: str, left: str, right: str, test: Callable, kind: str = "residual") -> Term:
    """A term over one column of each of two streams; `sql` has {l} and {r} in their places."""
    return Term(
        sql.format(l=f"{a}.{left}", r=f"{b}.{right}"),
        (a, b),
        lambda bound: test(bound[a][left], bound[b][right]),
        kind,
        ((a, left), (b, right)) if kind == "equality" else (),
    )


def equality(a: str, b: str, left: str, right: str | None = None) -> Term:
    return pair("{l} = {r}", a, b, left, right or left, equal, "equality")


@st.composite
def equalities(draw: st.DrawFn, a: str, b: str) -> list[Term]:
    """Equality on one column of any type, on two columns, of one column with two, or of what is computed from
    columns of one or two types."""
    column = st.sampled_from(list(VALUES))
    how = draw(st.sampled_from(["one", "one", "two", "computed", "computed", "fork"]))
    if how == "computed":
        return draw(computed_equalities(a, b))
    if how == "fork":
        return [equality(a, b, "i"), equality(a, b, "i", "j")]
    columns = draw(st.lists(column, min_size=1, max_size=1 if how == "one" else 2, unique=True))
    return [equality(a, b, c) for c in columns]


@st.composite
def bands(draw: st.DrawFn, a: str, b: str) -> list[Term]:
    if draw(st.integers(0, 2)) == 0:
        return draw(computed_bands(a, b))
    column = draw(st.sampled_from(["i", "j", "f"]))
    epsilon = draw(st.sampled_from([0.1, 0.5, 1.0] if column == "f" else [0, 1, 2]))
    form = draw(st.sampled_from(["abs <=", "abs <", "between"]))
    if form == "abs <=":
        sql, test = f"abs({{l}} - {{r}}) <= {epsilon}", lambda x, y: abs(x - y) <= epsilon
    elif form == "abs <":
        sql, test = f"abs({{l}} - {{r}}) < {epsilon}", lambda x, y: abs(x - y) < epsilon
    else:
        between = f"{{l}} between {{r}} - {epsilon} and {{r}} + {epsilon}"
        sql, test = between, lambda x, y: y - epsilon <= x <= y + epsilon
    return [pair(sql, a, b, column, column, known(test), "band")]


@st.composite
def comparisons(draw: st.DrawFn, a: str, b: str) -> list[Term]:
    column = draw(st.sampled_from(["i", "j", "f", "s", "d", "w", "m"]))
    sign = draw(st.sampled_from(list(OPERATORS)))
    return [pair(f"{{l}} {sign} {{r}}", a, b, column, column, compared(OPERATORS[sign]), "comparison")]


@st.composite
def residuals(draw: st.DrawFn, a: str, b: str) -> list[Term]:
    """What no index understands."""
    options = [
        Term(
            f"({a}.i = {b}.i or {a}.s = {b}.s)",
            (a, b),
            lambda r: either(equal(r[a]["i"], r[b]["i"]), equal(r[a]["s"], r[b]["s"])),
        ),
        Term(
            f"({a}.f <> {b}.f or {a}.d < {b}.d)",
            (a, b),
            lambda r: either(
                compared(operator.ne)(r[a]["f"], r[b]["f"]), compared(operator.lt)(r[a]["d"], r[b]["d"])
            ),
        ),
        Term(
            f"case when {a}.flag then {a}.i = {b}.i else {a}.j < {b}.j end",
            (a, b),
            lambda r: (
                equal(r[a]["i"], r[b]["i"]) if r[a]["flag"] else compared(operator.lt)(r[a]["j"], r[b]["j"])
            ),
        ),
        pair("{l} + {r} > 1", a, b, "i", "i", known(lambda x, y: x + y > 1)),
        pair("{l} * 2 - {r} >= 0.1", a, b, "f", "i", above_a_tenth),
        pair("alike({l}, {r})", a, b, "i", "j", alike),
        Term(f"not ({a}.i = {b}.j)", (a, b), lambda r: negated(equal(r[a]["i"], r[b]["j"]))),
        replace(
            pair("lower({l}) = lower({r})", a, b, "s", "s", known(lambda x, y: x.lower() == y.lower())),
            columns=((a, "lower(s)"), (b, "lower(s)")),
        ),
        replace(
            pair("{l} + 1 = {r}", a, b, "i", "j", known(lambda x, y: x + 1 == y)),
            columns=((a, "i + 1"), (b, "j")),
        ),
    ]
    return [draw(st.sampled_from(options))]


def edge(a: str, b: str) -> st.SearchStrategy[list[Term]]:
    """Mostly equality, as in life; everything else often enough."""
    eq = equalities(a, b)
    return st.one_of(eq, eq, bands(a, b), comparisons(a, b), residuals(a, b), likenesses(a, b))


def filters(a: str) -> list[Term]:
    return [
        Term(f"{a}.i >= 0", (a,), lambda r: known(lambda x: x >= 0)(r[a]["i"]), "filter"),
        Term(f"{a}.s <> 'x'", (a,), lambda r: known(lambda x: x != "x")(r[a]["s"]), "filter"),
        Term(f"{a}.flag", (a,), lambda r: r[a]["flag"], "filter"),
        Term(f"{a}.i in (0, 1, 2)", (a,), lambda r: known(lambda x: x in (0, 1, 2))(r[a]["i"]), "filter"),
        Term(f"{a}.m is not null", (a,), lambda r: r[a]["m"] is not None, "filter"),
        Term(f"({a}.f < 1 or {a}.i <> 1)", (a,), lambda r: _small(r[a]), "filter"),
    ]


def _small(row: Row) -> bool | None:
    return either(compared(operator.lt)(row["f"], 1), compared(operator.ne)(row["i"], 1))


def graph(shape: str, aliases: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of streams with a condition between them."""
    if shape == "star":
        return [(aliases[0], other) for other in aliases[1:]]
    if shape == "clique":
        return [(x, y) for n, x in enumerate(aliases) for y in aliases[n + 1 :]]
    chain = list(pairwise(aliases))
    return [*chain, (aliases[-1], aliases[0])] if shape == "cycle" and len(aliases) > 2 else chain


@st.composite
def predicates(draw: st.DrawFn, aliases: Sequence[str], keys: Sequence[str] = ()) -> list[Term]:
    """Terms over a connected graph; the first edge of each alias in `keys` is an equality."""
    terms: list[Term] = []
    pairs = graph(draw(st.sampled_from(["chain", "star", "cycle", "clique"])), aliases)
    common = draw(st.one_of(st.none(), st.sampled_from(list(VALUES))))
    keyless = set(keys)
    for a, b in pairs:
        if common and draw(st.integers(0, 3)):
            terms.append(equality(a, b, common))
        elif {a, b} & keyless:
            terms += draw(equalities(a, b))
        else:
            x, y = draw(st.permutations([a, b]))
            terms += draw(edge(x, y))
        if any(t.kind == "equality" and set(t.aliases) == {a, b} for t in terms):
            keyless -= {a, b}
    if len(aliases) > 2 and draw(st.integers(0, 4)) == 0:
        a, b, c = draw(st.permutations(aliases))[:3]
        terms.append(
            Term(
                f"{a}.i + {b}.i >= {c}.i",
                (a, b, c),
                lambda r: known(lambda x, y, z: x + y >= z)(r[a]["i"], r[b]["i"], r[c]["i"]),
            )
        )
    for alias in aliases:
        if draw(st.integers(0, 5)) == 0:
            terms.append(draw(st.sampled_from(filters(alias))))
    return terms
