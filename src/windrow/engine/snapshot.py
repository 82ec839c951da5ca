"""Snapshots: an operator as bytes and back.

A blob is a magic word, a checksum, the length of a JSON head, the head, and Arrow streams: per stream its
live rows (payload, and for windows counted in rows their places in the order) and its waiting rows. Words and
indexes are computed anew, so the format does not depend on them.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windrow.engine.rows import event_times
from windrow.errors import StateError
from windrow.model.query import Query

if TYPE_CHECKING:
    from windrow.engine.join import Join
    from windrow.engine.operator import Operator

MAGIC = b"WINDROW1"
_DIGEST = 16


def fingerprint(query: Query) -> dict[str, Any]:
    """What must be the same for state to be used again. How the join is run may change."""
    return {
        "streams": [[a, s.time, str(s.window)] for a, s in query.streams.items()],
        "on": query.on,
        "late": query.late,
        "idle": query.idle,
    }


def save(op: Operator) -> bytes:
    tables: list[pa.Table | None] = []
    join = op._join
    for stream, waiting in enumerate(op._waiting):
        schema = op._schemas[stream]
        tables.append(None if join is None else _window_table(join, stream))
        if len(waiting):
            _, rows, calls = waiting.merged(schema)
            table = pa.Table.from_batches([rows])
            tables.append(table.append_column("\x00call", pa.array(calls)))
        else:
            tables.append(None if schema is None else schema.empty_table())
    parts = [b"" if t is None else _to_bytes(t) for t in tables]
    head = {
        "query": fingerprint(op.query),
        "calls": op._calls,
        "seq": op._seq,
        "newest": op._frontier.newest,
        "settled": op._frontier.settled,
        "tally": op._tally.to_json() | {"compared": op.measure().comparisons},
        "passes": op._expiry.passes,
        "open": join is not None,
        "counted": [_counted_json(join, s) for s in range(len(op._waiting))],
        "parts": [len(p) for p in parts],
    }
    text = json.dumps(head).encode()
    body = b"".join((len(text).to_bytes(8, "little"), text, *parts))
    return MAGIC + hashlib.blake2b(body, digest_size=_DIGEST).digest() + body


def load(cls: type[Operator], query: Query, blob: bytes) -> Operator:
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise StateError(f"expected the bytes of a snapshot, got {type(blob).__name__}")
    head, parts = _open(bytes(blob))
    if head["query"] != json.loads(json.dumps(fingerprint(query))):
        raise StateError(
            f"snapshot belongs to another query: {_difference(head['query'], fingerprint(query))}; "
            "restore it with the query it was taken from, or start without it"
        )
    op = cls(query)
    op._calls, op._seq = head["calls"], head["seq"]
    op._frontier.newest, op._frontier.settled = list(head["newest"]), head["settled"]
    tally = head["tally"]
    op._tally.counts = {name: list(v) for name, v in tally["counts"].items()}
    op._tally.results, op._tally.evaluations = tally["results"], tally["evaluations"]
    op._tally.compared_before = tally["compared"]
    op._expiry.passes = head["passes"]
    for stream in range(len(query.streams)):
        if parts[2 * stream + 1]:
            _load_waiting(op, stream, _from_bytes(parts[2 * stream + 1]))
    op._open()
    if head["open"] and op._join is not None:
        for stream in range(len(query.streams)):
            _load_counted(op._join, stream, head["counted"][stream])
            _load_window(op._join, stream, _from_bytes(parts[2 * stream]))
    return op


def _open(blob: bytes) -> tuple[dict[str, Any], list[bytes]]:
    start = len(MAGIC) + _DIGEST
    if blob[: len(MAGIC)] != MAGIC:
        raise StateError("this is not a Windrow snapshot, or of another version; take a fresh one")
    body = blob[start:]
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != blob[len(MAGIC) : start]:
        raise StateError("snapshot is damaged or cut off (checksum differs); use an earlier one")
    size = int.from_bytes(body[:8], "little")
    head = json.loads(body[8 : 8 + size])
    parts, at = [], 8 + size
    for length in head["parts"]:
        parts.append(body[at : at + length])
        at += length
    return head, parts


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    return "; ".join(f"{k} was {before.get(k)!r}, now {now[k]!r}" for k in now if before.get(k) != now[k])


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _from_bytes(part: bytes) -> pa.Table:
    return pa.ipc.open_stream(part).read_all()


def _extra_columns(join: Join, stream: int) -> range:
    """Numbers of the columns that cannot be computed from the payload."""
    window = join.windows[stream]
    return range(len(join.words[stream]), window.columns)


def _window_table(join: Join, stream: int) -> pa.Table:
    window = join.windows[stream]
    table = window.live_payload()
    for k in _extra_columns(join, stream):
        values = window.column(k)[window.first : window.end]
        table = table.append_column(f"\x00{k}", pa.array(values))
    return table


def _load_window(join: Join, stream: int, table: pa.Table) -> None:
    window = join.windows[stream]
    payload = table.select(join.schemas[stream].names).combine_chunks()
    if payload.num_rows == 0:
        return
    batch = payload.to_batches()[0]
    time = list(join.query.streams.values())[stream].time
    ts = event_times(batch.column(time))
    arrived = join.read(stream, ts, batch)
    extra = [table.column(f"\x00{k}").to_numpy() for k in _extra_columns(join, stream)]
    ascending = bool((ts[1:] >= ts[:-1]).all())
    window.append(ts, (*arrived.rows.words, *extra), batch, ascending)


def _load_waiting(op: Operator, stream: int, table: pa.Table) -> None:
    names = [n for n in table.schema.names if n != "\x00call"]
    rows = table.select(names)
    op._schemas[stream] = rows.schema.remove_metadata()
    if rows.num_rows:
        batch = rows.combine_chunks().to_batches()[0]
        time = list(op.query.streams.values())[stream].time
        calls = np.asarray(table.column("\x00call").to_numpy())
        op._waiting[stream].add(event_times(batch.column(time)), batch, calls)


def _counted_json(join: Join | None, stream: int) -> dict[str, Any] | None:
    counted = join.counted[stream] if join else None
    if counted is None:
        return None
    return {
        "total": counted.total,
        "keys": counted.keys.keys.tolist(),
        "counts": counted.keys.counts.tolist(),
    }


def _load_counted(join: Join, stream: int, state: dict[str, Any] | None) -> None:
    counted = join.counted[stream]
    if counted is not None and state is not None:
        counted.load(state["total"], np.array(state["keys"], np.int64), np.array(state["counts"], np.int64))
