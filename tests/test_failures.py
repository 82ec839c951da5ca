"""Operations that fail for a row: raised with `on_error="raise"`, null and counted with `"null"`."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import results
import windrow as wr
from failing import pair_terms, row_terms
from queries import Case, cases, examples, tiny
from windrow.testing import oracle


@st.composite
def failing_cases(draw: st.DrawFn, counted: bool) -> Case:
    """Random queries with some conditions more, most of which fail for some rows."""
    case = draw(cases(counted=counted, most_streams=3))
    aliases = list(case.windows)
    more = []
    for _ in range(draw(st.integers(1, 3))):
        a, b = draw(st.permutations(aliases))[:2]
        more.append(draw(st.sampled_from(row_terms(a) + pair_terms(a, b, not counted))))
    return replace(case, terms=draw(st.permutations([*case.terms, *more])))


def check(case: Case) -> None:
    admitted = case.admitted()
    rows = {a: oracle.failed_rows(a, admitted.rows(a), case.terms) for a in case.windows}
    possible = replace(case, terms=oracle.lenient(case.terms)).answer()
    answer = case.answer()
    combinations = possible.total() - answer.total()
    output, measured = case.run(on_error="null")
    assert results.ids(output) == answer
    assert {a: s.rows_failed for a, s in measured.streams.items()} == rows
    assert measured.combinations_failed == combinations
    if combinations or any(rows.values()):
        with pytest.raises(wr.DataError, match=r"fails for .*on_error='null'"):
            case.run(on_error="raise")
    else:
        assert results.ids(case.run()[0]) == answer


@examples(60)
@given(failing_cases(counted=False))
def test_failures_over_time_windows(case: Case) -> None:
    check(case)


@examples(40)
@given(failing_cases(counted=True))
def test_failures_over_row_windows(case: Case) -> None:
    check(case)


# --- By hand ----------------------------------------------------------------------------------------------


def two(on: str, **options: object) -> wr.Query:
    return wr.Query({a: wr.Stream("ts", "10 s") for a in "ab"}, on, **options)


A = tiny(
    [0, 1, 2, 3], s=["1", "x", None, "2"], v=[0, 1, 2, None], l=[[1], [], None, [2, 3]], n=[{"f": 1}] * 4
)
B = tiny([0, 1], s=["1", "2"], v=[0, 5], l=[[1], [2]], n=[{"f": 0}, {"f": 2}])


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("cast(a.s as int) = b.v", "stream 'a': CAST(a.s AS INT) fails for a.s = 'x'; guard it"),
        ("a.s = b.s and 10 / a.v > 1", "stream 'a': 10 / a.v fails for a.v = 0; guard it"),
        ("a.s = b.s and a.v / b.v > 1", "on: a.v / b.v fails for a.v = 0, b.v = 0; guard it"),
        ("a.s = b.s and mod(a.v, b.v) = 0", "on: MOD(a.v, b.v) fails for a.v = 0, b.v = 0; guard it"),
        ("a.l[0] = b.v", "stream 'a': a.l[0] fails for a.l = []; guard it"),
        ("a.l[-1] = b.v", "stream 'a': a.l[-1] fails for a.l = [1]; guard it"),
        ("a.v / b.n.f > 0", "on: a.v / b.n.f fails for a.v = 0, b.n = {'f': 0}; guard it"),
        ("a.v = b.v and cast('x' as int) = 1", "on: CAST('x' AS INT) fails; guard it"),
        (
            "jaccard(split(cast(cast(a.s as int) as string), ','), split(b.s, ',')) > 0.5",
            "CAST(a.s AS INT) fails",
        ),
    ],
)
def test_the_error_names_the_operation_and_its_values(on: str, message: str) -> None:
    with pytest.raises(wr.DataError) as caught:
        wr.Operator(two(on)).process({"a": A, "b": B})
    assert str(caught.value).startswith(message) or message in str(caught.value)
    assert "set on_error='null'" in str(caught.value)


@pytest.mark.parametrize(
    "on",
    [
        "try_cast(a.s as int) = b.v",
        "a.s = b.s and 10 / nullif(a.v, 0) > 1",
        "a.s = b.s and try_divide(a.v, b.v) > 1",
        "a.s = b.s and a.v <> 0 and 10 / a.v > 1",
        "a.s = b.s and 10 / a.v > 1 and a.v <> 0",
        "a.s = b.s and coalesce(1, 10 / a.v) = 1",
        "a.s = b.s and if(a.v = 0, true, 10 / a.v > 1)",
        "a.s = b.s and b.v <> 0 and a.v / b.v > 1",
        "a.s = b.s and case a.v when 0 then true else 10 / a.v > 1 end",
        "a.s = b.s and ln(a.v) > 0",
    ],
)
def test_what_is_guarded_does_not_fail(on: str) -> None:
    operator = wr.Operator(two(on))
    operator.process({"a": A, "b": B})
    assert operator.metrics().rows_failed == operator.metrics().combinations_failed == 0


def test_an_operator_goes_on_from_its_snapshot_with_the_other_rule() -> None:
    query = two("a.s = b.s and 10 / a.v > 1", late="10 s")
    operator = wr.Operator(query)
    operator.process({"a": A.slice(1, 1), "b": B})
    snapshot = operator.snapshot()
    with pytest.raises(wr.DataError, match="on_error"):
        operator.process({"a": A.slice(0, 1)})
    restored = wr.Operator.restore(replace(query, on_error="null"), snapshot)
    restored.process({"a": A.slice(0, 1)})
    again = wr.Operator.restore(query, restored.snapshot())
    assert again.metrics().rows_failed == 1


def test_rows_that_failed_in_a_window_are_restored_under_the_other_rule() -> None:
    """A row window counts rows that fail, so it stores them."""
    streams = {"a": wr.Stream("ts", "10 rows"), "b": wr.Stream("ts", "10 s")}
    query = wr.Query(streams, "cast(a.s as int) = b.v", on_error="null", late="10 s")
    operator = wr.Operator(query)
    operator.process({"a": A, "b": B})
    operator.finish()
    assert operator.metrics().streams["a"].rows_failed == operator.metrics().rows_failed == 1
    restored = wr.Operator.restore(replace(query, on_error="raise"), operator.snapshot())
    assert restored.metrics().rows_failed == 1


def test_a_shared_join_goes_on_from_its_snapshot_with_the_other_rule() -> None:
    def queries(rule: str) -> dict[str, wr.Query]:
        on = "a.s = b.s and 10 / (b.v - a.v) > 1"
        streams = [{a: wr.Stream("ts", within) for a in "ab"} for within in ("10 s", "5 s")]
        return {f"q{n}": wr.Query(given, on, late="10 s", on_error=rule) for n, given in enumerate(streams)}

    operator = wr.SharedOperator(queries("raise"))
    operator.process({"a": A})
    snapshot = operator.snapshot()
    with pytest.raises(wr.DataError, match="a checkpoint goes on with either"):
        operator.process({"b": B})
    restored = wr.SharedOperator.restore(queries("null"), snapshot)
    restored.process({"b": B})
    assert restored.metrics().joins[0].combinations_failed > 0
    again = wr.SharedOperator.restore(queries("raise"), restored.snapshot())
    with pytest.raises(wr.DataError, match=r"fails for a.v = 0, b.v = 0"):
        again.process({"b": B})


@pytest.mark.parametrize("how", ["inner", "left"])
def test_rows_that_wait_in_a_buffer_count_once(how: str) -> None:
    on = "a.k = b.k and coalesce(cast(a.s as int), 1) > 0"
    shed = wr.policies.Harvesting(buffer=100_000)
    clock = itertools.count(step=0.004).__next__
    operator = wr.Operator(two(on, how=how, on_error="null", deadline="100 ms", shed=shed), clock=clock)
    waited = 0
    for second in range(6):
        table = tiny([second + n / 1000 for n in range(500)], k=range(500), s=["1", "x"] * 250)
        operator.process({"a": table, "b": table})
        measured = operator.metrics()
        waited += measured.rows_buffered
        assert measured.rows_failed <= 250 * (second + 1)
    while operator.metrics().rows_buffered:
        operator.process({})
    assert waited > 0
    assert operator.metrics().streams["a"].rows_failed == operator.metrics().rows_failed == 1500


@pytest.mark.parametrize("how", ["left", "full", "semi", "anti"])
def test_an_outer_join_takes_a_failure_for_null(how: str) -> None:
    on = "a.s = b.s and 10 / (b.v - a.v) > 1"
    operator = wr.Operator(two(on, how=how, on_error="null"))
    found = pa.concat_tables([operator.process({"a": A, "b": B}), operator.finish()])
    guarded = wr.Operator(two("a.s = b.s and try_divide(10, b.v - a.v) > 1", how=how))
    assert found.equals(pa.concat_tables([guarded.process({"a": A, "b": B}), guarded.finish()]))
    assert operator.metrics().combinations_failed > 0 == guarded.metrics().combinations_failed
    with pytest.raises(wr.DataError, match=r"10 / \(b.v - a.v\) fails for a.v = 0, b.v = 0"):
        failing = wr.Operator(two(on, how=how))
        failing.process({"a": A, "b": B})
        failing.finish()


def test_nan_matches_what_the_query_says() -> None:
    nan = float("nan")
    a, b = tiny([0, 1], x=[nan, 1.0]), tiny([0, 1], x=[nan, 2.0])
    for on, spark, never in [
        ("a.x = b.x", {(0, 0)}, set()),
        ("a.x <=> b.x", {(0, 0)}, set()),
        ("a.x is distinct from b.x", {(0, 1), (1, 0), (1, 1)}, {(0, 0), (0, 1), (1, 0), (1, 1)}),
        ("a.x > b.x", {(0, 1)}, set()),
        ("a.x <> b.x", {(0, 1), (1, 0), (1, 1)}, {(1, 1)}),
        ("not (a.x = b.x)", {(0, 1), (1, 0), (1, 1)}, {(1, 1)}),
        ("a.x between 1 and b.x", {(0, 0), (1, 0), (1, 1)}, {(1, 1)}),
        ("a.x + b.x > 2", {(0, 0), (0, 1), (1, 0), (1, 1)}, {(1, 1)}),
        ("a.x in (b.x, 1)", {(0, 0), (1, 0), (1, 1)}, {(1, 0), (1, 1)}),
        ("case a.x when b.x then true else false end", {(0, 0)}, set()),
        ("abs(a.x - b.x) <= 1", {(1, 1)}, {(1, 1)}),
        ("isnan(a.x) and b.x = 2", {(0, 1)}, {(0, 1)}),
        ("nanvl(a.x, 2) = b.x", {(0, 1)}, {(0, 1)}),
    ]:
        for rule, want in (("spark", spark), ("never", never)):
            query = two(on, nan=rule, cross=True)
            got = wr.Operator(query).process({"a": a, "b": b})
            assert set(results.ids(got)) == want, (on, rule)
            assert results.ids(wr.testing.exact_answer(query, {"a": a, "b": b})) == results.ids(got)
