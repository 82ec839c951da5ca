"""The lab's server, the shared operator on a virtual clock, against the paper's loop written plainly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from windrow.engine.shared.schedule import SCHEDULES
from windrow.errors import WindrowError
from windrow_lab.shared import VALUES, ArrivalTrace, ServerCosts, SharedWorkload, bursts, poisson

WINDOWS = (0.5, 2.0, 3.0, 7.0)


def slices(trace: ArrivalTrace, windows: Sequence[float], scans: bool) -> tuple[np.ndarray, np.ndarray]:
    """Per measured row and slice: results, and rows looked at."""
    times, bounds = np.rint(1e6 * trace.times).astype(int), [int(1e6 * w) for w in (*windows,)]
    found = np.zeros((len(trace.arrived), len(windows)), int)
    looked = np.zeros_like(found)
    for i in range(len(found)):
        at = trace.first + i
        ages = times[at] - times[:at]
        other = trace.streams[:at] != trace.streams[at]
        same = other & (trace.keys[:at] == trace.keys[at])
        low = -1
        for k, high in enumerate(bounds):
            inside = (ages > low) & (ages <= high)
            found[i, k] = (inside & same).sum()
            looked[i, k] = found[i, k] + ((inside & other).sum() if scans else 0)
            low = high
    return found, looked


def papers_loop(arrived: np.ndarray, work: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """When each unit ends (s. 3.2): a queue per window, the one of the best rank first."""
    rows, tiers = work.shape
    queues: list[list[int]] = [[] for _ in range(tiers)]
    ended = np.empty(work.shape)
    now, came, done = float(arrived[0]), 0, 0
    while done < rows:
        while came < rows and arrived[came] <= now:
            queues[0].append(came)
            came += 1
        ready = [r for r in range(tiers) if queues[r]]
        if not ready:
            now = arrived[came]
            continue
        tier = min(ready, key=lambda r: ranks[r])
        row = queues[tier].pop(0)
        now += work[row, tier]
        ended[row, tier] = now
        if tier + 1 < tiers:
            queues[tier + 1].append(row)
        else:
            done += 1
    return ended


def responses(schedule: str, trace: ArrivalTrace, costs: ServerCosts, scans: bool = False):
    """Mean and maximum per query, by the paper's rules; and the most rows of a stream that wait."""
    found, looked = slices(trace, WINDOWS, scans)
    work = costs.look * looked + costs.make * found
    ended = papers_loop(trace.arrived, work, SCHEDULES[schedule].rank(np.diff(WINDOWS, prepend=0)))
    means, largest = [], []
    for query in range(len(WINDOWS)):
        times = []
        for i, arrived in enumerate(trace.arrived):
            earlier = ended[:i, query].max(initial=-np.inf)
            for k in range(query + 1):
                n = found[i, k]
                made = ended[i, k] - work[i, k] * (1 - np.arange(1, n + 1) / max(1, n))
                released = np.full(n, ended[i, query]) if schedule == "swf" else np.maximum(made, earlier)
                times += list(released - arrived)
        means.append(np.mean(times))
        largest.append(np.max(times))
    streams = trace.streams[trace.first :]
    waits = [
        int((streams[: i + 1][ended[: i + 1, -1] >= arrived] == stream).sum())
        for stream in range(2)
        for i, arrived in enumerate(trace.arrived)
    ]
    return means, largest, max(waits)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("load", [0.5, 0.9])
@pytest.mark.parametrize("size", [1, 3])
def test_results_are_released_as_in_the_papers_loop(schedule, load, size):
    trace = bursts(40, size, 250, WINDOWS[-1], seed=size)
    workload = SharedWorkload.of(WINDOWS, trace)
    costs = workload.costs(load)
    found, looked = slices(trace, WINDOWS, scans=False)
    seconds = trace.arrived[-1] - trace.arrived[0]
    assert costs.look * looked.sum() + costs.make * found.sum() == pytest.approx(load * seconds)
    served = workload.serve(schedule, costs)
    mean, largest, most = responses(schedule, trace, costs)
    assert served.mean == pytest.approx(np.array(mean), rel=1e-6)
    assert served.most == pytest.approx(np.array(largest), rel=1e-6)
    assert served.waiting == most


def test_scans_look_at_every_row_of_the_slice():
    """Under SWF, where a response does not depend on where in its slice a result lies."""
    trace = poisson(20, 120, WINDOWS[-1], 1)
    workload = SharedWorkload.of(WINDOWS, trace, scans=True)
    costs = workload.costs(0.5)
    found, looked = slices(trace, WINDOWS, scans=True)
    seconds = trace.arrived[-1] - trace.arrived[0]
    assert costs.look * looked.sum() + costs.make * found.sum() == pytest.approx(0.5 * seconds)
    served = workload.serve("swf", costs)
    mean, largest, most = responses("swf", trace, costs, scans=True)
    assert served.mean == pytest.approx(np.array(mean))
    assert served.most == pytest.approx(np.array(largest))
    assert served.waiting == most


def test_results_wait_as_the_paper_says():
    """Two rows of a at once, one row of b in each of two slices; a look takes a second. By hand."""
    trace = ArrivalTrace(np.array([6.0, 9.5, 10, 10]), np.array([1, 1, 0, 0]), np.zeros(4, int), 2)
    workload = SharedWorkload.of((1, 5), trace)
    served = {s: workload.serve(s, ServerCosts(1.0, 0.0)) for s in SCHEDULES}
    # LWO: the first row's results are found at 1 and 2, the second's at 3 and 4.
    assert served["lwo"].mean.tolist() == [(1 + 3) / 2, (1 + 2 + 3 + 4) / 4]
    # SWF: slices end at 1, 2, 3, 4. A row's results are released when it has passed the query's window.
    assert served["swf"].mean.tolist() == [(1 + 2) / 2, (3 + 3 + 4 + 4) / 4]
    # Greedy: likewise, but the first row's first result need not wait for its second.
    assert served["greedy"].mean.tolist() == [(1 + 2) / 2, (1 + 3 + 3 + 4) / 4]
    assert [served[s].held for s in SCHEDULES] == [0, 2, 1]
    assert [served[s].waiting for s in SCHEDULES] == [2, 2, 2]


def test_streams_have_the_rate_they_should():
    for trace in (poisson(50, 20_000, 10, 2), bursts(50, 1, 20_000, 10, 2), bursts(50, 1.5, 20_000, 10, 2)):
        seconds = trace.arrived[-1] - trace.arrived[0]
        assert len(trace.arrived) / seconds == pytest.approx(100, rel=0.1)
        assert trace.times[trace.first] >= 10
        assert trace.keys.max() < VALUES


def test_too_few_rows_are_refused():
    with pytest.raises(WindrowError, match="do not fill"):
        poisson(100, 0, 10, 1)
