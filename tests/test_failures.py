"""Operations that fail for a row: raised with `on_error="raise"`, null and counted with `"null"`."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import results
import windrow as wr
from failing import guarded_terms, pair_terms, row_terms
from outer_cases import OuterCase, outer_cases, outer_ids
from queries import Case, cases, examples, tiny
from shared_cases import Asked, ids_in_order, schemas_of, shared_cases, ticking
from windrow.expr.evaluate import evaluate
from windrow.expr.failures import Failure, failed_rows
from windrow.expr.parse import parse
from windrow.testing import oracle
from windrow.testing.oracle import Term


@st.composite
def more_terms(draw: st.DrawFn, case: Case, firsts: Sequence[str] | None = None) -> list[Term]:
    """The conditions of a case and some more, most of which fail for some rows; of two streams one is among
    `firsts`."""
    more = []
    for _ in range(draw(st.integers(1, 3))):
        a = draw(st.sampled_from(firsts or list(case.windows)))
        b = draw(st.sampled_from([x for x in case.windows if x != a]))
        a, b = draw(st.permutations([a, b]))
        if draw(st.booleans()):
            more += guarded_terms(a, b)
        else:
            more.append(draw(st.sampled_from(row_terms(a) + pair_terms(a, b, not case.counted))))
    return draw(st.permutations([*case.terms, *more]))


@st.composite
def failing_cases(draw: st.DrawFn, counted: bool) -> Case:
    case = draw(cases(counted=counted, most_streams=3))
    return replace(case, terms=draw(more_terms(case)))


def failures(case: Case) -> tuple[dict[str, int], int]:
    """Rows per stream, and combinations of one row of each, on which the conditions fail."""
    admitted, fields = case.admitted(), Case.__dataclass_fields__
    inner = Case(**{name: getattr(case, name) for name in fields})
    # Terms that also hold if they fail: their additional results are the failed combinations.
    lenient = [replace(term, holds=term.holds_or_fails) for term in case.terms]
    possible = replace(inner, terms=lenient).answer()
    rows = {a: oracle.failed_rows(a, admitted.rows(a), case.terms) for a in case.windows}
    return rows, possible.total() - inner.answer().total()


def check(case: Case) -> None:
    rows, combinations = failures(case)
    answer = case.answer()
    output, measured = case.run(on_error="null")
    assert results.ids(output) == answer
    assert {a: s.rows_failed for a, s in measured.streams.items()} == rows
    assert measured.combinations_failed == combinations
    if combinations or any(rows.values()):
        with pytest.raises(wr.DataError, match=r"fails for .*on_error='null'"):
            case.run(on_error="raise")
    else:
        assert results.ids(case.run()[0]) == answer


@examples(30)
@given(failing_cases(counted=False))
def test_failures_over_time_windows(case: Case) -> None:
    check(case)


@examples(25)
@given(failing_cases(counted=True))
def test_failures_over_row_windows(case: Case) -> None:
    check(case)


@st.composite
def failing_outer_cases(draw: st.DrawFn, counted: bool) -> OuterCase:
    case = draw(outer_cases(counted=counted, most_streams=3))
    how = {} if isinstance(case.how, str) else case.how
    core = [a for a in case.windows if how.get(a, "required") == "required" and a not in (case.match or {})]
    return replace(case, terms=draw(more_terms(case, core)))


def outcome(case: OuterCase) -> Counter[tuple] | None:
    """What an outer join returns, or None if it ends with an error."""
    try:
        return outer_ids(case.run(on_error="raise")[0])
    except wr.DataError as error:
        assert "on_error='null'" in str(error)
        return None


@pytest.mark.parametrize("counted", [False, True])
def test_failures_in_outer_joins(counted: bool) -> None:
    """They end a join of two streams where they end the inner join, and whether they end one does not depend
    on the order of its conditions."""

    @examples(20)
    @given(failing_outer_cases(counted), st.randoms(use_true_random=False))
    def check(case: OuterCase, random: Random) -> None:
        answer = case.answer()
        assert outer_ids(case.run(on_error="null")[0]) == answer
        found = outcome(case)
        assert found is None or found == answer
        terms = random.sample(case.terms, len(case.terms))
        assert outcome(replace(case, terms=terms, access={})) == found
        if len(case.windows) == 2:
            rows, combinations = failures(case)
            assert (found is None) == (combinations > 0 or any(rows.values()))

    check()


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("schedule", ["lwo", "greedy", "swf"])
def test_failures_in_a_shared_join_under_a_deadline(schedule: str, counted: bool) -> None:
    """The same combinations fail as without one."""

    def run(case: Case, asked: dict[str, Asked], on_error: str, **options: Any) -> Any:
        changed = replace(case, options={**case.options, "on_error": on_error})
        queries = {name: each.query(changed) for name, each in asked.items()}
        op = wr.SharedOperator(queries, schemas=schemas_of(case), clock=ticking(), **options)
        try:
            outputs = [*map(op.process, case.inputs()), op.finish()]
        except wr.DataError as error:
            assert "on_error='null'" in str(error)
            return None
        found = {name: [row for out in outputs for row in ids_in_order(out[name])] for name in queries}
        return found, [join.combinations_failed for join in op.metrics().joins]

    @examples(8)
    @given(shared_cases(counted), st.data())
    def check(drawn: tuple[Case, dict[str, Asked]], data: st.DataObject) -> None:
        case, asked = drawn
        case = replace(case, terms=data.draw(more_terms(case)))
        for on_error in ("raise", "null"):
            timed = run(case, asked, on_error, schedule=schedule, deadline="300 ms")
            assert timed == run(case, asked, on_error)

    check()


PARTS = ("a.x", "a.y", "1", "5", "10 / a.y", "a.x / a.z", "coalesce(10 / a.z, 5)", "cast(a.s as int)")
CELLS = st.lists(st.tuples(*[st.sampled_from([None, 0, 1, 5, 10])] * 3, st.sampled_from([None, "1", "x"])))


@given(st.sampled_from(PARTS), st.lists(st.sampled_from(PARTS), min_size=2, max_size=4), CELLS)
def test_in_and_between_fail_where_they_fail_written_out(x: str, parts: list[str], cells: list) -> None:
    kinds = {"x": pa.int64(), "y": pa.int64(), "z": pa.int64(), "s": pa.string()}
    columns = {("a", n): pa.array([c[k] for c in cells], t) for k, (n, t) in enumerate(kinds.items())}

    def run(sql: str) -> tuple[list, list]:
        failures: list[Failure] = []
        found = evaluate(parse(sql, ["a"]), columns, len(cells), {}, failures)
        return found.to_pylist(), failed_rows(failures, len(cells)).tolist()

    assert run(f"{x} in ({', '.join(parts)})") == run(" or ".join(f"{x} = {part}" for part in parts))
    low, high = parts[:2]
    assert run(f"{x} between {low} and {high}") == run(f"{x} >= {low} and {x} <= {high}")


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
        "a.s = b.s and a.v in (0, 10 / a.v)",
        "a.s = b.s and a.v in (10 / b.v, b.v)",
        "a.s = b.s and not (a.v between 1 and 10 / a.v)",
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
    with pytest.raises(wr.DataError, match="a checkpoint works with either"):
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
    shed = wr.policies.Harvesting(buffer_rows=100_000)
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


GUARDED = (
    "a.v / b.v < 9 and b.v * a.v > 0",
    "b.v * a.v > 0 and a.v / b.v < 9",
    "b.v / a.v < 9 and a.v * b.v > 0",
)
"""Shared joins sort conditions by their text, so the third has its operands the other way round."""


@pytest.mark.parametrize("on", GUARDED)
@pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti", "as-of"])
def test_conditions_guard_one_another_in_either_order(how: str, on: str) -> None:
    kind = {"match": {"b": "nearest"}} if how == "as-of" else {"how": how}
    operator = wr.Operator(two(f"a.s = b.s and {on}", **kind))
    operator.process({"a": A, "b": B})
    operator.finish()
    assert operator.metrics().combinations_failed == 0


@pytest.mark.parametrize("on", GUARDED)
@pytest.mark.parametrize("schedule", ["lwo", "greedy", "swf"])
def test_conditions_guard_one_another_under_a_deadline(schedule: str, on: str) -> None:
    query = two(f"a.s = b.s and {on}")
    shorter = replace(query, streams={alias: wr.Stream("ts", "5 s") for alias in "ab"})
    operator = wr.SharedOperator({"p": query, "q": shorter}, schedule=schedule, deadline="1 s")
    operator.process({"a": A, "b": B})
    operator.finish()
    assert [join.combinations_failed for join in operator.metrics().joins] == [0]


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
            query = two(on, nan=rule, allow_cross_join=True)
            got = wr.Operator(query).process({"a": a, "b": b})
            assert set(results.ids(got)) == want, (on, rule)
            assert results.ids(wr.testing.exact_answer(query, {"a": a, "b": b})) == results.ids(got)
