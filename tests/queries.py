"""Random queries with random data: what hypothesis draws, and how a drawn case is run and answered.

A `Case` is a query, the rows of its streams and the calls in which they arrive. Every conjunct is built
once as SQL and as a Python function (`oracle.Term`), so that engine and oracle are told the same thing in
two languages. Values come from tiny domains, so that there are results, duplicates and ties.

Hypothesis draws the structure; the rows come from a drawn seed, each row from its own generator, so that a
failing case shrinks to few rows without changing those that remain.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

import oracle
import windrow as wr
from likenesses import LISTS, indexable, likenesses, random_list
from oracle import SECOND, Row, Term

ALIASES = ("a", "b", "c", "d", "e")
CUTS = (1, 2, 7, 49, 50, 51, 100)
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "ts": pa.timestamp("us"),
        "i": pa.int64(),
        "j": pa.int32(),
        "f": pa.float64(),
        "s": pa.string(),
        "flag": pa.bool_(),
        "d": pa.date32(),
        "w": pa.timestamp("us"),
        "m": pa.decimal128(10, 2),
        "y": pa.binary(),
        **LISTS,
    }
)
VALUES: dict[str, list[Any]] = {
    "i": [0, 1, 2, -1, 3, 7],
    "j": [1, 0, 2, -1, 3, 5],
    "f": [0.0, 1.0, -0.0, 0.1, 0.2, 0.3, 2.0, float("inf")],
    "s": ["x", "y", "X", "", "éa", "a longer text than fits a word"],
    "flag": [True, False],
    "d": [date(2024, 2, 29), date(1969, 12, 31), date(2024, 3, 1)],
    "w": [datetime(1970, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 1), datetime(1969, 1, 1), datetime(2024, 1, 1)],
    "m": [Decimal("1.00"), Decimal("1.01"), Decimal("-3.50"), Decimal("0.00")],
    "y": [b"x", b"", b"\x00\xff", b"x\x00"],
}
EPOCH = datetime(1970, 1, 1)

# Values made to collide in the engine's 64-bit hashes; `test_predicates` checks that they still do.
TWIN_TEXTS = ("left2006collide!", "rite2006FQX3]PLR")
TWIN_PAIRS = ((1, 1), (2, -6464712993336601488))


@dataclass(frozen=True, repr=False)
class Case:
    """A query with its data, its arrival and the way it is to be run."""

    windows: Mapping[str, int | tuple[int, bool]]
    """Microseconds, or (rows, per key)."""
    terms: Sequence[Term]
    tables: Mapping[str, pa.Table]
    calls: Sequence[Mapping[str, list[int]]]
    """Row ids by alias: what each call of `process` gets."""
    options: Mapping[str, Any] = field(default_factory=dict)
    access: Mapping[str, str | None] = field(default_factory=dict)
    snapshots: frozenset[int] = frozenset()
    """After these calls the operator is replaced by its restored snapshot."""

    def __repr__(self) -> str:
        """Short enough to read when a test fails."""
        lines = [f"on {self.sql}", f"windows {dict(self.windows)}", f"options {dict(self.options)}"]
        lines += [f"access {dict(self.access)}", f"snapshots after {sorted(self.snapshots)}"]
        for number, call in enumerate(self.inputs()):
            lines.append(f"call {number}:")
            for alias, table in call.items():
                used = [n for n in table.column_names if n in ("id", "ts") or f"{alias}.{n}" in self.sql]
                lines += [f"  {alias} {[row[n] for n in used]}" for row in rows_of(table)]
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What hypothesis prints, which would spell out every field otherwise."""
        printer.text(repr(self))

    @property
    def counted(self) -> bool:
        return not all(isinstance(window, int) for window in self.windows.values())

    @property
    def sql(self) -> str:
        return " and ".join(term.sql for term in self.terms)

    def query(self, **changes: Any) -> wr.Query:
        streams = {
            alias: wr.Stream(time="ts", within=window_text(window), access=self.access.get(alias))
            for alias, window in self.windows.items()
        }
        return wr.Query(
            **{"streams": streams, "on": self.sql, "functions": FUNCTIONS, **self.options, **changes}
        )

    def inputs(self) -> list[dict[str, pa.Table]]:
        return [
            {a: self.tables[a].take(pa.array(ids, pa.int64())) for a, ids in c.items()} for c in self.calls
        ]

    def admitted(self) -> oracle.Admitted:
        rows = {alias: rows_of(table) for alias, table in self.tables.items()}
        calls = [{alias: [rows[alias][n] for n in ids] for alias, ids in call.items()} for call in self.calls]
        late, idle = self.options.get("late", 0), self.options.get("idle")
        return oracle.admit(calls, late=late, idle=idle, one_clock=self.counted)

    def answer(self) -> Counter[tuple]:
        admitted = self.admitted()
        if self.counted:
            return oracle.expected_counted(admitted.calls, self.windows, self.terms)
        return oracle.expected({a: admitted.rows(a) for a in self.windows}, self.windows, self.terms)

    def run(self, **changes: Any) -> tuple[pa.Table, Any]:
        """All output of the engine as one table, and its last measurements."""
        query = self.query(**changes)
        schemas = {alias: table.schema for alias, table in self.tables.items()}
        op = wr.Operator(query, schemas=schemas)
        outputs = []
        for number, call in enumerate(self.inputs()):
            outputs.append(op.process(call))
            if number in self.snapshots:
                op = wr.Operator.restore(query, op.snapshot())
        outputs.append(op.finish())
        return pa.concat_tables(outputs), op.measure()


def window_text(window: int | tuple[int, bool]) -> str:
    if isinstance(window, int):
        return f"{window} us"
    return f"{window[0]} rows{' per key' if window[1] else ''}"


def rows_of(table: pa.Table, time: str = "ts") -> list[Row]:
    """Rows as the oracle takes them: dicts, the event time in microseconds."""
    times = table.column(time).cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    return [row | {"ts": t} for row, t in zip(table.to_pylist(), times, strict=True)]


def tiny(times: Sequence[float | None], /, **columns: Any) -> pa.Table:
    """A hand-written table: event times in seconds, ids 0, 1, 2, ..., and the given columns."""
    stamps = [None if t is None else round(t * SECOND) for t in times]
    ids = pa.array(range(len(stamps)), pa.int64())
    return pa.table({"id": ids, "ts": pa.array(stamps, pa.timestamp("us")), **columns})


def play(target: wr.Query | wr.Operator, *calls: Mapping[str, pa.Table]) -> Counter[tuple]:
    """What the calls and `finish` return together, as id tuples."""
    op = wr.Operator(target) if isinstance(target, wr.Query) else target
    answer = sum((oracle.ids(op.process(call)) for call in calls), Counter())
    return answer + oracle.ids(op.finish())


def examples(count: int) -> settings:
    """So many random examples; in a soak, so many times more (see conftest.py)."""
    return settings(max_examples=count * settings().max_examples // 100)


# --- Terms: SQL and Python side by side -----------------------------------------------------------------

Compare = Callable[[Any, Any], bool | None]
OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "<>": operator.ne}


def known(test: Callable[..., bool]) -> Callable[..., bool | None]:
    """The test with SQL's null and Windrow's NaN: null gives null, NaN gives false."""

    def checked(*values: Any) -> bool | None:
        if any(value is None for value in values):
            return None
        return False if any(value != value for value in values) else bool(test(*values))

    return checked


def either(x: bool | None, y: bool | None) -> bool | None:
    """SQL's `or`."""
    if x is True or y is True:
        return True
    return None if x is None or y is None else False


def negated(x: bool | None) -> bool | None:
    return None if x is None else not x


equal = known(operator.eq)


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
    """Equality on one column of any type, on two numeric types, on two columns, or of one column with two."""
    column = st.sampled_from(list(VALUES))
    how = draw(st.sampled_from(["one", "one", "two", "mixed", "fork"]))
    if how == "fork":
        return [equality(a, b, "i"), equality(a, b, "i", "j")]
    if how == "mixed":
        left, right = draw(st.sampled_from([("i", "j"), ("j", "i"), ("i", "f"), ("f", "j")]))
        return [equality(a, b, left, right)]
    columns = draw(st.lists(column, min_size=1, max_size=1 if how == "one" else 2, unique=True))
    return [equality(a, b, c) for c in columns]


@st.composite
def bands(draw: st.DrawFn, a: str, b: str) -> list[Term]:
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
    return [pair(f"{{l}} {sign} {{r}}", a, b, column, column, known(OPERATORS[sign]), "comparison")]


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
                known(operator.ne)(r[a]["f"], r[b]["f"]), known(operator.lt)(r[a]["d"], r[b]["d"])
            ),
        ),
        Term(
            f"case when {a}.flag then {a}.i = {b}.i else {a}.j < {b}.j end",
            (a, b),
            lambda r: (
                equal(r[a]["i"], r[b]["i"]) if r[a]["flag"] else known(operator.lt)(r[a]["j"], r[b]["j"])
            ),
        ),
        pair("{l} + {r} > 1", a, b, "i", "i", known(lambda x, y: x + y > 1)),
        pair("{l} * 2 - {r} >= 0.1", a, b, "f", "i", known(lambda x, y: x * 2 - y >= 0.1)),
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
    return either(known(operator.lt)(row["f"], 1), known(operator.ne)(row["i"], 1))


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


# --- Data and arrival -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flow:
    """How rows are made: their seed, how many values, how often nothing, how dense in time."""

    seed: int
    spread: int
    nulls: float
    nans: float
    start: int
    """Microseconds since 1970; may be negative."""
    step: int
    """Mean microseconds between two rows of a stream; times are multiples of half a second or so."""

    def table(self, alias: str, count: int) -> pa.Table:
        rows = [self._row(alias, n, count) for n in range(count)]
        return pa.Table.from_pylist(rows, SCHEMA)

    def _row(self, alias: str, number: int, count: int) -> Row:
        rng = Random(f"{self.seed}/{alias}/{number}")
        row: Row = {}
        for name, values in VALUES.items():
            row[name] = None if rng.random() < self.nulls else rng.choice(values[: self.spread])
        if rng.random() < self.nans:
            row["f"] = float("nan")
        tick = rng.randrange(4 * count + 1) // 4 * self.step + rng.choice([0, 0, 0, 1, -1, self.step // 2])
        time = EPOCH + timedelta(microseconds=self.start + tick)
        row |= {"id": number, "ts": None if rng.random() < self.nulls / 4 else time}
        return row | {name: random_list(rng, name, self.nulls) for name in LISTS}


@st.composite
def flows(draw: st.DrawFn, streams: int, nans: bool = True) -> Flow:
    """The more streams, the fewer values: else no combination of rows satisfies a random predicate."""
    return Flow(
        seed=draw(st.integers(0, 2**32)),
        spread=draw(st.sampled_from([2, 3, 8] if streams < 4 else [1, 2, 2, 3])),
        nulls=draw(st.sampled_from([0.0, 0.05, 0.3] if streams < 4 else [0.0, 0.02, 0.1])),
        nans=draw(st.sampled_from([0.0, 0.1])) if nans else 0.0,
        start=draw(st.sampled_from([0, -20 * SECOND, 1_700_000_000 * SECOND])),
        step=draw(st.sampled_from([SECOND, SECOND // 2, 100])),
    )


@st.composite
def arrivals(
    draw: st.DrawFn, tables: Mapping[str, pa.Table], late: int, together: bool
) -> list[dict[str, list[int]]]:
    """Calls that hand out every row once.

    Rows come in order of time, each delayed by up to `late` (or, at times, more: then some are late).
    `together`: in one order over all streams, cut into calls. Else each stream has its own cuts, and the
    streams may run far ahead of each other.
    """
    rng = Random(draw(st.integers(0, 2**32)))
    delay = draw(st.sampled_from([0, late, late, 2 * late + 2 * SECOND, 3 * late + 300]))
    cut = draw(st.sampled_from(CUTS))
    queue = [
        (0 if time is None else time + rng.randint(0, delay), rng.random(), alias, number)
        for alias, table in tables.items()
        for number, time in enumerate(table.column("ts").cast(pa.int64()).to_pylist())
    ]
    queue.sort()
    calls: list[dict[str, list[int]]] = []
    if together:
        for first in range(0, len(queue), cut):
            call: dict[str, list[int]] = {}
            for _, _, alias, number in queue[first : first + cut]:
                call.setdefault(alias, []).append(number)
            calls.append(call)
    else:
        waiting = {alias: [n for *_, a, n in queue if a == alias] for alias in tables}
        eagerness = {alias: draw(st.sampled_from([0.2, 0.5, 1.0])) for alias in tables}
        while any(waiting.values()):
            call = {}
            for alias, numbers in waiting.items():
                if numbers and rng.random() < eagerness[alias]:
                    call[alias], waiting[alias] = numbers[:cut], numbers[cut:]
            calls.append(call)
    for call in calls:
        for alias in tables:
            if alias not in call and rng.random() < 0.1:
                call[alias] = []
    if calls and draw(st.booleans()):
        calls.insert(rng.randrange(len(calls) + 1), {})
    return calls


# --- Whole cases ----------------------------------------------------------------------------------------

EVALUATE = ("eager", "every 7 rows", "every 3 seconds", "every 200 us")
EXPIRE = ("eager", "every 10 seconds", "every 300 us")
ROWS = {2: 110, 3: 50, 4: 20, 5: 11}
"""Most rows per stream, by number of streams: what the oracle's loops can carry."""


def paths(alias: str, terms: Sequence[Term]) -> list[str | None]:
    """The access paths a stream's conditions allow."""
    kinds = {term.kind for term in terms if alias in term.aliases}
    allowed: list[str | None] = [None, "scan"]
    if "equality" in kinds:
        allowed += ["hash", "hash(1)", "hash(7)"]
    if kinds & {"equality", "band", "comparison"}:
        allowed += ["sorted"]
    if any(indexable(term) for term in terms if alias in term.aliases):
        allowed += ["inverted"]
    return allowed


@st.composite
def orders(draw: st.DrawFn, aliases: Sequence[str]) -> Any:
    how = draw(st.sampled_from(["heuristic", "low-selectivity", "exhaustive", "one", "each"]))
    if how == "one":
        return tuple(draw(st.permutations(aliases)))
    if how == "each":
        return {a: (a, *draw(st.permutations([x for x in aliases if x != a]))) for a in aliases}
    return how


@st.composite
def cases(
    draw: st.DrawFn,
    counted: bool = False,
    most_streams: int = 5,
    late: bool = True,
    idle: bool = True,
    snapshots: bool = True,
    nans: bool = True,
) -> Case:
    """Anything that can be asked. `counted`: at least one window is counted in rows."""
    count = draw(st.integers(2, most_streams))
    aliases = ALIASES[:count]
    flow = draw(flows(count, nans=nans))
    most = ROWS[count] // (2 if counted else 1)
    sizes = {a: draw(st.integers(0, most) | st.integers(most // 2, most)) for a in aliases}
    tables = {alias: flow.table(alias, size) for alias, size in sizes.items()}
    windows: dict[str, int | tuple[int, bool]] = {
        a: flow.step * draw(st.sampled_from([1, 2, 5, 20, 10_000] if count < 4 else [3, 8, 20, 10_000]))
        for a in aliases
    }
    if counted:
        for alias in draw(st.lists(st.sampled_from(aliases), min_size=1, unique=True)):
            windows[alias] = (draw(st.sampled_from([1, 2, 3, 10, 1000])), draw(st.booleans()))
    keys = [a for a, window in windows.items() if isinstance(window, tuple) and window[1]]
    terms = draw(predicates(aliases, keys))
    options: dict[str, Any] = {
        "late": draw(st.sampled_from([0, 0, 1, 3 * flow.step, 10 * flow.step])) if late else 0,
        "evaluate": draw(
            st.sampled_from([None, None, "eager", "every 7 rows", "every 3 seconds", "every 200 us"])
        ),
        "expire": draw(st.sampled_from([None, "eager", "every 10 seconds", "every 300 us"])),
        "order": draw(orders(aliases)),
        "algorithm": draw(st.sampled_from(["eager", "eager", "naive", "general"])),
    }
    if idle and draw(st.integers(0, 3)) == 0:
        options["idle"] = draw(st.sampled_from([0, 2 * flow.step, 8 * flow.step]))
    together = counted or draw(st.booleans())
    calls = draw(arrivals(tables, options["late"], together))
    access = {a: draw(st.sampled_from(paths(a, terms))) for a in aliases}
    points = (
        draw(st.frozensets(st.integers(0, max(0, len(calls) - 1)), max_size=3)) if snapshots else frozenset()
    )
    return Case(windows, terms, tables, calls, options, access, points)
