"""The operator: tables in, results out, in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from windrow.engine.control import apply_control
from windrow.engine.runner import JoinRunner
from windrow.engine.snapshot import pack, unpack
from windrow.engine.state import capture, restore
from windrow.engine.threads import Threads
from windrow.errors import Option, QueryError
from windrow.memory_models.allocation import RecallCurve
from windrow.model.keywords import checks_keywords
from windrow.model.learned_models import LearnedModels
from windrow.model.metrics import OperatorMetrics
from windrow.model.plan import Plan
from windrow.model.query import Query


@checks_keywords("wr.Operator")
class Operator:
    """A window join that runs in this process.

    Parameters
    ----------
    query
        What to join.
    schemas
        Alias to pyarrow schema, if known in advance; mistakes in the query are then found here. Otherwise
        the first rows of a stream define its schema.
    clock
        Seconds from an arbitrary origin, for deadlines; by default the machine's.
    threads
        Number of threads that join the rows of a call. They help from some thousand rows per stream and call
        on. The exact answer does not depend on them, only its order does; nor does the order on which thread
        is faster. Functions of the query run on any of them. Not with a deadline.
    spill_directory
        A directory on a local disk where windows spill to, if the query has `disk`; by default the system's
        directory for temporary files.

    Examples
    --------
    >>> import pyarrow as pa, windrow as wr
    >>> query = wr.Query({"a": wr.Stream("ts", "5 s"), "b": wr.Stream("ts", "5 s")}, on="a.k = b.k")
    >>> rows = pa.table({"ts": pa.array([0, 9_000_000], pa.timestamp("us")), "k": [1, 1]})
    >>> wr.Operator(query).process({"a": rows, "b": rows}).num_rows
    2
    """

    def __init__(
        self,
        query: Query,
        schemas: Mapping[str, pa.Schema] | None = None,
        clock: Callable[[], float] | None = None,
        threads: int = 1,
        spill_directory: str | None = None,
    ) -> None:
        if not isinstance(query, Query):
            raise QueryError(f"expected wr.Query(streams, on=...), got {query!r}", Option("query"))
        if threads != 1 and query.time_limit is not None:
            raise QueryError(
                f"a call with a deadline runs on one thread, whose work it measures, got {threads!r}; "
                "leave out threads, or the deadline",
                Option("threads"),
            )
        self._runner = JoinRunner(
            query, schemas, clock, threads=Threads(threads), spill_directory=spill_directory
        )

    @property
    def query(self) -> Query:
        return self._runner.query

    def process(
        self,
        data: Mapping[str, pa.Table | pa.RecordBatch],
        seconds: float | None = None,
        now: int | None = None,
    ) -> pa.Table:
        """Join new rows of any streams, in any order, and return the results they complete.

        `seconds` is the time limit of this call, by default the query's deadline. `now` is the current time
        in microseconds since 1970, which rows may be `ahead` of.

        Returns a table with a struct column per stream. Rows that are late, have no time, or are too far
        ahead of `now` are dropped and counted.
        """
        if not isinstance(data, Mapping):
            raise QueryError(
                f"expected tables by alias: process({{'{self.query.aliases[0]}': table}}), "
                f"got {type(data).__name__}",
                Option("data"),
            )
        return self._runner.process(data, seconds, now)

    def late_rows(self) -> pa.Table:
        """The rows that the last call dropped because they were late or too far ahead, with the reason:
        columns `stream`, `reason`, `event_time`, `watermark`, `needed_seconds` (the `late` or `ahead` that
        would have kept the row), and a struct column per stream with the row itself."""
        return self._runner.late_rows()

    def __repr__(self) -> str:
        return f"Operator({self.query!r}: {self._runner.counters.sub_batches:,} sub-batches so far)"

    def _repr_html_(self) -> str:
        return f"{self.query._repr_html_()}{self.metrics()._repr_html_()}"

    def finish(self) -> pa.Table:
        """Declare that no row earlier than those seen will arrive, and return the results that waited for
        this.

        Only a query with row windows and with `late` holds rows back. In an outer, semi, anti or as-of join
        it declares the end of all streams: everything that waits is decided, and any later row is late.
        """
        return self._runner.finish()

    @property
    def plan(self) -> Plan | None:
        """The current plan; None until all schemas are known."""
        return self._runner.plan

    def metrics(self) -> OperatorMetrics:
        """Counters and sizes, for the whole operator and per stream."""
        return self._runner.metrics()

    def forecast(self) -> RecallCurve | None:
        """Expected recall by memory, from what has been learned so far.

        None without a memory limit, and for policies that have no model of it.
        """
        return self._runner.forecast()

    def learned_models(self) -> LearnedModels:
        """The learned models (age curves, lags, the harvest), and the plan."""
        return self._runner.learned_models()

    def control(self, message: str | Mapping[str, Any]) -> None:
        """Change how the query runs, from a given event time on. A refused message changes nothing.

        Parameters
        ----------
        message
            A mapping, or JSON: {"at": "2026-01-31T12:00:00Z", "importance": {"b": "b.price * 2"}}. `at` is an
            event time, as text or in microseconds since 1970; `importance` is as in `Importance(by=...)`.
            Or {"event_time": {"b": "2026-01-31T12:00:00Z"}}: sets the stream back to this event time, after a
            wrong row has advanced it too far. Rows that were dropped as late stay dropped.
        """
        apply_control(self._runner, message)

    def snapshot(self) -> bytes:
        """The operator's whole state as bytes for `restore`."""
        self._runner.check_usable()
        return pack(capture(self._runner))

    @classmethod
    @checks_keywords("wr.Operator.restore")
    def restore(
        cls,
        query: Query,
        blob: bytes,
        clock: Callable[[], float] | None = None,
        schemas: Mapping[str, pa.Schema] | None = None,
        threads: int = 1,
        spill_directory: str | None = None,
    ) -> Operator:
        """Resume where the operator that wrote `blob` stopped.

        The query may differ in `within`, `late`, `idle`, limits, policies, and in how it runs, and so may the
        number of threads and the directory that windows spill to. `schemas` are the streams' columns from now
        on, if they have changed: a new column is null in rows already held. What cannot change is refused.
        """
        operator = cls(query, schemas, clock, threads, spill_directory)
        restore(operator._runner, unpack(blob))
        return operator


def runner_of(operator: Operator) -> JoinRunner:
    """The join that an operator runs, for other parts of Windrow. Users see it only through the operator."""
    return operator._runner
