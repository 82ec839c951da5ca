"""Feeds tables to a join step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from windrow.engine.operator import Operator
from windrow.errors import Option, QueryError
from windrow.model.metrics import OperatorMetrics
from windrow.model.query import Query


class StreamPlayer:
    """Feeds a query in steps, like micro-batches, and keeps the results.

    Examples
    --------
    >>> import windrow as wr
    >>> query = wr.Query({"a": wr.Stream("at", "5 s"), "b": wr.Stream("at", "5 s")}, on="a.k = b.k")
    >>> player = StreamPlayer(query)
    >>> player.feed(a=wr.testing.table("at k; 0 1")).num_rows
    0
    >>> player.restart()
    >>> player.feed(b=wr.testing.table("at k; 3 1")).num_rows
    1
    >>> wr.testing.assert_same_rows(player.finish(), wr.testing.exact_answer(query, *player.steps))
    """

    def __init__(self, query: Query) -> None:
        self.query = query
        self.steps: list[dict[str, pa.Table]] = []
        """The input of each step, as `exact_answer` expects it."""
        self._operator = Operator(query)
        self._results: list[pa.Table] = []

    def feed(self, **tables: pa.Table) -> pa.Table:
        """Process one step of tables by alias. Returns its results."""
        self.steps.append(tables)
        self._results.append(self._operator.process(tables))
        return self._results[-1]

    def restart(self) -> None:
        """Restore the join from a snapshot, as after a crash."""
        self._operator = Operator.restore(self.query, self._operator.snapshot())

    def finish(self) -> pa.Table:
        """End the streams. Returns all results since the start."""
        whole = [*self._results, self._operator.finish()]
        # Results before all schemas are known have columns without a type.
        return pa.concat_tables([part for part in whole if part.num_rows] or whole[-1:])

    def metrics(self) -> OperatorMetrics:
        return self._operator.metrics()


def in_steps(query: Query, tables: Mapping[str, pa.Table], rows: int) -> Iterator[dict[str, pa.Table]]:
    """Divide tables into steps of `rows` rows of all streams together, in order of event time.

    >>> import windrow as wr
    >>> query = wr.Query({"a": wr.Stream("at", "5 s"), "b": wr.Stream("at", "5 s")}, on="a.k = b.k")
    >>> a, b = wr.testing.table("at k; 0 1; 4 1"), wr.testing.table("at k; 3 1")
    >>> [{alias: t.num_rows for alias, t in step.items()} for step in in_steps(query, {"a": a, "b": b}, 2)]
    [{'a': 1, 'b': 1}, {'a': 1}]
    """
    if rows < 1:
        raise QueryError(f"must be at least 1, got {rows}", Option("rows"))
    parts = [
        pa.table(
            {
                "time": rows_of.column(query.streams[alias].time),
                "stream": pa.array([k] * len(rows_of), pa.int64()),
                "number": pa.array(range(len(rows_of)), pa.int64()),
            }
        )
        for k, (alias, rows_of) in enumerate(tables.items())
    ]
    order = pa.concat_tables(parts).sort_by([("time", "ascending"), ("stream", "ascending")])
    for start in range(0, len(order), rows):
        step = order.slice(start, rows)
        taken = {a: step.filter(pc.equal(step.column("stream"), k)) for k, a in enumerate(tables)}
        yield {a: tables[a].take(own.column("number")) for a, own in taken.items() if len(own)}
