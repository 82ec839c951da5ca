"""Watched rows: as many as are allowed, with their weights; and what they tell of rows nobody watched."""

from __future__ import annotations

import numpy as np
import pytest

from windrow.estimation.clumps import Clumps
from windrow.estimation.missed import Loss
from windrow.estimation.recall import ResultEstimate
from windrow.eviction.monitor import MONITOR_SLOT, MONITORED_PER_SHADOW, LossMonitor
from windrow.eviction.window_view import ProbeResults, WindowView


def view(rng: np.random.Generator, rows: int, fresh: int = 0, stream: int = 0) -> WindowView:
    return WindowView(
        stream=stream,
        ts=np.arange(rows),
        join_columns={},
        row_state={MONITOR_SLOT: np.zeros(rows)},
        first_new=fresh,
        window_length=rows,
        now=rows,
        elapsed=0.0,
        learn_stride=1,
        learning=True,
        rng=rng,
        payload=lambda names, start: [],
    )


def slots(seen: WindowView) -> np.ndarray:
    noted = seen.row_state[MONITOR_SLOT]
    return noted[noted > 0].astype(np.int64) - 1


def test_ghosts_are_as_many_as_allowed_and_stand_for_all_rows() -> None:
    stood_for, ghosts, watched = [], [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        monitor, seen = LossMonitor(), view(rng, 2000)
        monitor.activate([seen], 100)
        monitor.mark_shadow(slots(seen))
        left = monitor.adjust([seen], 30)[0]
        ghosts.append(int(left.shadow.sum()))
        # Those that must go are no longer watched.
        assert (
            set(left.leaving).isdisjoint(left.rows) and not seen.row_state[MONITOR_SLOT][left.leaving].any()
        )
        stood_for.append(monitor.weights([(seen.row_state[MONITOR_SLOT], left.rows)]).sum())

        kept = view(rng, 2000)
        monitor = LossMonitor()
        monitor.activate([kept], 100)
        monitor.adjust([kept], 30)
        watched.append(monitor.count)
    assert max(ghosts) <= 30 and np.mean(ghosts) > 24
    # Rows that the policy keeps anyway take nobody's place.
    assert max(watched) <= 30 * MONITORED_PER_SHADOW and np.mean(watched) > 48
    assert np.mean(stood_for) == pytest.approx(2000, abs=4 * np.std(stood_for) / 200**0.5)


def test_after_a_silence_new_rows_still_stand_for_many() -> None:
    """Else a ghost's weight, and with it what may have been lost, were told from rows that came just now."""
    rng, monitor = np.random.default_rng(1), LossMonitor()
    monitor.activate([view(rng, 2000)], 20)
    before = monitor.probability
    for _ in range(50):  # all have expired, and little comes
        monitor.on_arrival(view(rng, 1000, fresh=990))
        monitor.adjust([view(rng, 1000)], 20)
    assert before < monitor.probability < 1.6 * before


def test_results_of_one_row_are_a_clump() -> None:
    """Only of rows of earlier sub-batches, which might have been evicted."""
    monitor, rng = LossMonitor(), np.random.default_rng(0)
    stored, probing = view(rng, 4), view(rng, 6, fresh=0, stream=1)
    stored = WindowView(**{**vars(stored), "first_new": 4})
    monitor.activate([stored, probing], 1000)
    assert monitor.count == 10 and monitor.clumps == Clumps()
    rows = np.array([0, 0, 0, 0, 1, 2])
    monitor.on_results(ProbeResults([rows, np.arange(6)], [stored, probing]))
    assert monitor.clumps == Clumps(3, 6, 4**2 + 1 + 1)
    monitor.on_results(ProbeResults([rows[:1], np.arange(1)], [stored, probing]))
    assert monitor.clumps == Clumps(3, 7, 5**2 + 1 + 1)


def max_weights(account: ResultEstimate, weight: float, clumps: Clumps) -> list[float]:
    return [loss.max_weight for loss in account.losses(weight, clumps)]


ONES, FIFTIES = Clumps(1000, 1000, 1000), Clumps(1000, 50_000, 2_500_000)
"""Rows with one result each, and with fifty each."""


def test_where_no_shadow_row_found_anything_a_clump_may_be_lost() -> None:
    nothing = ResultEstimate(8, 1)
    nothing.add(1000.0, 1000)
    assert max_weights(nothing, 10.0, Clumps()) == [9.0]
    # Nine rows with their clumps, and as these are several rows the bound is a little above.
    for clumps, size in ((ONES, 1.0), (FIFTIES, 50.0)):
        assert 9.0 * size < max_weights(nothing, 10.0, clumps)[0] < 1.1 * 9.0 * size
    assert nothing.recall(10.0, FIFTIES)[1] < nothing.recall(10.0, ONES)[1] < 1.0 == nothing.recall(10.0)[2]
    # Where every row represents itself alone, nothing can be lost unseen.
    assert nothing.recall(1.0, FIFTIES) == (1.0, 1.0, 1.0)


def test_results_of_many_shadow_rows_are_believed() -> None:
    few, many = ResultEstimate(8, 1), ResultEstimate(8, 1)
    for account, shadows in ((few, 1), (many, 100)):
        account.add(1000.0, 1000)
        account.sums[1] = 0.0, 9.0 * shadows, 90.0 * shadows, 9.0, shadows
    unseen = FIFTIES.unseen(10.0)
    assert max_weights(few, 10.0, FIFTIES) == [unseen]
    assert max_weights(many, 10.0, FIFTIES)[0] == pytest.approx(9.0 + (unseen - 9.0) / 100)


def test_results_that_lost_two_rows_are_not_excluded() -> None:
    account = ResultEstimate(8, 2)
    account.sums[1] = 0.0, 90.0, 900.0, 9.0, 10
    assert max_weights(account, 10.0, Clumps()) == [9.0, 81.0]


def test_one_large_row_that_stays_does_not_widen_the_interval_without_bound() -> None:
    """A popular row with thousands of results is monitored, and no shadow row lost anything."""
    account = ResultEstimate(8, 1)
    account.add(240_000.0, 240_000)
    rows, results, large = 1500, 12_000, 15_000
    clumps = Clumps(rows + 1, results + large, 8 * results + large**2)
    recall, low, high = account.recall(20.0, clumps)
    assert 0.95 < low < recall < high == 1.0
    # A few rows with results say little about those that were not seen.
    assert account.recall(20.0, Clumps(2, large + 8, large**2 + 64))[1] < 0.5


def test_sums_over_joins_are_no_narrower_than_each() -> None:
    """They carry no unseen variance."""
    account = ResultEstimate(8, 1)
    account.add(1000.0, 1000)
    account.sums[1] = 0.0, 90.0, 900.0, 9.0, 10
    clumps = Clumps(1000, 5000, 500_000)
    (loss,) = account.losses(10.0, clumps)
    assert loss.unseen_variance > 0
    whole = Loss(loss.missed, loss.variance, loss.summed_weight)
    assert whole.interval()[1] >= loss.interval()[1]


def test_the_bound_of_a_state_without_the_number_of_rows_is_no_lower() -> None:
    restored = LossMonitor.migrated(1, {"_count_moments": np.array([6.0, 18.0])})
    clumps = Clumps(*restored["_count_moments"])
    assert clumps.size == 3.0 and clumps.unseen(10.0) >= 9.0 * 3.0
