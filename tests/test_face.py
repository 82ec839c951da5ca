"""The public face: few names, one schema of options in every way to write a query, errors with a place."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from dataclasses import fields

import pyarrow as pa
import pytest

import windrow as wr
from windrow.errors import Option, located, placed
from windrow.model.execution import SETTINGS, Execution, read_texts
from windrow.model.sharing import JOIN_SETTINGS, SharingSettings
from windrow.pipeline.toml_reader import JOIN_KEYS, RUN_KEYS
from windrow.spark.join import join
from windrow.spark.shared_join import share
from windrow.sql_frontend.source_text import SourceText, TextLocation
from windrow.sql_frontend.with_options import KNOWN

STREAMS = {"a": wr.Stream("at", "5 s"), "b": wr.Stream("at", "5 s")}


def test_completion_shows_what_is_public_and_nothing_else():
    assert {"join", "sql", "share", "metrics", "policies"} <= set(dir(wr))
    assert set(dir(wr)) == {*wr.__all__, "__version__"} and len(wr.__all__) <= 27
    for module in (wr, wr.policies, wr.types, wr.testing):
        assert all(getattr(module, name) is not None for name in module.__all__)
    with pytest.raises(AttributeError, match=r"Did you mean 'join'\?"):
        _ = wr.jion


def test_every_way_to_write_a_query_knows_the_same_settings():
    texts = {name for name, each in JOIN_SETTINGS.items() if each.texts}
    assert set(KNOWN) - {"aggregate_watermark_delay", "confidence"} == texts - {"on"}
    assert set(JOIN_KEYS) | set(RUN_KEYS) >= texts
    keywords = inspect.signature(join).parameters
    assert set(keywords) - {"frames", "query", "control"} == set(SETTINGS)
    for kind in (wr.Stream, wr.Query, Execution):
        for field in fields(kind):
            if field.name in SETTINGS and isinstance(field.default, str | int | float | None):
                assert keywords[field.name].default == field.default, field.name
    shared = inspect.signature(share).parameters
    assert set(shared) >= {f.name for f in fields(Execution)}
    for field in fields(SharingSettings):
        assert shared[field.name].default == field.default, field.name


def test_a_setting_is_read_alone_and_stays_as_it_was_read():
    read = read_texts({"late": "5 seconds", "memory": 4096, "order": ["a", "b"], "shed": {"policy": "age"}})
    assert (read["late"], str(read["memory"])) == (5_000_000, "4 KiB")
    for name, value in read.items():
        assert SETTINGS[name].read(value) == value
    with pytest.raises(wr.QueryError, match="late: expected a duration such as '5 seconds', got 5"):
        read_texts({"late": 5})
    with pytest.raises(wr.QueryError, match=r"unknown setting 'lat'. Did you mean 'late'\?"):
        read_texts({"lat": "5 s"})


def test_a_place_is_data_and_whoever_shows_it_decides_how():
    with pytest.raises(wr.QueryError) as caught:
        wr.Query(STREAMS | {"b": wr.Stream("at", "0 s")}, "a.k = b.k")
    assert caught.value.place == Option("within", stream="b")
    assert caught.value.message == "window must be positive, got 0 seconds"
    assert str(caught.value) == "stream 'b': within: window must be positive, got 0 seconds"
    with pytest.raises(wr.QueryError) as policy:
        wr.Query(STREAMS, "a.k = b.k", memory="9 rows", shed={"policy": "age", "age_bins": 0})
    assert policy.value.place == Option("age_bins", policy="age")
    assert str(policy.value).startswith("shed age: age_bins: must be")


def test_a_place_is_filled_in_from_outside_and_located_once():
    text = SourceText("a b")
    with (
        pytest.raises(wr.QueryError) as caught,
        located(lambda place: TextLocation(text, (0, 0))),
        located(lambda place: TextLocation(text, (2, 2))),
        placed(Option("memory", query="hot")),
        placed(Option("late")),
    ):
        raise wr.QueryError("wrong")
    assert caught.value.place == Option("late", query="hot")
    assert str(caught.value) == "sql, line 1, column 3: query 'hot': late: wrong\n    a b\n      ^"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: wr.Operator("a.k = b.k"), "query: expected wr.Query"),
        (lambda: wr.Operator(wr.Query(STREAMS, "a.k = b.k")).process(pa.table({})), "process.{'a': table}"),
        (lambda: wr.join("a", on="a.k = b.k"), "frames: expected DataFrames by alias: wr.join"),
        (lambda: wr.join({"a": 1, "b": 2}, 7), "query: expected wr.Query"),
        (lambda: wr.join({"a": 1, "b": 2}, on="a.k = b.k", within="1 s"), "time: is missing"),
        (lambda: wr.join({"a": 1, "b": 2}, wr.Query(STREAMS, "a.k = b.k"), late="1 s"), "late: is part of"),
        (lambda: wr.join({"a": pa.table({}), "b": 2}, wr.Query(STREAMS, "a.k = b.k")), "got pyarrow.Table"),
        (lambda: wr.metrics("spark"), "query: expected a query as writeStream.start"),
        (lambda: wr.Query(["a", "b"], "a.k = b.k"), "streams: expected"),
        (lambda: wr.Stream("at", "5 s", "hash", None, "1 MiB"), "wr.Stream: too many positional arguments"),
        (
            lambda: wr.Query(STREAMS, "f(a.k) = b.k", functions={"f": 3}),
            "functions: expected a function, got 3",
        ),
        (lambda: wr.explain("a.k = b.k"), "query: expected wr.Query"),
        (lambda: wr.dashboard("spark"), "query: expected a query as writeStream.start"),
        (lambda: wr.share({"x": wr.Query(STREAMS, "a.k = b.k")}, {"a": pa.table({})}), "got pyarrow.Table"),
        (
            lambda: wr.share({"x": wr.Query(STREAMS, "a.k = b.k")}, pa.table({})),
            "frames: expected DataFrames",
        ),
        (lambda: wr.share(wr.Query(STREAMS, "a.k = b.k"), {}), "queries: expected queries by name"),
        (lambda: wr.files("data/bids", "parquet"), "spark: expected wr.files.spark, path., got str first"),
        (lambda: wr.estimate(pa.table({})), "wr.estimate: 'time' is missing"),
        (lambda: wr.Operator.restore(b"saved"), "wr.Operator.restore: 'blob' is missing"),
    ],
)
def test_a_wrong_call_is_refused_with_the_right_one(call, told):
    with pytest.raises(wr.QueryError, match=told):
        call()


def test_values_show_themselves_in_notebooks():
    query = wr.Query(STREAMS, "a.k = b.k", late="10 s", memory="9 rows")
    assert repr(query) == "Query(a [5 seconds], b [5 seconds] on 'a.k = b.k', late=10 seconds, memory=9 rows)"
    rows = wr.testing.table("at k; 0 1; 1 <2")
    operator = wr.Operator(query)
    operator.process({"a": rows, "b": rows})
    plan = operator.plan
    assert plan is not None and "<pre>Plan for 2 streams" in plan._repr_html_()
    shown = operator._repr_html_()
    assert "a.k = b.k" in shown and "2 results" in shown and "<th" in shown
    assert "recall" in operator.metrics().quality._repr_html_()
    assert repr(operator.metrics()).startswith("<OperatorMetrics: 4 rows in, 2 results, recall 1.000")
    alone = wr.Query(STREAMS, "a.k = b.k")
    shared = wr.SharedOperator({"x": alone})
    explained = wr.explain(query, dict.fromkeys("ab", rows.schema))
    values = [query, operator, plan, operator.metrics(), operator.metrics().quality, operator.forecast()]
    values += [explained, explained.recall, shared, shared.metrics(), wr.explain({"x": alone})]
    values += [operator.metrics().streams["a"], shared.metrics().queries["x"], shared.groups[0]]
    values += [wr.types.Allocation({"x": wr.types.MemoryLimit("rows", 9)}, {"x": 0.5})]
    for value in values:
        assert len(repr(value)) < 120 and "\n" not in repr(value) and value._repr_html_()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: wr.Query(STREAMS, "a.k = b.k", memry="1 MiB"),
            "Query: unknown option 'memry'. Did you mean 'memory'",
        ),
        (
            lambda: wr.Query(STREAMS, "a.k = b.k", within="5 s"),
            "Query has no option 'within'; it is an option of wr.Stream",
        ),
        (lambda: wr.Query(STREAMS), "wr.Query: 'on' is missing"),
        (lambda: wr.Stream("at"), "wr.Stream: 'within' is missing"),
        (
            lambda: wr.join({}, on="a.k = b.k", withn="5 s"),
            "wr.join: unknown option 'withn'. Did you mean 'within'",
        ),
        (
            lambda: wr.policies.Age(age_bin=3),
            "wr.policies.Age: unknown option 'age_bin'. Did you mean 'age_bins'",
        ),
        (lambda: wr.Query(STREAMS, "a.k = b.k", cross=True), "Did you mean 'allow_cross_join'"),
        (lambda: wr.estimate(pa.table({}), time="a.at", window="1 s", by="a.k"), "Did you mean 'group_by'"),
        (lambda: wr.Operator(wr.Query(STREAMS, "a.k = b.k"), schema={}), "Did you mean 'schemas'"),
        (lambda: wr.explain(wr.Query(STREAMS, "a.k = b.k"), rate={}), "Did you mean 'rates'"),
    ],
)
def test_a_wrong_keyword_is_a_mistake_in_the_query(call: Callable[[], object], message: str) -> None:
    with pytest.raises(wr.QueryError) as told:
        call()
    assert message in str(told.value)


@pytest.mark.parametrize(
    "name", [n for n in wr.__all__ if not n.endswith("Error") and callable(getattr(wr, n))]
)
def test_every_public_call_refuses_an_unknown_keyword(name: str) -> None:
    if name in ("Explanation", "RecallCurve", "Window"):
        pytest.skip("made by calls, not by users")
    with pytest.raises(wr.QueryError, match=f"wr.{name}: unknown option 'nonsense'"):
        getattr(wr, name)(nonsense=1)
