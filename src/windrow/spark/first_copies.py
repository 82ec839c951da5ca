"""What a partition counts and keeps of the rows that arrived, before it processes them.

The layout may copy a row to several partitions. In counts of rows, and among the late rows that are kept,
only its first copy counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windrow.engine.late_rows import AHEAD, LATE, DroppedRows, late_rows_table
from windrow.engine.rows import RowReader, event_times
from windrow.engine.runner import JoinRunner
from windrow.model.query import Query
from windrow.planning.bound_query import BoundQuery
from windrow.spark.task_input import TaskInput

Array = np.ndarray


def first_copy_counts(
    query: Query, schemas: Sequence[pa.Schema], runner: JoinRunner, arrived: TaskInput
) -> dict[str, dict[str, int]]:
    """Counts of first copies, for streams whose rows are copied, and of files skipped; by name."""
    aliases = query.aliases
    bound = BoundQuery.of(query, schemas) if arrived.firsts else None
    found: dict[str, dict[str, int]] = {}
    for stream, (_, ahead) in arrived.ahead.items():
        if stream not in arrived.rows:
            found[aliases[stream]] = {"rows_in": ahead, "rows_ahead": ahead}
    for stream, firsts in arrived.firsts.items():
        rows, (_, ahead) = arrived.rows[stream], arrived.ahead.get(stream, (0, 0))
        timed, late = _timed_and_late(query, runner, stream, rows)
        assert bound is not None
        reader = RowReader(bound, stream)
        in_time = firsts & timed & ~late
        found[aliases[stream]] = {
            "rows_in": int(firsts.sum()) + ahead,
            "rows_ahead": ahead,
            "rows_late": int((firsts & late).sum()),
            "rows_null_time": int((firsts & ~timed).sum()),
            "rows_failed": reader.failed(rows.filter(pa.array(in_time))) if reader.may_fail else 0,
        }
    for stream, skipped in arrived.files_skipped.items():
        found.setdefault(aliases[stream], {})["files_skipped"] = skipped
    return found


def count_ahead(runner: JoinRunner, arrived: TaskInput) -> None:
    """Count the rows that were dropped on their way as too far ahead of the clock."""
    for stream, (rows, _) in arrived.ahead.items():
        for name in ("rows_in", "rows_ahead"):
            runner.counters.counts[name][stream] += rows


def dropped_for_time(
    query: Query, schemas: Sequence[pa.Schema], runner: JoinRunner, arrived: TaskInput
) -> pa.Table:
    """The rows that the micro-batch drops because of their time; first copies only."""
    dropped = []
    for stream, rows in arrived.rows.items():
        late = _timed_and_late(query, runner, stream, rows)[1] & arrived.firsts.get(stream, True)
        if late.any():
            earliest, origin = runner.watermarks.bound(stream)
            assert earliest is not None
            dropped.append(DroppedRows(stream, LATE, rows.filter(pa.array(late)), earliest, origin))
    allowed, now = query.head_start, arrived.clock
    if now is not None and allowed is not None:
        for stream, rows in arrived.ahead_rows.items():
            dropped.append(DroppedRows(stream, AHEAD, rows, now + allowed, now))
    return late_rows_table(query, schemas, dropped)


def _timed_and_late(
    query: Query, runner: JoinRunner, stream: int, rows: pa.RecordBatch
) -> tuple[Array, Array]:
    """Which rows have a time, and which are late."""
    column = rows.column(query.streams[query.aliases[stream]].time)
    timed = column.is_valid().to_numpy(zero_copy_only=False)
    earliest = runner.watermarks.watermark(stream)
    late = np.zeros(len(timed), np.bool_) if earliest is None else timed & (event_times(column) < earliest)
    return timed, late
