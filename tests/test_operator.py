"""What a user of the operator notices besides the answer: shapes of input and output, calls, counters."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import results
import windrow as wr
from queries import play, tiny
from results import ids


def query(within: str = "5 seconds", on: str = "a.k = b.k", **options) -> wr.Query:
    return wr.Query({alias: wr.Stream("ts", within) for alias in "ab"}, on, **options)


A = tiny([0, 1, 2], k=[1, 2, 1], note=["p", "q", "r"])
B = tiny([1, 2, 9], k=[1, 1, 1], price=[1.5, 2.5, 3.5])
ANSWER = Counter([(0, 0), (0, 1), (2, 0), (2, 1)])


def test_the_output_has_a_struct_per_stream_in_the_order_of_the_query() -> None:
    out = wr.Operator(query()).process({"b": B, "a": A})
    assert out.column_names == ["a", "b"]
    assert out.schema.field("a").type == pa.struct(list(A.schema))
    assert out.schema.field("b").type == pa.struct(list(B.schema))
    assert ids(out) == ANSWER
    results.assert_payload(out, {"a": A, "b": B})
    out.validate(full=True)


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_stream_may_be_missing_from_a_call(first: str) -> None:
    op = wr.Operator(query())
    tables = {"a": A, "b": B}
    out = op.process({first: tables.pop(first)})
    assert out.num_rows == 0
    assert out.column_names == ["a", "b"]
    assert ids(op.process(tables)) == ANSWER


def test_calls_without_anything() -> None:
    op = wr.Operator(query())
    assert op.process({}).num_rows == 0
    op.process({"a": A})
    assert op.process({}).column_names == ["a", "b"]
    assert ids(op.process({"b": B})) == ANSWER
    assert op.process({}).num_rows == 0
    assert op.finish().num_rows == 0
    assert op.metrics().results == 4


def test_empty_tables() -> None:
    op = wr.Operator(query())
    out = op.process({"a": A.slice(0, 0), "b": B.slice(0, 0)})
    assert out.num_rows == 0
    assert out.schema.field("a").type == pa.struct(list(A.schema))
    op.process({"a": A, "b": B.slice(0, 0)})
    assert ids(op.process({"a": A.slice(3), "b": B})) == ANSWER


def test_a_table_without_chunks() -> None:
    empty = A.schema.empty_table()
    assert wr.Operator(query()).process({"a": empty, "b": B}).num_rows == 0


def test_record_batches_instead_of_tables() -> None:
    got = play(query(), {"a": A.to_batches()[0], "b": B.to_batches()[0]})
    assert got == ANSWER


def test_slices_and_chunks() -> None:
    """Slices share buffers with an offset; a chunked table has several arrays per column."""
    padded = pa.concat_tables([A.slice(1, 1), A, A.slice(0, 1)]).combine_chunks().slice(1, 3)
    chunked = pa.concat_tables([B.slice(0, 1), B.slice(1, 0), B.slice(1, 1), B.slice(2)])
    assert chunked.column("k").num_chunks > 1
    assert play(query(), {"a": padded, "b": chunked}) == ANSWER
    assert play(query(), {"a": padded.to_batches()[0], "b": chunked}) == ANSWER


def test_sliced_strings_lists_booleans_and_structs_as_payload_and_key() -> None:
    n = 20
    table = tiny(
        [0] * n,
        s=[f"text {i}" for i in range(n)],
        flag=[i % 3 == 0 for i in range(n)],
        items=[[i] * (i % 4) for i in range(n)],
        nested=[{"u": i, "v": [str(i)]} if i % 5 else None for i in range(n)],
    )
    part = table.slice(7, 9)
    out = wr.Operator(query(on="a.s = b.s and a.flag = b.flag")).process({"a": part, "b": table})
    assert ids(out) == Counter((i, i) for i in range(7, 16))
    results.assert_payload(out, {"a": table, "b": table})


@pytest.mark.parametrize(
    "other",
    [
        A.drop_columns(["note"]),
        A.append_column("extra", pa.array([1, 2, 3])),
        A.set_column(2, "k", pa.array([1.0, 2.0, 1.0])),
        A.rename_columns(["id", "ts", "kk", "note"]),
    ],
    ids=["missing", "extra", "other type", "renamed"],
)
def test_a_change_of_schema_is_refused(other: pa.Table) -> None:
    op = wr.Operator(query())
    op.process({"a": A, "b": B})
    with pytest.raises(wr.DataError, match="'a'"):
        op.process({"a": other})
    assert ids(op.process({"b": B.slice(2)})) == Counter()  # goes on as before
    assert op.metrics().rows_in == 7


def test_metadata_is_no_change_of_schema() -> None:
    op = wr.Operator(query(late="10 seconds"))
    op.process({"a": A, "b": B})
    op.process({"a": A.replace_schema_metadata({"from": "elsewhere"})})
    assert op.metrics().rows_in == 9


def test_schemas_may_be_given_beforehand() -> None:
    op = wr.Operator(query(), schemas={"a": A.schema, "b": B.schema})
    out = op.process({"a": A})
    assert out.schema.field("b").type == pa.struct(list(B.schema))
    assert ids(op.process({"b": B})) == ANSWER


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_every_kind_of_timestamp(unit: str, zone: str | None) -> None:
    """Seconds to nanoseconds, with or without zone, before 1970: the same answer and the type kept."""
    kind = pa.timestamp(unit, zone)

    def at(*seconds: int) -> pa.Table:
        times = (
            pa.array([s - 3 for s in seconds], pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp(unit))
        )
        stamps = times.cast(pa.int64()).cast(kind)
        return pa.table({"id": range(len(seconds)), "ts": stamps, "k": [1] * len(seconds)})

    a, b = at(0, 4, 20), at(5, 10, 26)
    out = wr.Operator(query()).process({"a": a, "b": b})
    assert ids(out) == Counter([(0, 0), (1, 0)])
    results.assert_payload(out, {"a": a, "b": b})


def test_streams_of_different_units_and_zones() -> None:
    noon = datetime(2024, 7, 1, 12, tzinfo=UTC)
    a = pa.table({"id": [0], "ts": pa.array([noon], pa.timestamp("s", "UTC")), "k": [1]})
    b = pa.table(
        {
            "id": [0, 1],
            "ts": pa.array([noon + timedelta(seconds=n) for n in (5, 6)], pa.timestamp("ns", "Asia/Tokyo")),
        }
        | {"k": [1, 1]}
    )
    assert play(query(), {"a": a, "b": b}) == Counter([(0, 0)])


def test_nanoseconds_count_as_whole_microseconds() -> None:
    """Time inside is microseconds, rounded down, also before 1970."""

    def at(nanos: int) -> pa.Table:
        return pa.table({"id": [0], "ts": pa.array([nanos], pa.timestamp("ns")), "k": [1]})

    assert play(query("1 us"), {"a": at(-1), "b": at(999)}) == Counter([(0, 0)])  # -1 us and 0 us
    assert play(query("1 us"), {"a": at(-1), "b": at(1000)}) == Counter()  # -1 us and 1 us


def test_dictionary_columns() -> None:
    a = tiny([0, 0, 0], k=pa.array(["x", "y", None]).dictionary_encode(), note=["p", "q", "r"])
    b = tiny([0, 0], k=pa.array(["y", "z"]).dictionary_encode())
    op = wr.Operator(query())
    out = op.process({"a": a, "b": b})
    assert ids(out) == Counter([(1, 0)])
    assert out.column("a").to_pylist()[0]["k"] == "y"
    other_dictionary = tiny([1], k=pa.array(["w", "x"]).dictionary_encode().slice(1))
    assert ids(op.process({"b": other_dictionary})) == Counter([(0, 0)])


def test_nested_payload_columns() -> None:
    deep = pa.list_(pa.struct({"name": pa.string(), "tags": pa.list_(pa.string())}))
    a = tiny(
        [0, 1, 2],
        k=[1, 2, 3],
        items=pa.array([[{"name": "n", "tags": ["t", None]}], None, []], deep),
        props=pa.array([[("x", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        fixed=pa.array([[1, 2], [3, 4], None], pa.list_(pa.int16(), 2)),
        half=pa.array([1.5, None, 2.5], pa.float32()),
        clock=pa.array([1, 2, None], pa.time64("us")),
        span=pa.array([1, None, 3], pa.duration("ms")),
        nothing=pa.nulls(3),
    )
    b = tiny([0, 1, 2], k=[3, 1, 2])
    op = wr.Operator(query())
    out = pa.concat_tables([op.process({"a": a}), op.process({"b": b})], promote_options="permissive")
    assert ids(out) == Counter([(0, 1), (1, 2), (2, 0)])
    by_id = {row["id"]: row for row in out.column("a").to_pylist()}
    assert [by_id[n] for n in range(3)] == a.to_pylist()


def test_columns_named_like_anything() -> None:
    """Payload columns may be called what they like, even as the engine's own or as an alias."""
    odd = {name: [1] for name in ("a", "b", "rows", "payload", "_id", "select", "with space", "Ünï", "K")}
    left = tiny([0], k=[1], **odd)
    out = wr.Operator(query()).process({"a": left, "b": left})
    results.assert_payload(out, {"a": left, "b": left})
    assert out.num_rows == 1


def test_a_stream_joined_with_itself() -> None:
    """The same table as both streams: every pair within the window once."""
    assert play(query(), {"a": A, "b": A}) == Counter([(0, 0), (0, 2), (2, 0), (2, 2), (1, 1)])


def test_equal_rows_are_not_merged() -> None:
    twins = tiny([1, 1, 1], k=[1, 1, 1])
    assert play(query(), {"a": twins, "b": twins}) == Counter((x, y) for x in range(3) for y in range(3))
    assert play(query(), {"a": twins}, {"b": twins}) == Counter((x, y) for x in range(3) for y in range(3))


def test_results_come_with_the_call_that_completes_them_and_only_once() -> None:
    op = wr.Operator(query())
    found = [ids(op.process({"a": A.slice(n, 1)})) + ids(op.process({"b": B.slice(n, 1)})) for n in range(3)]
    assert [f.total() for f in found] == [1, 1, 2]
    assert sum(found, Counter()) == ANSWER


def test_the_input_is_not_changed_and_not_needed_afterwards() -> None:
    times, keys = np.array([0, 1_000_000]), np.array([1, 1])
    table = pa.table({"id": [0, 1], "ts": pa.array(times, pa.timestamp("us")), "k": pa.array(keys)})
    copy = pa.table(table.to_pydict(), table.schema)
    op = wr.Operator(query())
    op.process({"a": table})
    assert table.equals(copy)
    del table
    assert ids(op.process({"b": copy})) == Counter([(0, 0), (0, 1), (1, 0), (1, 1)])


def test_two_operators_of_one_query_share_nothing() -> None:
    asked = query()
    first, second = wr.Operator(asked), wr.Operator(asked)
    first.process({"a": A})
    assert second.process({"a": A.slice(0, 0), "b": B}).num_rows == 0
    assert second.metrics().rows_in == 3


def test_measurements_add_up() -> None:
    op = wr.Operator(query(on="a.k = b.k and a.note <> 'q'"))
    op.process({"a": A, "b": B})
    measured = op.metrics()
    assert (measured.rows_in, measured.results, measured.rows_filtered) == (6, 4, 1)
    assert measured.streams["a"].rows_in == measured.streams["b"].rows_in == 3
    assert measured.streams["a"].rows_filtered == 1
    assert measured.window_rows == sum(stream.window_rows for stream in measured.streams.values())
    assert measured.comparisons >= measured.results
    assert measured.memory_bytes > 0
    assert "6 rows in" in str(measured)


def test_many_small_calls_leave_no_trace() -> None:
    """Rows held and bytes held after 1,000 calls are those of a few windows, not of the whole history."""
    op, sizes = wr.Operator(query(expire="eager")), {}
    for n in range(1_000):
        table = tiny([n, n + 0.5], k=[n % 7, n % 5])
        op.process({"a": table, "b": table})
        if n in (300, 999):
            sizes[n] = op.metrics()
    assert sizes[999].window_rows <= 2 * sizes[300].window_rows
    assert sizes[999].memory_bytes <= 2 * sizes[300].memory_bytes
    assert sizes[999].window_rows < 200


@pytest.mark.parametrize("access", ["hash", "hash(1)", "sorted", "scan", "residual"])
def test_a_large_result_from_a_small_input(access: str) -> None:
    """600 x 600 equal keys, in three calls: more results than any buffer holds at once, each once."""
    path, on = (None, "a.k + b.k = 2") if access == "residual" else (access, "a.k = b.k")
    asked = wr.Query({alias: wr.Stream("ts", "5 seconds", path) for alias in "ab"}, on)
    table = tiny([0] * 600, k=[1] * 600)
    op = wr.Operator(asked)
    out = [
        op.process({"a": table.slice(0, 200)}),
        op.process({"b": table}),
        op.process({"a": table.slice(200)}),
    ]
    assert [o.num_rows for o in out] == [0, 200 * 600, 400 * 600]
    a, b = (np.concatenate([o.column(x).combine_chunks().field("id") for o in out[1:]]) for x in "ab")
    assert len(np.unique(a * 600 + b)) == 600 * 600


def test_the_answer_does_not_depend_on_the_seed() -> None:
    assert play(query(seed=1), {"a": A, "b": B}) == play(query(seed=2), {"a": A, "b": B}) == ANSWER
