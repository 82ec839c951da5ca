"""Whether rows stay equally long under a memory limit: Jain's index of how long they stayed."""

from __future__ import annotations

import pytest

import windrow as wr
from valued import PLAIN, every_second, query
from windrow.model.policies.baselines import Fifo, UntilExpiry
from windrow.model.policies.importance import Greedy


@pytest.mark.parametrize("monitor", [0.0, 0.3])
def test_fifo_is_fair(monitor: float) -> None:
    """Rows that stay only to be watched do not count as kept."""
    operator = wr.Operator(query("ab", 20, Fifo(split="equal", monitor_fraction=monitor), evaluate="eager"))
    operator.process(every_second(200))
    assert operator.metrics().quality.fairness == pytest.approx(1.0, abs=0.05 if monitor else 1e-9)


def test_what_is_never_let_in_is_not() -> None:
    """5 of 20 or 21 rows stay for 20 seconds, the others for none; Jain's index is the part that stays."""
    operator = wr.Operator(query("ab", 10, UntilExpiry(**PLAIN), evaluate="eager"))
    operator.process(every_second(300))
    fairness = operator.metrics().quality.fairness
    assert fairness is not None and 5 / 22 < fairness < 5 / 20


def test_without_eviction_all_stay_equally_long() -> None:
    operator = wr.Operator(query("ab", 1000, Greedy(), evaluate="every 50 rows"))
    operator.process(every_second(200))
    assert operator.metrics().quality.fairness == 1.0
