"""Expressions over one column, in SQL and in Python, grouped by what may be equal to what.

Two of a group on either side of an equality make keys of every kind: plain against plain, plain against
computed, and columns of different types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from windrow.testing.oracle import Row, Term


@dataclass(frozen=True)
class Form:
    """`sql` has {} in the place of the column."""

    column: str
    sql: str = "{}"
    value: Callable[[Any], Any] = lambda x: x

    def of(self, row: Row) -> Any:
        given = row[self.column]
        return None if given is None else self.value(given)

    @property
    def name(self) -> str:
        """As the oracle knows it in a join key."""
        return self.sql.format(self.column)


def _midnight(day: date | datetime) -> datetime:
    return day if isinstance(day, datetime) else datetime(day.year, day.month, day.day)


def _day(moment: datetime) -> date:
    return moment.date()


TEXTS = [
    Form("s"),
    Form("s", "lower({})", str.lower),
    Form("s", "upper({})", str.upper),
    Form("s", "trim({})", str.strip),
    Form("s", "substr({}, 1, 1)", lambda x: x[:1]),
]
WRITTEN = [
    Form("i", "cast({} as string)", str),
    Form("j", "cast({} as string)", str),
    Form("s", "replace({}, 'x', '1')", lambda x: x.replace("x", "1")),
]
NUMBERS = [
    *(Form(column) for column in "ijhfgmqe"),
    Form("i", "({} + 1)", lambda x: x + 1),
    Form("j", "({} - 1)", lambda x: x - 1),
    Form("i", "abs({})", abs),
    Form("h", "({} * 2)", lambda x: x * 2),
    Form("m", "({} + 1)", lambda x: x + 1),
    Form("f", "(0 - {})", lambda x: 0 - x),
    Form("g", "cast({} as double)", float),
    Form("s", "length({})", len),
]
DAYS = [
    Form("d"),
    Form("w", "cast({} as date)", _day),
    Form("z", "cast({} as date)", _day),
]
MOMENTS = [
    Form("w"),
    Form("d", "cast({} as timestamp)", _midnight),
    Form("d", "{}", _midnight),
    Form("z", "cast({} as timestamp)", lambda x: x.replace(tzinfo=None)),
]
ZONED = [Form("z"), Form("w", "cast({} as timestamptz)", lambda x: x.replace(tzinfo=UTC))]
FLAGS = [
    Form("flag"),
    Form("flag", "(not {})", lambda x: not x),
    Form("i", "({} > 0)", lambda x: x > 0),
    Form("s", "({} = 'x')", lambda x: x == "x"),
]
BYTES = [Form("y"), Form("s", "cast({} as binary)", str.encode)]
GROUPS = (TEXTS, TEXTS, WRITTEN, NUMBERS, DAYS, MOMENTS, ZONED, FLAGS, BYTES)

WIDTHS = ("0.5", "1", "2")

COMPUTED: dict[str, Callable[[Row], Any]] = {
    "i + 1": lambda row: None if row["i"] is None else row["i"] + 1,
    **{f.name: f.of for group in GROUPS for f in group if f.sql != "{}"},
}
"""Parts of join keys that are no columns of the table, since an equality may compare expressions."""


def _together(x: Any, y: Any) -> tuple[Any, Any]:
    """As they are compared: as doubles once one of them is."""
    if isinstance(x, float) or isinstance(y, float):
        return float(x), float(y)
    return x, y


def between(a: str, b: str, left: Form, right: Form, sql: str, test: Callable[..., bool], kind: str) -> Term:
    """A term over a form of each of two streams; null gives null. NaN equals NaN, and is near nothing."""

    def holds(bound: Any) -> bool | None:
        x, y = left.of(bound[a]), right.of(bound[b])
        if x is None or y is None:
            return None
        x, y = _together(x, y)
        if x != x or y != y:
            return kind == "equality" and x != x and y != y
        return bool(test(x, y))

    text = sql.format(l=left.sql.format(f"{a}.{left.column}"), r=right.sql.format(f"{b}.{right.column}"))
    key = ((a, left.name), (b, right.name)) if kind == "equality" else ()
    return Term(text, (a, b), holds, kind, key)


@st.composite
def computed_equalities(draw: st.DrawFn, a: str, b: str) -> list[Term]:
    forms = st.sampled_from(draw(st.sampled_from(GROUPS)))
    return [between(a, b, draw(forms), draw(forms), "{l} = {r}", lambda x, y: x == y, "equality")]


@st.composite
def computed_keys(draw: st.DrawFn, aliases: Sequence[str], near: bool) -> list[Term]:
    """One form of each stream, each equal to the next or, if `near`, at times only near it."""
    close = near and draw(st.integers(0, 3)) == 0
    group = NUMBERS if close else draw(st.sampled_from(GROUPS))
    plain = [form for form in group if form.sql == "{}"] or group
    chosen = {alias: draw(st.sampled_from(draw(st.sampled_from([plain, group])))) for alias in aliases}
    if close:
        width = draw(st.sampled_from(WIDTHS))
        return [_near(a, b, chosen[a], chosen[b], width) for a, b in pairwise(aliases)]
    return [
        between(a, b, chosen[a], chosen[b], "{l} = {r}", lambda x, y: x == y, "equality")
        for a, b in pairwise(aliases)
    ]


@st.composite
def computed_bands(draw: st.DrawFn, a: str, b: str) -> list[Term]:
    forms = st.sampled_from(NUMBERS)
    return [_near(a, b, draw(forms), draw(forms), draw(st.sampled_from(WIDTHS)))]


def _near(a: str, b: str, left: Form, right: Form, width: str) -> Term:
    def test(x: Any, y: Any) -> bool:
        return abs(x - y) <= (float(width) if isinstance(x, float) else Decimal(width))

    return between(a, b, left, right, f"abs({{l}} - {{r}}) <= {width}", test, "band")
