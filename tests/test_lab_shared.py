"""The lab's server on the virtual clock, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from windrow.engine.shared.schedule import SCHEDULES
from windrow.errors import WindrowError
from windrow_lab.queue_kernels import serve
from windrow_lab.shared import (
    VALUES,
    ArrivalTrace,
    CountedMatches,
    ServerCosts,
    bursts,
    calibrated,
    count,
    poisson,
    response,
)


def plainly(arrived: list[float], work: np.ndarray, ranks: np.ndarray) -> tuple[np.ndarray, int]:
    """The paper's loop (s. 3.2): queues per window, the one of the best rank first."""
    rows, rungs = work.shape
    queues: list[list[int]] = [[] for _ in range(rungs)]
    ended = np.empty(work.shape)
    now, came, done, most = 0.0, 0, 0, 0
    while done < rows:
        while came < rows and arrived[came] <= now:
            queues[0].append(came)
            came += 1
        most = max(most, came - done)
        ready = [r for r in range(rungs) if queues[r]]
        if not ready:
            now = arrived[came]
            continue
        rung = min(ready, key=lambda r: ranks[r])
        row = queues[rung].pop(0)
        now += work[row, rung]
        ended[row, rung] = now
        if rung + 1 < rungs:
            queues[rung + 1].append(row)
        else:
            done += 1
    return ended, most


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_units_end_as_in_the_papers_loop(schedule):
    rng = np.random.default_rng(3)
    arrived = np.cumsum(rng.exponential(1.0, 200))
    work = rng.exponential(0.3, (200, 4))
    ranks = SCHEDULES[schedule](np.array([2.0, 1.0, 5.0, 1.5])).astype(np.int64)
    ended = np.empty(work.shape)
    most = serve(arrived, work, ranks, ended)
    want, largest = plainly(list(arrived), work, ranks)
    assert np.allclose(ended, want)
    assert most == largest


def test_matches_are_counted_by_rung():
    trace, windows = poisson(20, 300, 5, 1), (0.5, 2.0, 5.0)
    counted, scanned = count(trace, windows, nested=False), count(trace, windows, nested=True)
    for i in (0, 17, 299):
        at = trace.first + i
        ages = trace.times[at] - trace.times[:at]
        other = trace.streams[:at] != trace.streams[at]
        same = trace.keys[:at] == trace.keys[at]
        for rung, (low, high) in enumerate(((-1, 0.5), (0.5, 2.0), (2.0, 5.0))):
            inside = (ages > low) & (ages <= high)
            assert counted.found[i, rung] == (inside & other & same).sum()
            assert scanned.looked[i, rung] == (inside & other).sum()


def test_results_wait_as_the_paper_says():
    """Two rows at once, two windows: by hand."""
    trace = ArrivalTrace(np.zeros(2), np.zeros(2, np.int64), np.zeros(2, np.int64), 0)
    counted = CountedMatches(np.array([[1, 1], [1, 1]]), np.array([[1, 3], [1, 3]]))
    machine = ServerCosts(look=1.0, make=0.0)
    # LWO: row 1 ends its slices at 1 and 4, row 2 at 5 and 8.
    assert response(trace, counted, (1, 4), "lwo", machine).mean.tolist() == [3.0, (1 + 4 + 5 + 8) / 4]
    # SWF: at 1, 2, 5, 8; the larger query gets both results of a row when it has passed the larger window.
    swf = response(trace, counted, (1, 4), "swf", machine)
    assert swf.mean.tolist() == [1.5, (5 + 5 + 8 + 8) / 4]
    # Greedy serves likewise, but the first row's first result need not wait for its second.
    greedy = response(trace, counted, (1, 4), "greedy", machine)
    assert greedy.mean.tolist() == [1.5, (1 + 5 + 5 + 8) / 4]
    assert (swf.held, greedy.held, swf.waiting) == (2, 1, 2)


def test_streams_have_the_rate_they_should():
    for trace in (poisson(50, 20_000, 10, 2), bursts(50, 1, 20_000, 10, 2), bursts(50, 1.5, 20_000, 10, 2)):
        seconds = trace.arrived[-1] - trace.arrived[0]
        assert len(trace.arrived) / seconds == pytest.approx(100, rel=0.1)
        assert trace.times[trace.first] >= 10
        assert trace.keys.max() < VALUES
    windows = (1.0, 10.0)
    trace = bursts(50, 1, 2_000, 10, 2)
    counted = count(trace, windows, nested=False)
    m = calibrated(trace, counted, 0.5)
    work = m.look * counted.looked.sum() + m.make * counted.found.sum()
    assert work == pytest.approx(0.5 * (trace.arrived[-1] - trace.arrived[0]))


def test_too_few_rows_are_refused():
    with pytest.raises(WindrowError, match="do not fill"):
        poisson(100, 0, 10, 1)
