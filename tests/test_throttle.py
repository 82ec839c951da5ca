"""The throttle fraction by the paper's rule; that of quanta is in test_time_limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.errors import QueryError
from windrow.harvest.throttle import Throttle, adapted, consumption


def test_the_papers_rule_by_hand():
    """300 rows come, 200 are consumed: two thirds of the work; then all are, and it is boosted (s. 3.1)."""
    throttle = adapted(Throttle(), consumption(200, 300))
    assert throttle.fraction == pytest.approx(2 / 3)
    throttle = adapted(throttle, consumption(200, 200))
    assert throttle.fraction == pytest.approx(0.8)
    throttle = adapted(throttle, consumption(210, 200))
    assert throttle.fraction == pytest.approx(0.96)
    assert adapted(throttle, consumption(0, 0)).fraction == 1


@given(st.floats(0.05, 20))
def test_it_settles_where_consumption_meets_arrival(overload):
    """A join that can do 1/overload of the work: the fraction ends up between that and a boost above it."""
    throttle = Throttle()
    for _ in range(200):
        can = min(1.0, 1 / (overload * throttle.fraction))
        throttle = adapted(throttle, consumption(100 * can, 100))
    assert min(1, 1 / overload) / 1.0001 <= throttle.fraction <= min(1, 1.2001 / overload)


def test_it_refuses_nonsense():
    for wrong in ({"fraction": 0}, {"boost": 1}, {"interval": 0}, {"floor": 0}, {"fraction": 1.1}):
        with pytest.raises(QueryError, match="throttle"):
            Throttle(**wrong)
