"""The throttle fraction: one rule, three ways to measure."""

from __future__ import annotations

import json
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.errors import QueryError
from windrow.planning.throttle import Throttle, adapted, consumption, pace, timeliness


def test_the_papers_rule_by_hand():
    """300 rows come, 200 are consumed: two thirds of the work; then all are, and it is boosted (s. 3.1)."""
    throttle = adapted(Throttle(), consumption(200, 300))
    assert throttle.fraction == pytest.approx(2 / 3)
    throttle = adapted(throttle, consumption(200, 200))
    assert throttle.fraction == pytest.approx(0.8)
    throttle = adapted(throttle, consumption(210, 200))
    assert throttle.fraction == pytest.approx(0.96)
    assert adapted(throttle, consumption(0, 0)).fraction == 1


def test_a_deadline_is_not_overshot():
    """Time tells how much would be enough, so the fraction is raised by no more than that."""
    assert timeliness(spent=1.9, budget=2.0) == pytest.approx(2 / 1.9)
    assert adapted(Throttle(0.5), timeliness(1.9, 2.0)).fraction == pytest.approx(0.5 * 2 / 1.9)
    assert adapted(Throttle(0.5), timeliness(0.1, 2.0)).fraction == pytest.approx(0.6)
    # Of 3 seconds 1 is fixed: the other two must become one.
    assert adapted(Throttle(), timeliness(3, 2, fixed=1)).fraction == pytest.approx(0.5)
    assert adapted(Throttle(), timeliness(3, 2, fixed=2.5)).fraction == Throttle().floor


def test_the_rest_of_a_batch():
    # 100 rows took 1 s; 300 are left with 1 s: a third each.
    assert pace(spent=1, done=100, left=300, budget=1) == pytest.approx(1 / 3)
    assert pace(spent=1, done=100, left=300, budget=2, fixed=0.005) == pytest.approx(
        (2 / 300 - 0.005) / 0.005
    )
    assert pace(1, 100, 300, budget=-1) == 0
    assert pace(1, 100, 0, budget=1) == inf


@given(st.floats(0.01, 100), st.integers(2, 40))
def test_quanta_keep_a_batch_within_its_deadline(overload, quanta):
    """A batch of 1,000 rows that would take `overload` seconds has one. The first quantum goes ahead with
    everything; the others absorb it, unless it took the whole second."""
    throttle, spent, rows = Throttle(floor=1e-9), 0.0, 1000 / quanta
    for quantum in range(1, quanta + 1):
        took = overload / quanta * throttle.fraction
        spent += took
        throttle = adapted(throttle, pace(took, rows, max(0.0, 1000 - rows * quantum), 1.0 - spent))
    assert spent <= max(1.0, overload / quanta) + 1e-6
    assert spent == pytest.approx(min(overload, 1.0), rel=1e-6) or overload / quanta > 1


@given(st.floats(0.05, 20))
def test_it_settles_where_consumption_meets_arrival(overload):
    """A join that can do 1/overload of the work: the fraction ends up between that and a boost above it."""
    throttle = Throttle()
    for _ in range(200):
        can = min(1.0, 1 / (overload * throttle.fraction))
        throttle = adapted(throttle, consumption(100 * can, 100))
    assert min(1, 1 / overload) / 1.0001 <= throttle.fraction <= min(1, 1.2001 / overload)


def test_it_survives_json_and_refuses_nonsense():
    throttle = Throttle(0.3, 1.5, 4.0)
    assert Throttle.from_plain(json.loads(json.dumps(throttle.to_plain()))) == throttle
    for wrong in ({"fraction": 0}, {"boost": 1}, {"interval": 0}, {"floor": 0}, {"fraction": 1.1}):
        with pytest.raises(QueryError, match="throttle"):
            Throttle(**wrong)
    with pytest.raises(QueryError, match="budget above 0"):
        timeliness(1, 0)
