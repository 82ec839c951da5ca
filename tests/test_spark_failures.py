"""Operations that fail on Spark: the session's ANSI setting decides, and every row counts once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import windrow as wr
from spark_tools import Stream, failing, frame, rows, run, settings, spark, written
from windrow.spark.join import join, prepare
from windrow.spark.shared_join import share

ANSI = "spark.sql.ansi.enabled"
CAST = "cast(a.s as int) = b.k and a.k <> 3"
QUOTIENT = "a.k > b.k and a.x / b.k > 0.4"
"""Rows of both streams are copied to several partitions."""


def query(on: str, **options: Any) -> wr.Query:
    return wr.Query({a: wr.Stream("ts", "4 seconds") for a in "ab"}, on, **options)


def in_one_process(on: str, calls: list[dict[str, pa.Table]]) -> wr.Operator:
    op = wr.Operator(query(on, on_error="null"))
    for call in calls:
        op.process(call)
    return op


def failed(metrics: Any) -> tuple[int, int]:
    return sum(m.rows_failed for m in metrics), sum(m.combinations_failed for m in metrics)


@pytest.mark.parametrize("columnar", ["", "ab"])
@pytest.mark.parametrize("on", [CAST, QUOTIENT, "a.k < b.k and cast(a.s as int) > b.k - 5 and 1 / b.k > 0.2"])
def test_a_query_ends_and_goes_on_with_null_from_the_same_checkpoint(tmp_path, on, columnar):
    left, right = (
        [rows(n, 60, start=6 * n, span=6) for n in (1, 2)],
        [rows(n, 60, 6 * n - 12) for n in (3, 4)],
    )
    a, b = Stream(tmp_path / "a"), Stream(tmp_path / "b")
    a.put(left[0].slice(0, 0))
    b.put(right[0].slice(0, 0))

    def frames() -> dict[str, Any]:
        if not columnar:
            return {"a": a.read(), "b": b.read()}
        return {
            alias: wr.files(spark(), str(each.directory), schema=each.schema, files_per_batch=1)
            for alias, each in (("a", a), ("b", b))
        }

    def go_on(**options: Any) -> Any:
        settled = query(on, late="20 seconds", **options)
        return run(join(frames(), settled, partitions=3, state=str(tmp_path / "state"), name="j"), tmp_path)

    go_on()
    a.put(*left)
    b.put(*right)
    message = failing(go_on)
    assert "fails for" in message and "on_error='null'" in message
    query_run = go_on(on_error="null")
    op = wr.Operator(query(on, late="20 seconds", on_error="null"))
    want: Any = []
    for x, y in zip(left, right, strict=True):
        want += [(r["a"]["id"], r["b"]["id"]) for r in op.process({"a": x, "b": y}).to_pylist()]
    assert sorted(written(tmp_path).elements()) == sorted(want)
    told = op.metrics()
    assert failed(wr.metrics(query_run)) == (told.rows_failed, told.combinations_failed)
    assert told.rows_failed + told.combinations_failed > 0


@pytest.mark.parametrize(("ansi", "rule"), [("true", "raise"), ("false", "null")])
def test_the_session_decides_unless_the_query_does(ansi, rule):
    frames = {"a": frame(rows(1, 50)), "b": frame(rows(2, 50))}
    with settings({ANSI: ansi}):
        open_one = prepare(frames, query(CAST))
        assert open_one.query.on_error == rule
        text = "raised" if rule == "raise" else "null, and counted as rows_failed"
        assert f"errors: {text}" in open_one.described
        assert prepare(frames, query(CAST, on_error="null")).query.on_error == "null"
        assert "errors" not in prepare(frames, query("a.k = b.k")).described


def test_shared_queries_raise_or_go_on():
    frames = {"a": frame(rows(1, 200)), "b": frame(rows(2, 200))}
    on = "a.k = b.k and 1 / a.x > 0.1"
    message = failing(lambda: share({"one": query(on)}, frames).collect())
    assert "1 / a.x fails for a.x = 0.0" in message
    guarded = share({"one": query(f"{on} and a.x <> 0"), "two": query("a.k = b.k")}, frames).collect()
    assert {row.query for row in guarded} == {"one", "two"}
    assert len(share({"one": query(on, on_error="null")}, frames).collect()) > 0
