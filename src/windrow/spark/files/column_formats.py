"""Files that store columns: parquet, ORC and Arrow IPC, read in pieces (row groups, stripes, record batches).

A reader yields tables with those of the wanted columns that the file has, under the file's names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po
import pyarrow.parquet as pq

from windrow.errors import DataError

PIECE_ROWS = 1 << 20
"""Maximum of rows in row groups that are read together."""


def in_file(wanted: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Wanted columns by their names in the file, which differ at most in case, as for Spark.

    >>> in_file(["id", "at", "x"], ["ID", "at", "AT"])
    {'ID': 'id', 'at': 'at'}
    """
    found: dict[str, str] = {}
    for name in wanted:
        alike = [name] if name in names else [n for n in names if n.lower() == name.lower()]
        if len(alike) > 1:
            raise DataError(f"columns {alike} differ only in case; rename one in the files")
        found |= {alike[0]: name} if alike else {}
    return found


def pieces_of_task(pieces: int, part: int, parts: int) -> range:
    """The pieces of a file that one of several tasks reads.

    >>> [list(pieces_of_task(5, part, 3)) for part in range(3)]
    [[0, 1], [2, 3], [4]]
    """
    first, end = (-(-k * pieces // parts) for k in (part, part + 1))
    return range(first, end)


def read_parquet(source: Any, wanted: Sequence[str], part: int, parts: int) -> Iterator[pa.Table]:
    # INT96, the timestamps of old writers, covers more years than nanoseconds do.
    file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
    names = list(in_file(wanted, file.schema_arrow.names))
    groups = pieces_of_task(file.num_row_groups, part, parts)
    sizes = [file.metadata.row_group(g).num_rows for g in groups]
    cuts, held = [0], 0
    for k, size in enumerate(sizes):
        if held and held + size > PIECE_ROWS:
            cuts.append(k)
            held = 0
        held += size
    for first, end in pairwise([*cuts, len(sizes)]):
        if first < end:
            yield file.read_row_groups(list(groups[first:end]), columns=names)


def read_orc(source: Any, wanted: Sequence[str], part: int, parts: int, zone: str) -> Iterator[pa.Table]:
    """`zone` is the time zone of Spark's Java: ORC stores the local time of instants."""
    file = po.ORCFile(source)
    names = list(in_file(wanted, file.schema.names))
    if not names:
        if part == 0 and file.nrows:
            yield _rows_without_columns(file.nrows)
        return
    for stripe in pieces_of_task(file.nstripes, part, parts):
        table = pa.Table.from_batches([file.read_stripe(stripe, columns=names)])
        yield table if zone in ("UTC", "Etc/UTC", "GMT") else _as_instants(table, zone)


def read_arrow(source: Any, wanted: Sequence[str], part: int, parts: int) -> Iterator[pa.Table]:
    """Arrow IPC, as a file or as a stream."""
    if _is_arrow_file(source):
        schema = pa.ipc.open_file(source).schema
        chosen = list(in_file(wanted, schema.names))
        options = pa.ipc.IpcReadOptions(included_fields=[schema.names.index(n) for n in chosen])
        source.seek(0)
        file = pa.ipc.open_file(source, options=options)
        batches = [file.get_batch(k) for k in pieces_of_task(file.num_record_batches, part, parts)]
    elif part > 0:
        return
    else:
        stream = pa.ipc.open_stream(source)
        chosen = list(in_file(wanted, stream.schema.names))
        batches = [batch.select(chosen) for batch in stream]
    for batch in batches:
        yield pa.Table.from_batches([batch]) if chosen else _rows_without_columns(batch.num_rows)


def arrow_schema(source: Any) -> pa.Schema:
    opened = (pa.ipc.open_file if _is_arrow_file(source) else pa.ipc.open_stream)(source)
    return opened.schema


def _is_arrow_file(source: Any) -> bool:
    """Whether this is Arrow's file format, and not its stream format."""
    head = source.read(6)
    source.seek(0)
    return bool(head == b"ARROW1")


def _as_instants(table: pa.Table, zone: str) -> pa.Table:
    for k, kind in enumerate(table.schema.types):
        if pa.types.is_timestamp(kind) and kind.tz is None:
            at = pc.assume_timezone(table.column(k), zone, ambiguous="earliest", nonexistent="latest")
            table = table.set_column(k, table.schema.names[k], at)
    return table


def _rows_without_columns(count: int) -> pa.Table:
    """A table with the right number of rows and no wanted column."""
    return pa.table({"": pa.nulls(count)})
