"""What rows and results are worth: what importance may be, and how it may change while a join runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import windrow as wr
from valued import IJOIN, SECOND, by, feeds, importance, query, timed, view
from windrow.errors import QueryError
from windrow.model.policies.importance import Greedy, Importance, Lookup, by_to_plain, check_by


@pytest.mark.parametrize(
    ("combine", "worth"),
    [
        ("min", lambda a, b: min(a, b)),
        ("max", lambda a, b: max(a, b)),
        ("sum", lambda a, b: a + b),
        ("product", lambda a, b: a * b),
        ("mean", lambda a, b: (a + b) / 2),
    ],
)
@pytest.mark.parametrize("shed", [Greedy, Importance])
def test_importance_of_results(shed: type[Any], combine: str, worth: Callable[[float, float], float]) -> None:
    """Stream c has no importance of its own and leaves that of a result as it is."""
    policy = shed(by={"a": "a.imp", "b": "2 * b.imp"}, combine=combine)
    operator = wr.Operator(query("abc", 30, policy))
    found = operator.process(feeds("abc", 150))
    assert found.num_rows
    total = sum(worth(row["a"]["imp"], 2 * row["b"]["imp"]) for row in found.to_pylist())
    assert operator.metrics().quality.importance == pytest.approx(total)


def test_all_equally_important() -> None:
    operator = wr.Operator(query("ab", 20, Importance()))
    found = operator.process(feeds("ab", 200))
    quality = operator.metrics().quality
    assert quality.importance == found.num_rows
    assert quality.importance_recall == quality.recall < 1


def test_the_recall_of_importance_is_known() -> None:
    tables = [feeds("ab", 600, keys=20, seed=n, start=600 * n) for n in range(5)]
    described = query("ab", 100, Importance(by=by("ab"), monitor_fraction=0.2), within=200)
    limited, exact = wr.Operator(described), wr.Operator(replace(described, memory=None))
    true = 0.0
    for batch in tables:
        limited.process(batch)
        true += sum(min(row["a"]["imp"], row["b"]["imp"]) for row in exact.process(batch).to_pylist())
    quality = limited.metrics().quality
    assert quality.importance is not None and quality.importance_recall is not None
    share = quality.importance / true
    assert share < 0.7
    assert quality.importance_recall == pytest.approx(share, rel=0.15)
    assert quality.importance_recall_low is not None and quality.importance_recall_high is not None
    assert quality.importance_recall_low < quality.importance_recall < quality.importance_recall_high
    assert quality.importance_recall > quality.recall


def test_lookup_and_expression_agree() -> None:
    tables = feeds("ab", 150)
    table = Lookup("k", {0: 5.0, 2: 1}, default=0.5)
    text = "case when {0}.k = 0 then 5.0 when {0}.k = 2 then 1.0 else 0.5 end"
    given = dict.fromkeys("ab", table), {a: text.format(a) for a in "ab"}
    first, second = (wr.Operator(query("ab", 12, replace(IJOIN, by=b), evaluate="eager")) for b in given)
    assert first.process(tables).equals(second.process(tables))
    assert first.metrics().quality.importance == second.metrics().quality.importance


def test_null_and_nan_count_as_unimportant() -> None:
    operator = wr.Operator(query("ab", 100, Greedy(by="a.imp", monitor_fraction=0.0)))
    a = {"ts": [0, 1, 2, 3], "k": [1, 1, 1, 1], "imp": pa.array([None, math.nan, 3.0, 0.0])}
    operator.process({"a": timed(a), "b": timed({"ts": [4], "k": [1], "imp": [1.0]})})
    quality = operator.metrics().quality
    assert (quality.importance, quality.rows_null_importance) == (3.0, 2)


@pytest.mark.parametrize("value", [-5.0, math.inf, -math.inf, 1e300])
@pytest.mark.parametrize("shed", [Greedy, Importance, wr.policies.Auto])
@pytest.mark.parametrize("by_message", [False, True])
def test_what_is_no_importance_is_taken_for_none_and_counted(shed, value: float, by_message: bool) -> None:
    """Be the function the query's own or one that came later."""
    by = {"b": "b.imp - 1"}
    operator = wr.Operator(query("ab", 4, shed(by={"b": "b.imp"} if by_message else by)))
    if by_message:
        operator.process({a: timed({"ts": [0], "k": [1], "imp": [1.0]}) for a in "ab"})
        operator.control({"at": 1, "importance": by})
    rows = timed({"ts": [1, 2, 3, 4], "k": [1] * 4, "imp": [2.0, value, 3.0, 1.5]})
    operator.process({"a": rows, "b": rows})
    assert operator.metrics().quality.rows_null_importance == 1
    assert operator.metrics().window_rows <= 4


def test_an_importance_that_fails_on_a_row_is_none_of_its_quantum() -> None:
    def strict(values: pa.Array) -> pa.Array:
        if any(v is not None and v > 5 for v in values.to_pylist()):
            raise ValueError("not made for this")
        return values

    function = wr.Function(strict, pa.float64(), vectorized=True)
    described = query("ab", 6, Greedy(by={"b": "strict(b.imp)"}), functions={"strict": function})
    operator = wr.Operator(described)
    for start, value in ((0, 1.0), (4, 9.0), (8, 1.0)):
        rows = timed({"ts": [start, start + 1], "k": [1, 1], "imp": [value, 1.0]})
        operator.process({"a": rows, "b": rows})
    assert 0 < operator.metrics().quality.rows_null_importance <= 4


@pytest.mark.parametrize("shed", [Greedy, Importance, wr.policies.Auto])
def test_a_state_is_used_with_another_importance(shed: type[Any]) -> None:
    """All rows are judged anew by it, those held too; what was said while the query ran no longer counts."""
    first, rest = feeds("ab", 200), feeds("ab", 20, seed=5, start=200)
    described = query("ab", 60, shed(by={"a": "a.imp"}), within=400)
    operator = wr.Operator(described)
    operator.process(first)
    operator.control({"at": 0, "importance": {"a": "a.imp * 3"}})
    now = replace(described, shed=shed(by={"a": "a.imp + 1", "b": "b.imp"}))
    restored = wr.Operator.restore(now, operator.snapshot())
    restored.process(rest)
    for stream, more in enumerate((1, 0)):
        held = view(restored, stream)
        (imp,) = held.payload(("imp",), 0)
        assert held.ts.min() < 200 * SECOND < held.ts.max()
        assert importance(restored).of(held).tolist() == [value + more for value in imp.to_pylist()]
    other = wr.Operator.restore(replace(described, shed="frequency"), operator.snapshot())
    other.process(rest)
    assert other.metrics().window_rows <= 60


# --- Wrong from the start --------------------------------------------------------------------------------

SCHEMA = pa.schema({"ts": pa.timestamp("us"), "k": pa.int64(), "imp": pa.float64(), "text": pa.string()})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("b.imq", "unknown column 'imq' of stream 'b'. Did you mean 'imp'"),
        ("b.text", "expected a number, got 'b.text' of type string"),
        ("b.imp > 1", "expected a number, got 'b.imp > 1' of type bool"),
        ("a.imp + b.imp", "refers to the streams a, b; give one expression for each"),
        ("1 + 1", "names no column"),
        ("imp", "column 'imp' names no stream"),
        ("b.imp +", "cannot parse"),
        ("sum(b.imp)", "needs many rows"),
        ({"x": "b.imp"}, "unknown stream 'x'"),
        ({"a": "b.imp"}, "'b.imp' of 'a' refers to stream 'b'"),
        ({"a": Lookup("imq", {1: 2})}, "unknown column 'imq' of stream 'a'"),
        ({"a": Lookup("k", {"x": 2})}, r"column 'k' is int64, its values cannot be \['x'\]"),
    ],
)
@pytest.mark.parametrize("shed", [Greedy, Importance])
def test_wrong_importance_is_told_before_any_row(shed: type[Any], given: Any, message: str) -> None:
    described = query("ab", 10, shed(by=given))
    with pytest.raises(QueryError, match=message) as told:
        wr.Operator(described, dict.fromkeys("ab", SCHEMA))
    assert str(told.value).startswith(f"shed {shed.name}: by")


def test_wrong_initial_priority_is_told_as_such() -> None:
    with pytest.raises(QueryError, match="shed importance: initial: expected a number"):
        wr.Operator(query("ab", 10, Importance(initial="a.text")), dict.fromkeys("ab", SCHEMA))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"combine": "least"}, "unknown combine 'least'"),
        ({"recompute": "sucessive"}, "Did you mean 'successive'"),
        ({"maturity": "-2 seconds"}, "maturity: must not be negative"),
        ({"maturity": "soon"}, "maturity: expected a duration"),
        ({"unproductive": "3 parsecs"}, "unproductive: unknown unit"),
        ({"penalty": -1.0}, "penalty: must be a number from 0"),
        ({"decay": math.inf}, "decay: must be a number from 0"),
        ({"initial": math.nan}, "initial: must be finite"),
        ({"k": 0}, "k: must be a whole number of at least 1"),
        ({"tolerance": 1.0}, "tolerance: must be a fraction from 0"),
        ({"by": 3}, "expected an expression such as 'b.price'"),
        ({"by": {}}, "expected an expression such as 'b.price'"),
        ({"by": {"a": 3}}, "by: expected an expression or wr.policies.Lookup"),
    ],
)
def test_parameters_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Importance(**options)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"x": -1.0}, "from 0, got -1.0 for 'x'"),
        ({"x": "much"}, "got 'much' for 'x'"),
        ({(1,): 1.0}, "got \\(1,\\)"),
    ],
)
def test_tables_that_make_no_sense(values: dict[Any, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Lookup("k", values)


# --- Another importance, while it runs -------------------------------------------------------------------


def test_a_new_function_holds_from_its_time_on() -> None:
    """Rows held are judged anew, and results from then on."""
    operator = wr.Operator(query("ab", 100, Greedy(by="a.imp", monitor_fraction=0.0), evaluate="eager"))
    first = timed({"ts": [0, 1], "k": [1, 2], "imp": [3.0, 4.0]})
    operator.process({"a": first, "b": first.slice(0, 0)})
    importance(operator).change(5 * SECOND, {"a": "10 * a.imp", "b": Lookup("k", {1: 7.0})})
    operator.process({"a": first.slice(0, 0), "b": timed({"ts": [4, 5], "k": [1, 1], "imp": [0.0, 0.0]})})
    assert importance(operator).total == 3.0 + min(30.0, 7.0)
    assert view(operator, 0).row_state["importance"].tolist() == [30.0, 40.0]
    assert view(operator, 1).row_state["importance"].tolist() == [7.0, 7.0]


def test_of_several_functions_the_newest_holds_that_is_due() -> None:
    operator = wr.Operator(query("ab", 100, Greedy(by="a.imp", monitor_fraction=0.0), evaluate="eager"))
    rows = timed({"ts": [0], "k": [1], "imp": [1.0]})
    operator.process({"a": rows, "b": rows.slice(0, 0)})
    for at, factor in ((6, 300), (2, 100), (3, 200), (3, 250)):
        importance(operator).change(at * SECOND, f"{factor} * a.imp")
    seen = []
    for time in (1, 2, 4, 7):
        operator = wr.Operator.restore(operator.query, operator.snapshot())
        operator.process({"a": rows.slice(0, 0), "b": timed({"ts": [time], "k": [9], "imp": [0.0]})})
        seen.append(view(operator, 0).row_state["importance"].tolist())
    assert seen == [[1.0], [100.0], [250.0], [300.0]]


def test_a_wrong_new_function_changes_nothing() -> None:
    operator = wr.Operator(query("ab", 10, Importance(by="a.imp")), dict.fromkeys("ab", SCHEMA))
    with pytest.raises(QueryError, match="shed importance: by: unknown column 'imq' of stream 'a'"):
        importance(operator).change(0, "a.imq")
    operator.process(
        {
            alias: table.append_column("text", pa.nulls(50, pa.string()))
            for alias, table in feeds("ab", 50).items()
        }
    )


def test_functions_travel_as_json() -> None:
    given = {"a": "a.imp", "b": Lookup("k", {1: 2.0, "x": 3, 0.5: 1}, default=4.0)}
    assert check_by(by_to_plain(check_by(given))) == check_by(given)
    spelled = {"b": {"column": "k", "values": {"x": 3.0}}}
    assert check_by(spelled) == {"b": Lookup("k", {"x": 3.0})}


@pytest.mark.parametrize("recompute", ["successive", "k-successive", "adaptive"])
def test_a_restored_operator_goes_on_the_same(recompute: str) -> None:
    policy = Importance(by={"a": "a.imp", "b": Lookup("k", {0: 5.0}, default=1.0)}, recompute=recompute)
    described = query("ab", 40, policy, seed=3)
    whole, parts = wr.Operator(described), wr.Operator(described)
    for number in range(8):
        tables = feeds("ab", 60, seed=number, start=60 * number)
        parts = wr.Operator.restore(described, parts.snapshot())
        assert parts.process(tables).equals(whole.process(tables))
        assert parts.metrics().quality == whole.metrics().quality
        if number == 3:
            for operator in (whole, parts):
                importance(operator).change(400 * SECOND, {"b": "b.imp"})
    assert whole.metrics().rows_evicted
