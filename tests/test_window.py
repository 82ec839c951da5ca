"""Windows: what is in them after appends, expiry and rewriting, and that they stay small."""

import numpy as np
import pyarrow as pa
import pytest

from windrow.window.gather import Chunk, RowLocations, gather
from windrow.window.window_store import WindowStore

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])
SECOND = 1_000_000


def batch(numbers) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(list(numbers), pa.int64()), [f"row {n}" for n in numbers]], schema=SCHEMA
    )


def make(span: int | None = 10 * SECOND, **index) -> WindowStore:
    window = WindowStore(SCHEMA, {"k": np.int64}, span)
    window.index(index.get("by_hash", {}), index.get("by_range", ()))
    return window


def live(window: WindowStore) -> list[int]:
    return window.gather(np.arange(window.first, window.end), ["n"])[0].to_pylist()


def append(window: WindowStore, ts, columns, payload: pa.RecordBatch) -> None:
    window.stage(ts, columns, payload)
    window.add_staged()


def fill(window: WindowStore, start: int, count: int, step: int = SECOND) -> None:
    numbers = np.arange(start, start + count)
    append(window, numbers * step, {"k": numbers % 7}, batch(numbers))


def test_rows_come_out_as_they_went_in():
    window = make()
    for start in range(0, 1000, 10):
        fill(window, start, 10)
    assert live(window) == list(range(1000))
    assert window.gather(np.array([3, 999, 3]), ["s"])[0].to_pylist() == ["row 3", "row 999", "row 3"]


def test_expiry_keeps_a_row_exactly_as_old_as_the_horizon():
    window = make()
    fill(window, 0, 100)
    assert window.expire(40 * SECOND) == 40
    assert live(window) == list(range(40, 100))
    assert window.expire(40 * SECOND) == 0


def test_late_rows_are_kept_while_older_positions_live():
    window = make()
    fill(window, 0, 10)
    fill(window, 5, 3)
    assert not window.ordered
    window.expire(6 * SECOND)
    assert live(window) == [6, 7, 8, 9, 5, 6, 7]
    window.expire(20 * SECOND)
    fill(window, 20, 5)
    assert window.ordered and live(window) == [20, 21, 22, 23, 24]


@pytest.mark.parametrize("by_hash", [{}, {("k",): None}, {("k",): 3}])
@pytest.mark.parametrize("by_range", [(), ("k",)])
def test_a_long_run_of_small_batches_neither_grows_nor_forgets(by_hash, by_range):
    window = make(by_hash=by_hash, by_range=by_range)
    sizes, segments = [], []
    for k in range(1000):
        fill(window, k * 10, 10, SECOND // 10)
        window.expire((k * 10 + 9) * SECOND // 10 - 10 * SECOND)
        sizes.append(window.nbytes)
        segments.append(len(window.segments))
    assert live(window) == list(range(9899, 10_000))
    assert max(segments) <= 20
    assert max(sizes[500:]) <= max(sizes[100:500])


def test_chains_hold_every_live_row_of_a_bucket_newest_first():
    window = make(by_hash={("k",): None})
    for start in range(0, 5000, 50):
        fill(window, start, 50, SECOND // 20)
        window.expire((start - 300) * SECOND // 20)
    index = window.indexes[("k",)]
    found = []
    for head in index.head:
        chain = []
        while head >= window.first:
            chain.append(int(head))
            head -= index.back[head]
        assert chain == sorted(chain, reverse=True)
        found += chain
    assert sorted(found) == list(range(window.first, window.end))


def test_keep_rewrites_rows_and_indexes():
    window = make(by_hash={("k",): None}, by_range=("k",))
    fill(window, 0, 100)
    window.expire(20 * SECOND)
    window.keep(np.arange(80) % 2 == 0)
    assert live(window) == list(range(20, 100, 2))
    assert sum(s.rows for s in window.segments) == len(window)
    window.keep(np.zeros(40, bool))
    fill(window, 200, 3)
    assert live(window) == [200, 201, 202]


def test_indexes_can_come_and_go_while_rows_are_held():
    window = make()
    fill(window, 0, 100)
    window.expire(30 * SECOND)
    window.index({("k",): None}, ("k",))
    assert all("k" in s.runs for s in window.segments)
    window.index({}, ())
    assert not window.indexes and not any(s.runs for s in window.segments)
    assert live(window) == list(range(30, 100))


COLUMNS = {
    "numbers": pa.array([3, 1, 4, 1, 5, 9], pa.int16()),
    "numbers and nulls": pa.array([3, None, 4, 1, None, 9]),
    "texts": pa.array(["", "a", "some longer text", "b", "eight888", "c"]),
    "texts and nulls": pa.array(["", None, "x", "b", None, "c"]),
    "bytes": pa.array([b"", b"\0\1", b"x", b"", b"y", b"z"]),
    "large texts": pa.array(list("abcdef"), pa.large_string()),
    "truths": pa.array([True, False, True, True, False, False]),
    "decimals": pa.array([3, 1, 4, 1, 5, 9], pa.decimal128(9, 2)),
    "lists": pa.array([[1], [], None, [2, 3], [4], [5]]),
}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("segments", [1, 2, 3])
def test_rows_that_stay_keep_their_payload(kind, segments):
    values = COLUMNS[kind]
    window = WindowStore(pa.schema([("v", values.type)]), {"k": np.int64}, None)
    for start in range(0, 6, 6 // segments):
        part = pa.record_batch({"v": values.slice(start, 6 // segments)})
        append(window, np.arange(len(part)) + start, {"k": np.arange(len(part))}, part)
    for alive in ([1, 0, 1, 1, 0, 1], [0, 1, 1, 0], [1, 1], [0, 0]):
        values = values.filter(pa.array(np.array(alive, bool)))
        window.keep(np.array(alive, bool))
        assert window.live_payload()["v"].to_pylist() == values.to_pylist()
        window.live_payload().validate(full=True)


def test_a_slice_of_a_large_table_does_not_keep_the_table():
    rows = batch(range(100_000))
    window = make()
    append(window, np.arange(10) * SECOND, {"k": np.arange(10)}, rows.slice(500, 10))
    assert window.segments[0].payload.get_total_buffer_size() < 10_000


def test_bytes_that_are_held_are_counted():
    """A window that held slices of twice their size would take twice what it says."""
    window = make(5_000 * SECOND)
    for call in range(4):
        rows = batch(range(1_000))
        append(window, (call * 1_000 + np.arange(600)) * SECOND, {"k": np.arange(600)}, rows.slice(0, 600))
    held = sum(segment.payload.get_total_buffer_size() for segment in window.segments)
    assert held < 1.15 * sum(segment.payload.nbytes for segment in window.segments)


VALUES = {
    "int8": [1, None, 3, -4],
    "int16": [1, None, 3, -4],
    "int32": [1, None, 3, -4],
    "float": [1.5, None, 3.0, -4.0],
    "double": [1.5, None, 3.0, -4.0],
    "bool": [True, None, False, True],
    "string": ["", None, "a", "longer than eight bytes"],
    "large_string": ["", None, "abcd", "longer than eight bytes"],
    "binary": [b"", None, b"12345678", b"1"],
    "date32": [0, None, 5, 6],
    "timestamp[ns]": [0, None, 5, 6],
    "decimal128": [1, None, 3, 4],
    "list": [[1], None, [], [1, 2]],
    "struct": [{"x": 1}, None, {"x": None}, {"x": 4}],
}
KINDS = {
    "float": pa.float32(),
    "timestamp[ns]": pa.timestamp("ns"),
    "decimal128": pa.decimal128(30, 2),
    "list": pa.list_(pa.int64()),
    "struct": pa.struct([("x", pa.int64())]),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("nulls", [True, False])
def test_gather_takes_any_type_from_any_segment(name, nulls):
    kind = KINDS.get(name) or pa.type_for_alias(name)
    values = [v for v in VALUES[name] if nulls or v is not None]
    one = pa.array([*values, *values], kind)
    chunks = [one.slice(1, 3), one, one.slice(2)]
    starts = np.cumsum([0, *map(len, chunks)])
    positions = np.random.default_rng(0).integers(0, starts[-1], 100)
    expected = pa.concat_arrays(chunks).take(pa.array(positions))
    numbers = pa.array(range(starts[-1]))
    beside = [numbers.slice(start, len(chunk)) for start, chunk in zip(starts, chunks, strict=False)]
    columns = [list(map(Chunk, chunks)), list(map(Chunk, beside)), list(map(Chunk, chunks))]
    one, places, other = gather(columns, RowLocations(positions, starts))
    for found in (one, other):
        found.validate(full=True)
        assert found.equals(expected)
    assert places.to_pylist() == positions.tolist()
    assert gather(columns, RowLocations(positions[:0], starts))[0].type == kind
