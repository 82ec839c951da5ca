"""A join goes on with another number of partitions, or another layout, and its results stay exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import windrow as wr
from outer_cases import outer_ids
from partition_runs import PartitionedJoin, shared
from source_cases import source_cases
from spark_cases import RescaledCase, SparkCase, drawn, outer_spark_cases, rescaled_cases, spark_cases
from windrow.engine.shared.redistribution import redistributed_group
from windrow.model.execution import Execution
from windrow.spark.operator_cache import OperatorCache
from windrow.spark.partition_join import JoinKind, SingleQuery
from windrow.spark.shared_partition import QUERY
from windrow.spark.stored_join import stored_joins
from windrow.state import store
from windrow.state.rescale import StoredVersion
from windrow.state.storage import open_storage

CASES = 6
REFUSED = "cannot be redistributed now"


@st.composite
def source_spark_cases(draw: st.DrawFn) -> SparkCase:
    """Source partitions that progress unevenly."""
    case = draw(source_cases())
    calls = case.calls[:5]
    case = replace(case, calls=calls, snapshots=frozenset())
    return SparkCase(0, case, draw(st.sampled_from([1, 3, 7])), None, None, draw(st.integers(1, len(calls))))


KINDS = {
    "any": spark_cases(),
    "rows wait": spark_cases(counted=True, held_back=True),
    "outer": outer_spark_cases(),
    "source partitions": source_spark_cases(),
}
Results = dict[str, Counter[tuple]]


def results(batches: Iterable[pa.RecordBatch], aliases: Iterable[str]) -> Results:
    """By query; "" for that of a join of one query."""
    found: Results = {}
    for batch in batches:
        table = pa.table({name: batch.column(name) for name in aliases})
        rows = [next(iter(outer_ids(table.slice(n, 1)))) for n in range(table.num_rows)]
        queries = batch.column(QUERY).to_pylist() if QUERY in batch.schema.names else [[""]] * len(rows)
        for row, names in zip(rows, queries, strict=True):
            for name in names:
                found.setdefault(name, Counter())[row] += 1
    return found


class Restarted:
    """A case as one streaming query, over several starts."""

    def __init__(self, case: RescaledCase, root: Path) -> None:
        self.case, self.root = case, root
        self.schemas = {alias: case.columns(alias) for alias in case.case.windows}
        self.found: Results = {}
        self.refused = 0

    def joins(self) -> list[tuple[wr.Query, JoinKind]]:
        if not self.case.asked:
            return [(self.case.case.query(), SingleQuery())]
        queries = {name: asked.query(self.case.case) for name, asked in self.case.asked.items()}
        return [*shared(queries, self.schemas)]

    def start(self, partitions: int, partitioning: str | None, skewed: Mapping[str, Any] | None) -> None:
        self.running = [
            PartitionedJoin(
                query, self.schemas, str(self.root), partitions, partitioning, skewed, kind, f"join{number}"
            )
            for number, (query, kind) in enumerate(self.joins())
        ]

    def rescale(self, partitions: int, partitioning: str | None, skewed: Mapping[str, Any] | None) -> None:
        """Beforehand, as the command does it. The next start may ask for the same layout, or another."""
        for join in stored_joins(str(self.root)):
            try:
                join.rescale(Execution(partitions, None, None, partitioning, skewed), threads=1)
            except wr.StateError as error:
                if "without the program that runs it" not in str(error):
                    raise

    def process(self, calls: range) -> None:
        inputs = self.case.case.inputs()
        for batch in calls:
            for join in self.running:
                out = join.process(batch, inputs[batch])
                for name, rows in results(out, join.query.kind.result_aliases).items():
                    self.found.setdefault(name, Counter()).update(rows)

    def run(self) -> bool:
        """Whether no layout was refused. One that is refused leaves the state as it was: the join goes on in
        the old layout."""
        case = self.case
        first = (case.partitions, case.partitioning, case.skewed_keys)
        stages = [(first, 0, case.restart), (case.then, case.restart, case.back)]
        stages.append((first, case.back, len(case.case.calls)))
        before, refused = first, 0
        for number, (layout, begin, end) in enumerate(stages):
            try:
                if number and (case.seed + number) % 3 == 0:
                    self.rescale(*layout)
                self.start(*layout)
                self.process(range(begin, end))
            except wr.StateError as error:
                if REFUSED not in str(error):
                    raise
                refused += 1
                self.start(*before)
                self.process(range(begin, end))
                continue
            before = layout
        return not refused


def wrong(case: RescaledCase, root: Path) -> str | None:
    restarted = Restarted(case, root)
    restarted.run()
    for name, want in case.answers().items():
        got = case.without_flush(restarted.found.get(name, Counter()))
        if got != want:
            told = f"missing: {dict(want - got)}, too many: {dict(got - want)}"
            return f"{case!r}\n{name} of {want.total()} results, {told}"
    return None


@pytest.mark.blocks(1, soak=30)
@pytest.mark.parametrize("kind", KINDS)
def test_any_join_goes_on_in_any_layout(
    kind: str, block: int, first_seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(first_seed + block * CASES, first_seed + (block + 1) * CASES):
        case = drawn(number, rescaled_cases(KINDS[kind]))
        monkeypatch.setattr(store, "SMALLEST_FILE", (0, 2048, 1 << 14)[number % 3])
        told = wrong(case, tmp_path / str(number))
        assert told is None, told


SECOND = 1_000_000
FEW = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us")), ("x", pa.int64())])


def rows(*given: tuple[int, int]) -> pa.Table:
    """Rows of (id, second); the id is the value."""
    ids, seconds = [r[0] for r in given], [r[1] * SECOND for r in given]
    return pa.table([pa.array(c).cast(f.type) for c, f in zip((ids, seconds, ids), FEW, strict=True)], FEW)


def ids(batches: Iterable[pa.RecordBatch]) -> list[tuple]:
    return sorted(results(batches, "ab").get("", Counter()).elements(), key=str)


def test_a_row_is_taken_from_a_partition_that_still_needs_it(tmp_path: Path) -> None:
    """Rows of b are in both partitions. In one of them a row of `a` far ahead has expired b's first row; in
    the other a row of `a` waits for it."""
    query = wr.Query({x: wr.Stream("ts", "5 s") for x in "ab"}, "b.x <= a.x", match={"b": "last"}, late="1 s")
    schemas = dict.fromkeys("ab", FEW)
    first = PartitionedJoin(query, schemas, str(tmp_path), 2, "grid")
    places = first.finders[0].partitions(rows(*((n, n) for n in range(2, 40))).to_batches()[0]).values
    waits = 2
    ahead = next(n for n, place in enumerate(places, 2) if place != places[0] and n > 20)
    calls = [{"a": rows((waits, waits)), "b": rows((1, 1))}, {"a": rows((ahead, ahead))}]
    assert [ids(first.process(n, call)) for n, call in enumerate(calls)] == [[], []]
    held = [len(kept.join.runner.join.windows[1]) for kept in first.cache._operators.values()]
    assert sorted(held) == [0, 1]
    second = PartitionedJoin(query, schemas, str(tmp_path), 3, "grid")
    assert ids(second.process(2, {"b": rows((60, 60))})) == [(waits, 1)]


def test_rows_take_no_more_memory_in_another_layout(tmp_path: Path) -> None:
    query = wr.Query({x: wr.Stream("ts", "9 s") for x in "ab"}, "a.x = b.x")
    call = {x: rows(*((n, 0) for n in range(20_000))) for x in "ab"}
    before = PartitionedJoin(query, dict.fromkeys("ab", FEW), str(tmp_path), 2)
    before.process(0, call)
    after = PartitionedJoin(query, dict.fromkeys("ab", FEW), str(tmp_path), 3)
    after.process(1, {"a": rows((1, 1))})
    sizes = []
    for join in (before, after):
        windows = [w for kept in join.cache._operators.values() for w in kept.join.runner.join.windows]
        sizes.append(sum(segment.nbytes for window in windows for segment in window.segments))
    assert sizes[1] < 1.2 * sizes[0]


def totals(join: PartitionedJoin) -> Counter[str]:
    metrics = [kept.join.runner.metrics() for kept in join.cache._operators.values()]
    assert len(metrics) == join.layout.partitions
    names = ("rows_in", "rows_late", "rows_expired", "rows_evicted", "results", "window_rows")
    return Counter({name: sum(getattr(m, name) for m in metrics) for name in names})


@pytest.mark.parametrize("shed", ["auto", "random", "age"])
def test_under_a_memory_limit_counts_are_kept_and_the_loss_is_reported(
    tmp_path: Path, shed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        OperatorCache, "limit", lambda *_: None
    )  # `totals` reads the operators of all partitions
    query = wr.Query({x: wr.Stream("ts", "9 s") for x in "ab"}, "a.x = b.x", memory="60 rows", shed=shed)
    exact = wr.Operator(wr.Query(query.streams, query.on), dict.fromkeys("ab", FEW))
    want: Counter[tuple] = Counter()
    found: list[tuple] = []
    running = PartitionedJoin(query, dict.fromkeys("ab", FEW), str(tmp_path), 3)
    for number in range(6):
        call = {x: rows(*((n, number) for n in range(50))) for x in "ab"}
        want += outer_ids(exact.process(call))
        found += ids(running.process(number, call))
    before = totals(running)
    assert before["rows_evicted"] > 0
    after = PartitionedJoin(query, dict.fromkeys("ab", FEW), str(tmp_path), 2)
    found += ids(after.process(6, {}))
    assert totals(after) == before
    assert all(kept.join.runner.metrics().complete_from for kept in after.cache._operators.values())
    found += ids(after.process(7, {"a": rows(*((n, 6) for n in range(50)))}))
    want += outer_ids(exact.process({"a": rows(*((n, 6) for n in range(50)))}))
    assert found and not Counter(found) - want


def test_a_sample_is_not_divided(tmp_path: Path) -> None:
    """Its weights would be wrong. The join goes on in the old layout."""
    query = wr.Query({x: wr.Stream("ts", "9 s") for x in "ab"}, "a.x = b.x", memory="60 rows", shed="uniform")
    running = PartitionedJoin(query, dict.fromkeys("ab", FEW), str(tmp_path), 3)
    call = {x: rows(*((n, 1) for n in range(90))) for x in "ab"}
    running.process(0, call)
    with pytest.raises(wr.StateError, match=r"cannot be redistributed now: they are a sample \(uniform\)"):
        PartitionedJoin(query, dict.fromkeys("ab", FEW), str(tmp_path), 2).process(1, call)
    PartitionedJoin(query, dict.fromkeys("ab", FEW), str(tmp_path), 3).process(1, call)


@pytest.mark.parametrize("shed", ["harvest", "drop"])
def test_under_a_deadline_the_join_goes_on(tmp_path: Path, shed: str) -> None:
    query = wr.Query({x: wr.Stream("ts", "9 s") for x in "ab"}, "a.x = b.x", deadline="1 hour", shed=shed)
    exact = wr.Operator(wr.Query(query.streams, query.on), dict.fromkeys("ab", FEW))
    for number, partitions in enumerate((3, 3, 2, 4, 4)):
        call = {x: rows(*((n, number) for n in range(50))) for x in "ab"}
        join = PartitionedJoin(query, dict.fromkeys("ab", FEW), str(tmp_path), partitions)
        assert Counter(ids(join.process(number, call))) == outer_ids(exact.process(call))


def test_a_backlog_is_not_divided(tmp_path: Path) -> None:
    """It belongs to calls of the old partitions."""
    alone = wr.Query({x: wr.Stream("ts", "9 s") for x in "ab"}, "a.x = b.x")
    ((query, kind),) = shared({"q": alone}, dict.fromkeys("ab", FEW))
    join = PartitionedJoin(query, dict.fromkeys("ab", FEW), str(tmp_path), 2, kind=kind)
    join.process(0, {x: rows(*((n, 1) for n in range(50))) for x in "ab"})
    states = StoredVersion(open_storage(str(tmp_path)), "query/join").states()
    states[1].metadata["group"]["backlog"] = {"calls": [{"delivered": 0}]}
    moves = join.task.moves(join.task.layout, 0)
    with pytest.raises(wr.StateError, match="cannot be redistributed now: queries have a backlog"):
        redistributed_group(states, moves)
