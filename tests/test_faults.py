"""One real fault of each kind, in every run: a worker lost, a driver killed, state damaged.

The rest are in `test_faults_*.py` and `test_cluster.py`, with --faults (make soak).
"""

from __future__ import annotations

import pytest

from driver import Drivers
from faults import kill
from places import Place, differences
from test_faults_state import TRUNCATED, truncate
from windrow.state.inspect import verify


def test_workers_lost_then_the_driver_killed_then_state_truncated(drivers: Drivers, at: Place) -> None:
    """One test, since a driver takes seconds to start: the second goes on where the first was killed, and its
    workers, which remember nothing, meet the damage."""
    at.arrive(3)
    drivers.faults.plant("results", "pause", batch=1)
    drivers.driver.order("pairs", at)
    for pid in drivers.faults.wait():
        kill(pid)
    assert drivers.driver.reply()["error"] is None
    assert not differences(at.found(), at.expected())

    before = at.found()
    at.arrive(1)
    drivers.die_at("mark", 3, "pairs", at)
    assert at.found() == before

    mend = truncate(at, "*2")
    assert verify(str(at / "state")).damage
    with pytest.raises(RuntimeError, match=TRUNCATED):
        drivers.driver.run("pairs", at)
    mend()
    drivers.driver.run("pairs", at)
    assert not differences(at.found(), at.expected())
    assert not verify(str(at / "state")).damage
