"""Random queries with random data: what a drawn case is, how it is run and how it is answered.

A `Case` is a query, the rows of its streams and the calls in which they arrive; `terms` draws its conditions,
`flows` its rows and calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

import results
import windrow as wr
from flows import arrivals, flows
from forms import COMPUTED
from likenesses import indexable
from terms import FUNCTIONS, predicates
from windrow.testing import oracle
from windrow.testing.oracle import SECOND, Row, Term

ALIASES = ("a", "b", "c", "d", "e")

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
    source: Mapping[str, str] = field(default_factory=dict)
    """Alias to the column of its source partitions."""

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
            alias: wr.Stream("ts", window_text(window), self.access.get(alias), self.source.get(alias))
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
        if self.options.get("nan") == "never":
            # No condition looks at NaN but by comparison, and one with null does not hold either.
            rows = {
                a: [{k: None if v != v else v for k, v in r.items()} for r in own] for a, own in rows.items()
            }
        for alias, name in {column for term in self.terms for column in term.columns}:
            if name in COMPUTED:
                rows[alias] = [row | {name: COMPUTED[name](row)} for row in rows[alias]]
        calls = [{alias: [rows[alias][n] for n in ids] for alias, ids in call.items()} for call in self.calls]
        late, idle = self.options.get("late", 0), self.options.get("idle")
        return oracle.admit(calls, late=late, idle=idle, one_clock=self.counted, source_partition=self.source)

    def answer(self) -> Counter[tuple]:
        admitted = self.admitted()
        if self.counted:
            return oracle.expected_counted(admitted.calls, self.windows, self.terms)
        return oracle.expected({a: admitted.rows(a) for a in self.windows}, self.windows, self.terms)

    def run(self, threads: Sequence[int] = (1,), **changes: Any) -> tuple[pa.Table, Any]:
        """All output of the engine as one table, and its last measurements. The first operator runs on the
        first number of threads, one restored from its snapshot on the second, and so on."""
        query, counts = self.query(**changes), cycle(threads)
        schemas = {alias: table.schema for alias, table in self.tables.items()}
        op = wr.Operator(query, schemas=schemas, threads=next(counts))
        outputs = []
        for number, call in enumerate(self.inputs()):
            outputs.append(op.process(call))
            if number in self.snapshots:
                op = wr.Operator.restore(query, op.snapshot(), threads=next(counts))
        outputs.append(op.finish())
        return pa.concat_tables(outputs), op.metrics()


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
    answer = sum((results.ids(op.process(call)) for call in calls), Counter())
    return answer + results.ids(op.finish())


def examples(count: int) -> settings:
    """So many random examples, scaled: fewer in `make test`, many more in a soak (see conftest.py)."""
    return settings(max_examples=max(4, count * settings().max_examples // 100))


# --- Whole cases ----------------------------------------------------------------------------------------

EVALUATE = ("eager", "every 7 rows", "every 3 seconds", "every 200 us")
EXPIRE = ("eager", "every 10 seconds", "every 300 us")
SPILLS = st.sampled_from(
    [{}, {}, {}, *({"memory": size, "disk": "unlimited"} for size in (600, 5_000, 50_000))]
)
"""Windows in memory, or in files: all of them, their payloads, or some of those."""
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
    spills: bool = False,
) -> Case:
    """Anything that can be asked. `counted`: at least one window is counted in rows. `spills`: windows may
    spill to files."""
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
        "evaluate": draw(st.sampled_from([None, None, *EVALUATE])),
        "expire": draw(st.sampled_from([None, *EXPIRE])),
        "order": draw(orders(aliases)),
        "algorithm": draw(st.sampled_from(["eager", "eager", "naive", "general"])),
        "nan": draw(st.sampled_from(["spark", "never"])),
    }
    if idle and draw(st.integers(0, 3)) == 0:
        options["idle"] = draw(st.sampled_from([0, 2 * flow.step, 8 * flow.step]))
    together = counted or draw(st.booleans())
    calls = draw(arrivals(tables, options["late"], together))
    if options["late"] and draw(st.integers(0, 1 if counted else 3)) == 0:
        options["late"] = {a: options["late"] for a in aliases if draw(st.booleans())} or 0
    access = {a: draw(st.sampled_from(paths(a, terms))) for a in aliases}
    points = (
        draw(st.frozensets(st.integers(0, max(0, len(calls) - 1)), max_size=3)) if snapshots else frozenset()
    )
    if spills:
        options |= draw(SPILLS)
    return Case(windows, terms, tables, calls, options, access, points)
