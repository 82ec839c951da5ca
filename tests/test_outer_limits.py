"""Outer, semi and anti joins under limits: what is certain is right, and uncertainty is said."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import windrow as wr
from outer_cases import OuterCase, outer_cases, outer_ids
from queries import examples, tiny
from test_memory_limit import UNSAMPLED, applies
from test_time_limit import POLICIES, play, timed
from windrow.engine.operator import runner_of
from windrow.model.join_kind import CERTAIN

# --- Under a memory limit ---------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", UNSAMPLED)
@examples(8)
@given(
    case=outer_cases(most_streams=3) | outer_cases(most_streams=3, counted=True),
    limit=st.integers(5, 60),
)
def test_what_is_certain_is_right(policy: str, case: OuterCase, limit: int) -> None:
    assume(applies(policy, case))
    output, measured = case.run(memory=f"{limit} rows", shed=policy)
    answer, told = case.answer(), CERTAIN in output.column_names
    assert told == case.query(memory="9 rows").kind.reports_certainty
    sure = output.filter(output.column(CERTAIN)) if told else output
    surplus = outer_ids(sure) - answer
    assert not surplus
    assert measured.results == output.num_rows
    assert measured.results_uncertain == output.num_rows - sure.num_rows
    assert measured.window_rows <= limit


@pytest.mark.parametrize("policy", UNSAMPLED)
@examples(5)
@given(case=outer_cases(most_streams=3))
def test_an_ample_limit_changes_nothing(policy: str, case: OuterCase) -> None:
    assume(applies(policy, case))
    output, measured = case.run(memory="1 GiB", shed=policy)
    assert outer_ids(output) == case.answer()
    assert measured.results_uncertain == measured.combinations_given_up == 0


def test_uncertainty_ends_with_the_losses() -> None:
    """While rows of b are evicted nobody knows whether a row of a had a match; a window later all do."""
    rng = np.random.default_rng(3)
    streams = {"a": wr.Stream("ts", "5 s"), "b": wr.Stream("ts", "5 s")}
    op = wr.Operator(wr.Query(streams, "a.k = b.k", how="left", memory="60 rows", shed="random"))
    crowded = [np.sort(rng.uniform(10 * n, 10 * n + 10, 200)) for n in range(3)]
    calm = [np.arange(10 * n, 10 * n + 10, 1.0) for n in range(3, 9)]
    tables = []
    for times in crowded + calm:
        call = {x: tiny(times, k=rng.integers(0, 50, len(times))) for x in "ab"}
        tables.append(op.process(call))
    first, last = tables[1].to_pylist(), tables[-1].to_pylist()
    assert any(not row["certain"] for row in first if row["b"] is None)
    assert last and all(row["certain"] for row in last)
    assert op.metrics().combinations_given_up > 0


# --- Under a deadline, on a virtual clock ------------------------------------------------------------------

TIMED = [*POLICIES, wr.policies.Harvesting(buffer_rows=20), wr.policies.Dropping(buffer_rows=5)]


@pytest.mark.parametrize("policy", TIMED, ids=str)
@examples(25)
@given(
    case=outer_cases(most_streams=3) | outer_cases(most_streams=3, counted=True),
    capacity=st.sampled_from([20, 50, 400]),
    cut=st.none() | st.integers(0, 3),
    limit=st.sampled_from([None, None, "40 rows"]),
)
def test_what_is_certain_is_right_in_no_time(
    policy: Any, case: OuterCase, capacity: float, cut: int | None, limit: str | None
) -> None:
    assume(not case.counted or getattr(policy, "buffer_rows", None) is None)
    settings = {"memory": limit, "shed": ("random", policy)} if limit else {"shed": policy}
    output, measured = play(case, capacity, cut, deadline="1 second", **settings)
    answer, told = case.answer(), CERTAIN in output.column_names
    assert told == case.query(memory="9 rows").kind.reports_certainty
    sure = output.filter(output.column(CERTAIN)) if told else output
    surplus = outer_ids(sure) - answer
    assert not surplus
    if case.how in ("left", "right", "full") and not case.match:
        pairs = Counter({pair: n for pair, n in outer_ids(output).items() if None not in pair})
        assert not pairs - answer
    assert measured.results == output.num_rows
    assert measured.results_uncertain == output.num_rows - sure.num_rows


@pytest.mark.parametrize("policy", TIMED, ids=str)
@examples(10)
@given(case=outer_cases(most_streams=3))
def test_ample_time_changes_nothing(policy: Any, case: OuterCase) -> None:
    output, measured = play(case, 1e12, deadline="1 second", shed=policy)
    assert outer_ids(output) == case.answer()
    assert measured.results_uncertain == measured.rows_dropped == 0


def times_of(output: pa.Table) -> Counter[tuple]:
    streams = [name for name in output.column_names if name != CERTAIN]
    return Counter(tuple(row[s] and row[s]["ts"] for s in streams) for row in output.to_pylist())


@pytest.mark.parametrize("how", ["left", "anti", "semi"])
def test_a_deadline_drops_rows_and_says_what_may_be_false(how: str) -> None:
    rng = np.random.default_rng(5)
    streams = {x: wr.Stream("ts", "5 s") for x in "ab"}
    settings: dict[str, Any] = {"how": how, "late": "1 s"}
    calls = []
    for second in range(40):
        times = {x: np.sort(rng.uniform(second, second + 1, 60)) for x in "ab"}
        calls.append({x: tiny(times[x], k=rng.integers(0, 400, 60)) for x in "ab"})
    free = timed(wr.Query(streams, "a.k = b.k", **settings), 1.0)
    exact = pa.concat_tables([*map(free.process, calls), free.finish()])
    capacity = runner_of(free).work[0] / 40 / 3
    op = timed(wr.Query(streams, "a.k = b.k", deadline="1 second", **settings), capacity)
    output = pa.concat_tables([*map(op.process, calls), op.finish()])
    measured = op.metrics()
    assert measured.rows_dropped > 0
    assert measured.missed_deadlines <= len(calls) / 4
    if how == "semi":
        assert CERTAIN not in output.column_names
        assert 0 < output.num_rows < exact.num_rows
        assert np.isnan(measured.recall)
    else:
        assert 0 < measured.results_uncertain <= measured.results_unmatched
        sure = output.filter(output.column(CERTAIN))
        assert sure.num_rows > 0 and not times_of(sure) - times_of(exact)
