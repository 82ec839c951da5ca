"""AUTO on three streams, where what a row finds depends on what is held of the others."""

from __future__ import annotations

import numpy as np
import pytest

import windrow as wr
from windrow.engine.operator import runner_of
from windrow.eviction.models.match_rates import fit
from windrow.eviction.policies.auto import AutoRanking
from windrow.model.policies.parse import POLICIES
from windrow_lab.memory import JoinWorkload
from windrow_lab.memory_streams import following, shared_key


def recall(trace: JoinWorkload, part: float, policy: str) -> float:
    found = trace.under(part * trace.whole, POLICIES[policy](), 0, "every 100 rows")
    return found.recall(trace.exact, 2 * max(trace.windows.values()))


@pytest.mark.parametrize("part", [0.2, 0.4])
def test_keys_that_come_evenly_on_three_streams(part: float) -> None:
    trace = shared_key(3, 80, 3, 10, 20, 100, 0.8)
    assert recall(trace, part, "auto") > 0.95 * recall(trace, part, "frequency")


@pytest.mark.parametrize("part", [0.2, 0.4])
def test_three_streams_that_follow_each_other(part: float) -> None:
    trace = following(3, 80, 3, 20, 20, 4)
    assert recall(trace, part, "auto") > 0.95 * recall(trace, part, "age")


def test_the_longer_nothing_is_found_the_less_is_expected() -> None:
    nothing, foretold = np.zeros((3, 4)), np.ones((3, 4))
    rates = [fit(nothing, np.full((3, 4), spent), foretold).whole.max() for spent in (0.0, 1.0, 100.0)]
    assert rates[0] == pytest.approx(1.0)
    assert rates[0] > rates[1] > 10 * rates[2]


def test_the_first_quantum_takes_its_time() -> None:
    """Rows of two seconds have come, so counts have filled for as long: not for no time at all."""
    trace = shared_key(2, 2, 0, 10, 20, 10, 0.8)
    streams = {alias: wr.Stream("ts", "20 s") for alias in trace.tables}
    operator = wr.Operator(wr.Query(streams, trace.on, memory="1000 rows", shed="auto"))
    operator.process(trace.tables)
    operator.finish()
    assert runner_of(operator).join is not None and runner_of(operator).join.evictor is not None
    ranking = runner_of(operator).join.evictor.ranking
    assert isinstance(ranking, AutoRanking)
    assert ranking._keys._intensities[0]._seconds == pytest.approx(2.0, abs=0.3)
