"""The throttle fraction by the paper's rule; that of quanta is in test_time_limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.harvest.throttle import adapted


def test_the_papers_rule_by_hand():
    """300 rows come, 200 are consumed: two thirds of the work; then all are, and it is boosted (s. 3.1)."""
    z = adapted(1.0, 1.2, 200, 300)
    assert z == pytest.approx(2 / 3)
    z = adapted(z, 1.2, 200, 200)
    assert z == pytest.approx(0.8)
    z = adapted(z, 1.2, 210, 200)
    assert z == pytest.approx(0.96)
    assert adapted(z, 1.2, 0, 0) == 1
    assert 0 < adapted(z, 1.2, 0, 100) < 1e-3, "from 0 it could not rise again"


@given(st.floats(0.05, 20))
def test_it_settles_where_consumption_meets_arrival(overload):
    """A join that can do 1/overload of the work: the fraction ends up between that and a boost above it."""
    z = 1.0
    for _ in range(200):
        can = min(1.0, 1 / (overload * z))
        z = adapted(z, 1.2, 100 * can, 100)
    assert min(1, 1 / overload) / 1.0001 <= z <= min(1, 1.2001 / overload)
