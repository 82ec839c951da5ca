"""Random joins for Spark: a case with its layout and the batch before which its query is restarted.

A case is drawn from a seed alone. Several run as one streaming query, each as a join of its own, since the
fixed cost of a batch is far above that of a few rows. The rows of one call of every case are a micro-batch;
streams may have none in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

import terms
import windrow as wr
from flows import SCHEMA, flows
from forms import computed_keys
from outer_cases import OuterCase, outer_cases
from queries import ALIASES, EVALUATE, EXPIRE, SPILLS, Case, orders, paths
from shared_cases import Asked, asked
from windrow.expr.join_columns import column_values
from windrow.model.execution import Execution, SkewedKeys
from windrow.planning.bound_query import BoundQuery
from windrow.spark.files.file_stream import FileStream
from windrow.spark.join import prepare
from windrow.spark.partitioning import PartitionLayout, choose_layout
from windrow.spark.shared_join import share
from windrow.testing.oracle import SECOND

ROWS = {2: 30, 3: 18, 4: 10}
"""Most rows per stream, by number of streams: few, so that partitions and batches are often empty."""
STREAM = "stream"
"""The column that says whose row it is."""
LAYOUTS = ("single", "grid", "key", "range", "range(0.7)")

# Workers cannot import what the tests define.
cloudpickle.register_pickle_by_value(terms)


@dataclass(frozen=True, repr=False)
class SparkCase:
    seed: int
    case: Case
    partitions: int
    partitioning: str | None
    skewed_keys: Mapping[str, Any] | None
    restart: int
    """The first call that comes after the restart."""
    asked: Mapping[str, Asked] = field(default_factory=dict)
    """Queries that share the join; none: `join` itself."""
    flush: int = 0
    """The last so many calls only push the windows on; results of their rows are not compared."""

    def __repr__(self) -> str:
        lines = [f"seed {self.seed}: partitions {self.partitions}, partitioning {self.partitioning}"]
        lines.append(f"skewed_keys {self.skewed_keys}, restart before call {self.restart}")
        lines += [f"shared by {dict(self.asked)}"] if self.asked else []
        return "\n".join([*lines, str(self.layout), repr(self.case)])

    @property
    def layout(self) -> PartitionLayout:
        return laid_out(self.case.query(), self.partitions, self.partitioning, self.skewed_keys)

    def columns(self, alias: str) -> pa.Schema:
        """What the queries speak of; a column more in every join costs more than all rows."""
        said = " ".join([self.case.sql, *(a.above for a in self.asked.values() if a.above)])
        always = ("id", "ts", self.case.source.get(alias))
        return pa.schema([f for f in SCHEMA if f.name in always or _says(said, alias, f.name)])

    @property
    def name(self) -> str:
        return f"case{self.seed}"

    @property
    def planned_again(self) -> bool:
        """Whether the restart is that of another process, or else starts the same frame, whose workers may
        still hold the windows."""
        return self.seed % 2 == 0

    def stream(self, alias: str) -> str:
        return f"{self.seed}{alias}"

    def named(self, alias: str, table: pa.Table) -> pa.Table:
        """Rows of a stream, each with the stream's name."""
        return table.append_column(STREAM, pa.array([self.stream(alias)] * table.num_rows, pa.string()))

    def frame(self, streams: Mapping[str, DataFrame | FileStream], state: str) -> DataFrame:
        """Results as the seed, the query's name and the ids of the rows."""
        if self.asked:
            queries = {name: a.query(self.case) for name, a in self.asked.items()}
            options = {"partitions": self.partitions, "partitioning": self.partitioning}
            out = share(queries, streams, state=state, name=self.name, **options)
        else:
            laid = Execution(self.partitions, state, self.name, self.partitioning, self.skewed_keys)
            out = prepare(streams, self.case.query(), laid).frame()
        name = sf.col("query") if self.asked else sf.lit("")
        row = sf.array(*(sf.col(f"{alias}.id") for alias in self.case.query().kind.result_aliases))
        return out.select(sf.lit(self.seed).alias("seed"), name.alias("query"), row.alias("row"))

    def answers(self) -> dict[str, Counter[tuple]]:
        """By query, without what the flushing rows are in."""
        if not self.asked:
            return {"": self.without_flush(self.case.answer())}
        found = {}
        for name, one in self.asked.items():
            own = [f for alias in one.windows for f in terms.filters(alias) if f.sql == one.above]
            case = self.case
            alone = Case(one.windows, [*own, *case.terms], case.tables, case.calls, case.options)
            found[name] = self.without_flush(alone.answer())
        return found

    def without_flush(self, rows: Counter[tuple]) -> Counter[tuple]:
        shown = self.case.query().kind.result_aliases
        first = [self.case.tables[alias].num_rows - self.flush for alias in shown]
        return Counter(
            {
                row: n
                for row, n in rows.items()
                if all(i is None or i < f for i, f in zip(row, first, strict=True))
            }
        )


def _says(said: str, alias: str, column: str) -> bool:
    return re.search(rf"\b{alias}\.{column}\b", said) is not None


def laid_out(
    query: wr.Query, partitions: int, partitioning: str | None, skewed_keys: Mapping[str, Any] | None = None
) -> PartitionLayout:
    join = BoundQuery.of(query, [SCHEMA] * len(query.aliases))
    return choose_layout(join, partitions, partitioning, SkewedKeys.parse(skewed_keys))


# --- Drawing --------------------------------------------------------------------------------------------


def drawn(number: int, strategy: st.SearchStrategy[SparkCase]) -> SparkCase:
    """The strategy's case of this seed: hypothesis' second example. Its first is the smallest there is; the
    second differs from it in what is drawn first, which is a number of no use."""
    found: list[SparkCase] = []

    @seed(number)
    @settings(
        max_examples=2,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(), strategy)
    def take(_: int, case: SparkCase) -> None:
        found.append(case)

    take()
    return replace(found[-1], seed=number)


@st.composite
def spark_cases(draw: st.DrawFn, counted: bool | None = None, held_back: bool = False) -> SparkCase:
    """Any join. `held_back`: rows wait for their turn, as counted rows do that may come late, and all over
    several partitions."""
    if counted is None:
        counted = draw(st.integers(0, 3)) == 0
    count = draw(st.sampled_from([2, 2, 3] if counted else [2, 2, 3, 3, 4]))
    aliases = ALIASES[:count]
    flow = draw(flows(count))
    windows: dict[str, int | tuple[int, bool]] = {
        a: flow.step * draw(st.sampled_from([3, 8, 20, 10_000] if count < 4 else [8, 20, 10_000]))
        for a in aliases
    }
    if counted:
        per_key = held_back or draw(st.integers(0, 9)) > 0
        for alias in draw(st.lists(st.sampled_from(aliases), min_size=1, unique=True)):
            windows[alias] = (draw(st.sampled_from([1, 2, 3, 10])), per_key)
    keys = [a for a, window in windows.items() if isinstance(window, tuple) and window[1]]
    computed = computed_keys(aliases, near=not keys)
    on = draw(st.one_of(terms.predicates(aliases, keys), computed, computed))
    partitions = draw(st.sampled_from([3, 7] if held_back else [1, 3, 3, 3, 7, 7, 7, 7]))
    options = _options(draw, aliases, flow.step, held_back or (not (counted and partitions > 1)), held_back)
    sizes = {a: draw(st.integers(ROWS[count] // 2, ROWS[count])) for a in aliases}
    tables = {alias: flow.table(alias, size) for alias, size in sizes.items()}
    if counted:
        tables = {alias: _distinct(table) for alias, table in tables.items()}
    rng = Random(draw(st.integers(0, 2**32)))
    calls = _calls(rng, tables, options["late"], draw(st.integers(1, 3)), apart=not counted)
    flush = 2 if counted and options["late"] else 0
    for number in range(flush):
        tables = {a: _pushed(tables, a, options["late"], number) for a in tables}
        calls.append({a: [t.num_rows - 1] for a, t in tables.items()})
    access = {a: draw(st.sampled_from(paths(a, on))) for a in aliases}
    case = Case(windows, on, tables, calls, options, access)
    asks = {}
    if draw(st.integers(0, 3)) == 0:
        asks = {f"q{k}": draw(asked(case)) for k in range(draw(st.integers(1, 3)))}
    else:
        case = replace(case, options=options | draw(SPILLS))
    partitioning = draw(st.sampled_from([*[None] * 6, *_possible(case, partitions)]))
    skewed = None if asks else _skewed_keys(draw, case, partitions, partitioning)
    restart = draw(st.integers(1, len(calls)))
    return SparkCase(0, case, partitions, partitioning, skewed, restart, asks, flush)


@st.composite
def outer_spark_cases(draw: st.DrawFn) -> SparkCase:
    """Outer, semi, anti and as-of joins. The last calls only move time on, so that all is decided; further
    than any window reaches."""
    whole: OuterCase = draw(outer_cases(most_streams=3, late=True, snapshots=False, spills=True))
    count = len(whole.windows)
    tables = {a: t.slice(0, ROWS[count]) for a, t in whole.tables.items()}
    rng = Random(draw(st.integers(0, 2**32)))
    late = whole.options["late"]
    longest = max(late.values()) if isinstance(late, Mapping) else late
    calls = _calls(rng, tables, longest, draw(st.integers(1, 3)), apart=True)
    flush = 2
    for number in range(flush):
        far = 2 * max(w for w in whole.windows.values() if isinstance(w, int)) + 3600 * SECOND
        tables = {a: _pushed(tables, a, longest, number, far) for a in tables}
        calls.append({a: [t.num_rows - 1] for a, t in tables.items()})
    case = replace(whole, tables=tables, calls=calls, snapshots=frozenset())
    partitions = draw(st.sampled_from([1, 3, 3, 7, 7]))
    partitioning = draw(st.sampled_from([*[None] * 3, *_possible(case, partitions)]))
    return SparkCase(0, case, partitions, partitioning, None, draw(st.integers(1, len(calls))), {}, flush)


@dataclass(frozen=True, repr=False)
class RescaledCase(SparkCase):
    """A case that goes on with another layout."""

    then: tuple[int, str | None, Mapping[str, Any] | None] = (1, None, None)
    """Partitions, partitioning and skewed keys after the restart."""
    back: int = 0
    """The first call that comes after a second restart, with the layout that the case began with."""

    def __repr__(self) -> str:
        return f"{super().__repr__()}\nthen {self.then}, back before call {self.back}"


@st.composite
def rescaled_cases(draw: st.DrawFn, cases: st.SearchStrategy[SparkCase]) -> RescaledCase:
    case: SparkCase = draw(cases)
    partitions = draw(st.sampled_from([1, 2, 3, 4, 5, 8]))
    partitioning = draw(st.sampled_from([*[None] * 3, *_possible(case.case, partitions)]))
    outer = bool(case.case.query().kind.shapes)
    skewed = None if case.asked or outer else _skewed_keys(draw, case.case, partitions, partitioning)
    back = draw(st.integers(case.restart, len(case.case.calls)))
    return RescaledCase(**vars(case), then=(partitions, partitioning, skewed), back=back)


def _options(draw: st.DrawFn, aliases: Sequence[str], step: int, late: bool, always: bool) -> dict[str, Any]:
    behind = [3 * step, 10 * step] if always else [0, 1, 3 * step, 10 * step]
    options = {
        "late": draw(st.sampled_from(behind)) if late else 0,
        "evaluate": draw(st.sampled_from([None, None, *EVALUATE])),
        "expire": draw(st.sampled_from([None, *EXPIRE])),
        "order": draw(orders(aliases)),
        "algorithm": draw(st.sampled_from(["eager", "eager", "naive", "general"])),
        "nan": draw(st.sampled_from(["spark", "never"])),
    }
    if draw(st.integers(0, 3)) == 0:
        options["idle"] = draw(st.sampled_from([0, 2 * step, 8 * step]))
    return options


def _distinct(table: pa.Table) -> pa.Table:
    """Rows of one stream at different times: on Spark, rows of one time in one batch have another order."""
    taken: set[int] = set()
    times = []
    for time in table.column("ts").cast(pa.int64()).to_pylist():
        while time is not None and time in taken:
            time += 1
        taken.add(time)
        times.append(time)
    return _with_times(table, times)


def _with_times(table: pa.Table, times: Sequence[int | None]) -> pa.Table:
    return table.set_column(1, "ts", pa.array(times, pa.int64()).cast(pa.timestamp("us")))


def _pushed(
    tables: Mapping[str, pa.Table], alias: str, late: int, number: int, step: int = 3600 * SECOND
) -> pa.Table:
    """With one more row, far in the future and otherwise empty."""
    table = tables[alias]
    times = [t for x in tables.values() for t in x.column("ts").cast(pa.int64()).to_pylist() if t is not None]
    more = pa.Table.from_pylist([{"id": table.num_rows}], SCHEMA)
    ahead = max(times, default=0) + late + step * (number + 1)
    return pa.concat_tables([table, _with_times(more, [ahead])])


def _calls(
    rng: Random, tables: Mapping[str, pa.Table], late: int, count: int, apart: bool
) -> list[dict[str, list[int]]]:
    """Every row once, in order of time but for delays of `late` or, at times, more. `apart`: some streams
    come a call later than others."""
    delay = rng.choice([0, late, late, 2 * late + 2 * SECOND])
    queue = [
        (0 if time is None else time + rng.randint(0, delay), rng.random(), alias, number)
        for alias, table in tables.items()
        for number, time in enumerate(table.column("ts").cast(pa.int64()).to_pylist())
    ]
    queue.sort()
    ends = sorted(rng.randint(0, len(queue)) for _ in range(count - 1))
    behind = {alias: rng.choice([0, 0, 1]) if apart else 0 for alias in tables}
    calls: list[dict[str, list[int]]] = [{a: [] for a in tables} for _ in range(count + max(behind.values()))]
    for position, (_, _, alias, number) in enumerate(queue):
        calls[sum(end <= position for end in ends) + behind[alias]][alias].append(number)
    return calls


def _possible(case: Case, partitions: int) -> list[str]:
    """The layouts that the query allows."""
    found = []
    for partitioning in LAYOUTS:
        try:
            laid_out(case.query(), partitions, partitioning)
        except wr.QueryError:
            continue  # as `test_spark_partitioning` has it; here only the others matter
        found.append(partitioning)
    return found


def _skewed_keys(
    draw: st.DrawFn, case: Case, partitions: int, partitioning: str | None
) -> dict[str, Any] | None:
    """Some values of the key, where the layout has a key and the query lets its rows be parted."""
    query = case.query()
    layout = laid_out(query, partitions, partitioning)
    key = next((cut for cut in layout.dimensions if cut.kind == "key"), None)
    if key is None or key.parts < 2 or draw(st.booleans()):
        return None
    splits = draw(st.integers(2, key.parts))
    words = [place.column for place in key.placements if place.column is not None]
    values: list[Any] = []
    for word in words:
        table = case.tables[query.aliases[word.stream]]
        columns = {(query.aliases[word.stream], n): table.column(n).combine_chunks() for n in SCHEMA.names}
        values += column_values(word, columns, table.num_rows, {}).to_pylist()
    known = sorted({v for v in values if v is not None and v == v}, key=str)
    if not known:
        return None
    skewed = {
        "values": draw(st.lists(st.sampled_from(known), min_size=1, max_size=2, unique=True)),
        "splits": splits,
    }
    try:
        laid_out(query, partitions, partitioning, skewed)
    except wr.QueryError:
        return None  # all its windows count rows per key
    return skewed
