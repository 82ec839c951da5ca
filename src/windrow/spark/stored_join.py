"""A join as its stored state describes it, for tools that redistribute or export rows without its query.

Everything that decides where a row lies is fixed and therefore stored: the streams' columns and times, the
predicate and the kind of join. Only functions are not: a predicate that calls one cannot be evaluated here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from windrow.engine.redistribution import old_ranks, redistributed
from windrow.engine.shared.redistribution import redistributed_group
from windrow.engine.state import CALL, State, StoredState
from windrow.errors import QueryError, StateError
from windrow.model.execution import Execution
from windrow.model.query import Query, Stream, Window
from windrow.planning.bound_query import BoundQuery
from windrow.spark.files.places import PlaceFinder
from windrow.spark.frames import StreamTypes
from windrow.spark.layout_encoding import stored_layout
from windrow.spark.partitioning import PartitionLayout, choose_layout
from windrow.spark.redistribution import LayoutMoves, layout_moves
from windrow.spark.routing import in_spark, place_finder
from windrow.state.inspect import joins_in
from windrow.state.layout import StoredLayout
from windrow.state.paths import JoinId, plain
from windrow.state.rescale import Rescale, StoredVersion
from windrow.state.storage import Storage, open_storage


@dataclass(frozen=True)
class Rescaled:
    """What became of a join."""

    query: str
    join: str
    batch: int
    before: int
    """Partitions before."""
    partitions: int
    layout: str
    changed: bool
    """False if the state had this layout."""


class StoredJoin:
    def __init__(self, root: Storage, directory: str) -> None:
        self.query_id, self.name = (plain(name) for name in directory.split("/"))
        self.stored = StoredVersion(root, directory)

    @cached_property
    def states(self) -> list[State]:
        return self.stored.states()

    @cached_property
    def bound(self) -> BoundQuery:
        saved = self.states[0].metadata["query"]
        streams = {
            alias: Stream(fixed["time"], Window(*saved["within"][alias]), None, fixed["source_partition"])
            for alias, fixed in saved["streams"].items()
        }
        try:
            query = Query(
                streams,
                saved["on"],
                how=saved["how"],
                match=saved["match"],
                nan=saved["nan"],
                allow_cross_join=True,
            )
            return BoundQuery.of(query, self._schemas)
        except QueryError as error:
            raise StateError(
                f"join '{self.name}' of query {self.query_id} cannot be laid out without the program that "
                f"runs it: {error}. Restart the query with the partitions you want: this does the same"
            ) from error

    @cached_property
    def _schemas(self) -> list[pa.Schema]:
        schemas = [stream.schema for stream in StoredState(self.states[0]).streams]
        assert None not in schemas, "on Spark, columns are known before the first row"
        return schemas

    def _finders(self, layout: PartitionLayout) -> list[PlaceFinder]:
        return [place_finder(self.bound, layout, types, stream) for stream, types in enumerate(self._types)]

    @property
    def _types(self) -> list[StreamTypes]:
        return [StreamTypes.of_schema(schema) for schema in self._schemas]

    def rescale(self, execution: Execution, threads: int) -> Rescaled:
        chosen = (execution.partitions or 1, execution.partitioning, execution.skewed)
        layout = in_spark(choose_layout(self.bound, *chosen), self._types)
        after = stored_layout(layout)
        before = self.stored.layout
        changed = before != after
        if changed:
            self._move(after, self._finders(layout), threads)
        counts = (self.stored.version.batch, before.partitions, layout.partitions)
        return Rescaled(self.query_id, self.name, *counts, str(layout), changed)

    def _move(self, after: StoredLayout, finders: Sequence[PlaceFinder], threads: int) -> None:
        whole = redistributed_group if "group" in self.states[0].metadata else redistributed
        rescale, before = Rescale(self.stored, after), self.stored.layout

        def build(partition: int) -> None:
            rescale.build(partition, whole(self.states, layout_moves(self.bound, finders, before, partition)))

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(build, range(after.partitions)))
        rescale.finish()

    def export(self, target: Storage) -> dict[str, int]:
        """Write the rows that are held to `<query id>/<join>/<stream>/p<partition>.parquet`; return how many
        there are of each stream."""
        directory = JoinId(self.query_id, self.name).directory
        if target.names(directory):
            raise StateError(f"{target.at(directory)} is not empty; give a new directory")
        counts: dict[str, int] = {}
        for partition, alias, rows in self.rows():
            counts[alias] = counts.get(alias, 0) + rows.num_rows
            sink = pa.BufferOutputStream()
            pq.write_table(rows, sink)
            path = f"{directory}/{quote(alias)}/p{partition}.parquet"
            with target.commit(f"the rows of stream '{alias}'", path) as commit:
                commit.open(path).write(sink.getvalue())
        return counts

    def rows(self) -> Iterator[tuple[int, str, pa.Table]]:
        """(partition, stream, rows that are held) of all partitions; each row once, even if it is copied."""
        moves = self._moves_to_one() if self.stored.layout.may_copy else None
        stored = [StoredState(state) for state in self.states]
        for partition, state in enumerate(stored):
            aliases = state.head["query"]["streams"]
            for stream, (alias, held) in enumerate(zip(aliases, state.streams, strict=True)):
                assert held.schema is not None
                segments = [payload.rows for payload in held.segments]
                window = pa.Table.from_batches(segments, held.schema).slice(held.skip)
                buffered = [pa.Table.from_batches([batch.drop_columns(CALL)]) for batch in held.buffered]
                rows = pa.concat_tables([window, *buffered]).combine_chunks()
                if moves is not None and rows.num_rows:
                    ranks = old_ranks(stored, stream)
                    given = [moves.rows(partition, stream, b, ranks)[1] for b in rows.to_batches()]
                    rows = rows.filter(pa.array(np.concatenate(given)))
                yield partition, alias, rows

    def _moves_to_one(self) -> LayoutMoves:
        one = PartitionLayout(self.bound.query.aliases, 1, ())
        return layout_moves(self.bound, self._finders(one), self.stored.layout, 0)


def stored_joins(path: str | Storage, query: str | None = None, join: str | None = None) -> list[StoredJoin]:
    """The joins under a state path: all, or those of one query or name."""
    root = open_storage(path)
    named = ((directory, [plain(name) for name in directory.split("/")]) for directory in joins_in(root))
    return [
        StoredJoin(root, directory)
        for directory, (of, name) in named
        if query in (None, of) and join in (None, name)
    ]
