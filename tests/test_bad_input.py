"""What is refused, with an error that names the place and the remedy; and odd input that has a meaning."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import windrow as wr
from queries import play, tiny
from results import ids

TWO = {"a": wr.Stream("ts", "5 seconds"), "b": wr.Stream("ts", "5 seconds")}
COLUMNS = {"k": [1], "s": ["x"], "f": [1.0], "w": pa.array([["p"]], pa.list_(pa.string()))}


def ask(on: str = "a.k = b.k", **options) -> wr.Operator:
    schemas = {alias: tiny([0], **COLUMNS).schema for alias in options.get("streams", TWO)}
    return wr.Operator(wr.Query(**{"streams": TWO, "on": on, **options}), schemas=schemas)


def refused(kind: type[Exception], *words: str):
    """The error is of this kind and its text has all these words."""
    pattern = "".join(f"(?=.*(?:{word}))" for word in words)
    return pytest.raises(kind, match=f"(?is)^{pattern}")


# --- The query ------------------------------------------------------------------------------------------

PREDICATES = {
    "a.nope = b.k": ["'a'", "nope", "available"],
    "a.kk = b.k": ["'a'", "kk", "did you mean 'k'"],
    "x.k = b.k": ["'x'", "available", "a, b"],
    "k = b.k": ["'k'", "no stream", "a, b"],
    "a.s = b.k": ["a.s", "b.k", "string", "int64", "cast"],
    "a.k = b.s": ["a.k", "b.s", "cast"],
    "a.k < b.s": ["a.k", "b.s", "cast"],
    "abs(a.s - b.k) <= 1": ["a.s"],
    "a.k": ["a.k", "boolean|condition|true or false"],
    "a.k + b.k": ["boolean|condition|true or false"],
    "a.k = b.k and a.s": ["a.s", "boolean|condition|true or false"],
    "case when a.k = b.k then 1 else 0 end": ["boolean|condition|true or false"],
    "a.k = ": ["parse"],
    "a.k = b.k)": ["parse"],
    "a.k = b.k and": ["parse"],
    "'a": ["parse"],
    "nosuch(a.k, b.k)": ["nosuch", "function"],
    "jacard(a.w, b.w) > 0.5": ["jacard", "jaccard"],
    "jaccard(a.k, b.k) > 0.5": ["jaccard", "list"],
    "a.w = b.w": ["a.w", "jaccard"],
    "a.k = (select 1)": ["subquer"],
    "a.k = sum(b.k)": ["sum", "aggregate"],
    "a.k in (select k from b)": ["subquer"],
    "a.k = b.k; drop table b": ["one predicate|parse"],
}


@pytest.mark.parametrize("on", PREDICATES)
def test_a_wrong_predicate_is_refused_before_any_data_is_read(on: str) -> None:
    with refused(wr.QueryError, *PREDICATES[on]):
        ask(on)


@pytest.mark.parametrize("on", ["a.nope = b.k", "a.s = b.k", "a.k"])
def test_a_wrong_predicate_is_refused_at_the_first_data_when_no_schemas_were_given(on: str) -> None:
    op = wr.Operator(wr.Query(TWO, on))
    with refused(wr.QueryError, "a"):
        op.process({alias: tiny([0], **COLUMNS) for alias in "ab"})


@pytest.mark.parametrize("on", ["", "   ", None, 7])
def test_no_predicate_at_all(on: object) -> None:
    with refused(wr.QueryError, "on", "a.id = b.id"):
        wr.Query(TWO, on)


@pytest.mark.parametrize(
    ("within", "words"),
    [
        ("0 seconds", ["positive"]),
        ("-5 seconds", ["positive", "-5"]),
        ("0 rows", ["positive"]),
        ("-3 rows per key", ["positive", "-3"]),
        (timedelta(0), ["positive"]),
        ("5 parsecs", ["parsecs", "seconds"]),
        ("soon", ["soon", "5 minutes"]),
        ("", ["5 minutes"]),
        (5, ["5 minutes", "5"]),
        (None, ["5 minutes"]),
    ],
)
def test_a_wrong_window(within: object, words: list[str]) -> None:
    with refused(wr.QueryError, "stream 'b'", *words):
        wr.Query({"a": TWO["a"], "b": wr.Stream("ts", within)}, "a.k = b.k")


@pytest.mark.parametrize("seed", [-1, 1.5, "x", None])
def test_a_wrong_seed(seed: object) -> None:
    with refused(wr.QueryError, "seed", "whole number of at least 0", repr(seed)):
        wr.Query(TWO, "a.k = b.k", seed=seed)


def test_one_stream_only() -> None:
    with refused(wr.QueryError, "2 to 8", "got 1"):
        wr.Query({"a": TWO["a"]}, "a.k = 1")
    with refused(wr.QueryError, "2 to 8", "got 0"):
        wr.Query({}, "true")


def test_more_than_eight_streams() -> None:
    nine = {f"s{n}": wr.Stream("ts", "1 s") for n in range(9)}
    with refused(wr.QueryError, "2 to 8", "got 9"):
        wr.Query(nine, " and ".join(f"s{n}.k = s{n + 1}.k" for n in range(8)))


def test_eight_streams_are_fine() -> None:
    streams = {f"s{n}": wr.Stream("ts", "10 s") for n in range(8)}
    on = " and ".join(f"s{n}.k = s{n + 1}.k" for n in range(7))
    tables = {alias: tiny([n], k=[1]) for n, alias in enumerate(streams)}
    assert play(wr.Query(streams, on), tables) == Counter([(0,) * 8])
    assert play(wr.Query(streams, on), *({a: t} for a, t in tables.items())) == Counter([(0,) * 8])


def test_duplicate_aliases() -> None:
    """A mapping cannot hold one alias twice, but SQL does not tell A from a."""
    with refused(wr.QueryError, "duplicate", "'A'"):
        wr.Query({"a": TWO["a"], "A": TWO["b"]}, "a.k = A.k")


@pytest.mark.parametrize("alias", ["", "a b", "1a", "a.b", 3])
def test_an_alias_that_is_no_name(alias: object) -> None:
    with refused(wr.QueryError, "alias", "plain name"):
        wr.Query({alias: TWO["a"], "b": TWO["b"]}, "b.k = b.k")


def test_a_stream_that_is_no_stream() -> None:
    with refused(wr.QueryError, "'b'", "wr.Stream"):
        wr.Query({"a": TWO["a"], "b": "5 seconds"}, "a.k = b.k")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"late": "-1 second"}, ["late", "negative"]),
        ({"late": "a while"}, ["late", "5 minutes"]),
        ({"idle": "-1 second"}, ["idle", "negative"]),
        ({"order": "heuristc"}, ["order", "did you mean 'heuristic'"]),
        ({"order": ("a",)}, ["order", "'a', 'b'"]),
        ({"order": ("a", "b", "b")}, ["order", "'a', 'b'"]),
        ({"order": {"a": ("a", "b")}}, ["order", "'b'", "missing"]),
        ({"algorithm": "egaer"}, ["algorithm", "did you mean 'eager'"]),
        ({"evaluate": "every 0 rows"}, ["evaluate", "positive"]),
        ({"evaluate": "sometimes"}, ["evaluate"]),
        ({"expire": "every -1 seconds"}, ["expire", "positive"]),
    ],
    ids=str,
)
def test_a_wrong_option(options: dict, words: list[str]) -> None:
    with refused(wr.QueryError, *words):
        wr.Query(TWO, "a.k = b.k", **options)


@pytest.mark.parametrize("access", ["hsh", "hash(0)", "hash(x)", "sorted(3)", "tree"])
def test_a_wrong_access_path(access: str) -> None:
    with refused(wr.QueryError, "stream 'b'", "hash"):
        wr.Query({"a": TWO["a"], "b": wr.Stream("ts", "1 s", access=access)}, "a.k = b.k")


def test_a_join_graph_in_two_pieces() -> None:
    with refused(wr.QueryError, "allow_cross_join=True", "'b'"):
        ask("a.k = 1 and b.k = 1")
    three = TWO | {"c": TWO["a"]}
    with refused(wr.QueryError, "allow_cross_join=True", "'c'"):
        ask("a.k = b.k", streams=three)


def test_rows_per_key_without_a_key() -> None:
    streams = {"a": wr.Stream("ts", "3 rows per key"), "b": TWO["b"]}
    with refused(wr.QueryError, "'a'", "equality", "3 rows"):
        ask("a.k < b.k", streams=streams)


# --- The data -------------------------------------------------------------------------------------------


def test_a_missing_time_column() -> None:
    op = wr.Operator(wr.Query(TWO, "a.k = b.k"))
    with refused(wr.DataError, "'b'", "'ts'", "time"):
        op.process({"b": pa.table({"k": [1], "when": pa.array([1], pa.timestamp("us"))})})


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.date32(), pa.float64()])
def test_a_time_column_that_is_no_timestamp(kind: pa.DataType) -> None:
    op = wr.Operator(wr.Query(TWO, "a.k = b.k"))
    column = pa.array(["2024-01-01"]) if kind == pa.string() else pa.array([1], pa.int32()).cast(kind)
    with refused(wr.DataError, "'a'", "'ts'", "timestamp", "cast"):
        op.process({"a": pa.table({"ts": column, "k": [1]})})


def test_a_wrong_schema_given_beforehand() -> None:
    schemas = {"a": pa.schema({"ts": pa.int64(), "k": pa.int64()}), "b": tiny([0], k=[1]).schema}
    with refused(wr.DataError, "'a'", "'ts'", "timestamp"):
        wr.Operator(wr.Query(TWO, "a.k = b.k"), schemas=schemas)


def test_data_for_a_stream_the_query_does_not_have() -> None:
    op = wr.Operator(wr.Query(TWO, "a.k = b.k"))
    with refused(wr.DataError, "'z'", "available: a, b"):
        op.process({"z": tiny([0], k=[1])})


@pytest.mark.parametrize("data", [[{"ts": 1, "k": 1}], {"ts": [1]}, None, "table"], ids=str)
def test_data_that_is_no_table(data: object) -> None:
    op = wr.Operator(wr.Query(TWO, "a.k = b.k"))
    with refused(wr.DataError, "'a'", "pyarrow"):
        op.process({"a": data})


@pytest.mark.parametrize(
    "zones", [(None, "UTC"), ("UTC", None), ("Europe/Berlin", None)], ids=lambda zones: f"{zones}"
)
def test_time_columns_with_and_without_zone_do_not_mix(zones: tuple) -> None:
    op = wr.Operator(wr.Query(TWO, "a.k = b.k"))
    tables = {
        alias: pa.table({"ts": pa.array([1], pa.timestamp("us", zone)), "k": [1]})
        for alias, zone in zip("ab", zones, strict=True)
    }
    with refused(wr.WindrowError, "zone", "'a'", "'b'"):
        op.process(tables)


def test_joined_timestamps_with_and_without_zone_do_not_mix() -> None:
    plain, zoned = pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("us", "UTC"))
    op = wr.Operator(wr.Query(TWO, "a.x = b.x"))
    with refused(wr.QueryError, "zone", "a.x", "b.x"):
        op.process({"a": tiny([0], x=plain), "b": tiny([0], x=zoned)})


def test_a_refused_call_leaves_the_operator_as_it_was() -> None:
    """No row of a call with a bad table is taken in, not even those of its good tables."""
    op = wr.Operator(wr.Query(TWO, "a.k = b.k"))
    op.process({"a": tiny([1], k=[1]), "b": tiny([9], k=[1])})
    before = op.metrics()
    with pytest.raises(wr.DataError):
        op.process({"a": tiny([2], k=[1]), "b": tiny([2], other=[1])})
    assert op.metrics() == before
    assert ids(op.process({"b": tiny([9], k=[1])})) == Counter()


# --- Odd, but with a meaning ----------------------------------------------------------------------------


def test_an_empty_stream_gives_no_results_and_no_error() -> None:
    op = wr.Operator(wr.Query(TWO, "a.k = b.k"))
    empty = tiny([], k=pa.array([], pa.int64()))
    out = op.process({"a": tiny([0], k=[1]), "b": empty})
    assert out.num_rows == 0
    assert out.column_names == ["a", "b"]
    assert ids(op.process({"b": tiny([1], k=[1])})) == Counter([(0, 0)])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([None, 1], pa.int64()),
        pa.array([None, "x"]),
        pa.array([None, Decimal("1.0")]),
        pa.array([None, b"x"]),
        pa.array([None, True]),
    ],
    ids=lambda column: str(column.type),
)
def test_null_keys_never_match_and_are_counted(column: pa.Array) -> None:
    op = wr.Operator(wr.Query(TWO, "a.x = b.x"))
    table = tiny([0, 0], x=column)
    assert ids(op.process({"a": table, "b": table})) == Counter([(1, 1)])
    assert op.metrics().rows_filtered == 2
    assert op.metrics().window_rows == 2


def test_nan_keys_match_each_other_as_in_spark() -> None:
    op = wr.Operator(wr.Query(TWO, "a.x = b.x"))
    table = tiny([0, 0], x=[float("nan"), 1.0])
    assert ids(op.process({"a": table, "b": table})) == Counter([(0, 0), (1, 1)])


def test_a_column_of_nulls_only() -> None:
    op = wr.Operator(wr.Query(TWO, "a.x = b.x"))
    nothing = tiny([0], x=pa.array([None], pa.int64()))
    assert op.process({"a": nothing, "b": tiny([0], x=[1])}).num_rows == 0


def test_errors_are_one_family() -> None:
    for kind in (wr.QueryError, wr.DataError, wr.StateError):
        assert issubclass(kind, wr.WindrowError)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("late", None),
        ("evaluate", -1),
        ("expire", 3),
        ("order", -1),
        ("algorithm", 3),
        ("replan_factor", "2"),
    ],
)
def test_options_of_the_wrong_type_are_refused_by_name(option: str, value: object) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(wr.QueryError, match=f"^{option}: "):
        wr.Query({a: wr.Stream("ts", "1 s") for a in "ab"}, "a.k = b.k", **options)
