"""Source partitions: the partitions that a stream was read from, such as those of a Kafka topic.

A column of the stream names the source partition of each row. Null is a source partition of its own, as in
GROUP BY. Partitions are known by their value as text, which fits JSON and is the same in every process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.types as pat

from windrow.engine.rows import event_times
from windrow.errors import DataError, Option, unknown
from windrow.model.query import Stream

PartitionTimes = dict[str | None, int]
"""Max event time by source partition."""


def check_source_partition(alias: str, schema: pa.Schema, name: str | None) -> None:
    if name is None:
        return
    place = Option("source_partition", stream=alias)
    if name not in schema.names:
        raise DataError(unknown("column", name, schema.names), place)
    kind = schema.field(name).type
    if not (pat.is_integer(kind) or pat.is_string(kind) or pat.is_large_string(kind) or pat.is_boolean(kind)):
        raise DataError(
            f"column '{name}' must hold whole numbers or text, got {kind}; cast it to text", place
        )


def newest_by_partition(rows: pa.RecordBatch, stream: Stream) -> PartitionTimes:
    """The newest time of each source partition among rows of a stream."""
    columns = {"partition": rows.column(stream.source_partition), "ts": event_times(rows.column(stream.time))}
    newest = pa.table(columns).group_by("partition").aggregate([("ts", "max")])
    names = newest.column("partition").cast(pa.string()).to_pylist()
    return dict(zip(names, newest.column("ts_max").to_pylist(), strict=True))


def latest(several: Iterable[Mapping[str | None, int]]) -> PartitionTimes:
    """The newest time of each source partition that any of several has seen."""
    found: PartitionTimes = {}
    for times in several:
        for partition, time in times.items():
            found[partition] = max(time, found.get(partition, time))
    return found
