"""A join goes on with another number of partitions, or another layout, and its results stay exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import windrow as wr
from outer_cases import outer_ids
from partition_runs import PartitionedJoin, shared
from spark_cases import RescaledCase, drawn, outer_spark_cases, rescaled_cases, spark_cases
from windrow.model.execution import Execution
from windrow.spark.partition_join import JoinKind, SingleQuery
from windrow.spark.shared_partition import QUERY
from windrow.spark.stored_join import stored_joins

CASES = 30
REFUSED = "cannot be redistributed now"
KINDS = {
    "any": spark_cases(),
    "rows wait": spark_cases(counted=True, held_back=True),
    "outer": outer_spark_cases(),
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

    def start(self, partitions: int, partitioning: str | None, spread: Mapping[str, Any] | None) -> None:
        self.running = [
            PartitionedJoin(
                query, self.schemas, str(self.root), partitions, partitioning, spread, kind, f"join{number}"
            )
            for number, (query, kind) in enumerate(self.joins())
        ]

    def rescale(self, partitions: int, partitioning: str | None, spread: Mapping[str, Any] | None) -> None:
        """Beforehand, as the command does it. The next start may ask for the same layout, or another."""
        for join in stored_joins(str(self.root)):
            try:
                join.rescale(Execution(partitions, None, None, partitioning, spread), threads=1)
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
        first = (case.partitions, case.partitioning, case.spread)
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


@pytest.mark.parametrize("kind", KINDS)
def test_any_join_goes_on_in_any_layout(kind: str, tmp_path: Path) -> None:
    for number in range(CASES):
        case = drawn(number, rescaled_cases(KINDS[kind]))
        told = wrong(case, tmp_path / str(number))
        assert told is None, told
