"""Watched rows: as many as are allowed, with their weights; and what they tell of rows nobody watched."""

from __future__ import annotations

import numpy as np
import pytest

from windrow.estimation.recall import ResultEstimate
from windrow.eviction.monitor import MONITOR_SLOT, MONITORED_PER_SHADOW, LossMonitor
from windrow.eviction.window_view import ProbeResults, WindowView


def view(rows: int, fresh: int = 0, stream: int = 0) -> WindowView:
    return WindowView(
        stream=stream,
        ts=np.arange(rows),
        join_columns=[],
        row_state={MONITOR_SLOT: np.zeros(rows)},
        first_new=fresh,
        window_length=rows,
        now=rows,
        elapsed=0.0,
        learn_stride=1,
        learning=True,
        payload=lambda names, start: [],
    )


def slots(seen: WindowView) -> np.ndarray:
    noted = seen.row_state[MONITOR_SLOT]
    return noted[noted > 0].astype(np.int64) - 1


def test_ghosts_are_as_many_as_allowed_and_stand_for_all_rows() -> None:
    stood_for, ghosts, watched = [], [], []
    for seed in range(200):
        rng, monitor, seen = np.random.default_rng(seed), LossMonitor(), view(2000)
        monitor.begin_sub_batch([seen], 100, rng)
        monitor.mark_shadow(slots(seen))
        left = monitor.adjust([seen], 30, rng)[0]
        ghosts.append(int(left.shadow.sum()))
        # Those that must go are no longer watched.
        assert (
            set(left.leaving).isdisjoint(left.rows) and not seen.row_state[MONITOR_SLOT][left.leaving].any()
        )
        stood_for.append(monitor.weights([(seen.row_state[MONITOR_SLOT], left.rows)]).sum())

        kept = view(2000)
        monitor = LossMonitor()
        monitor.begin_sub_batch([kept], 100, rng)
        monitor.adjust([kept], 30, rng)
        watched.append(monitor.count)
    assert max(ghosts) <= 30 and np.mean(ghosts) > 24
    # Rows that the policy keeps anyway take nobody's place.
    assert max(watched) <= 30 * MONITORED_PER_SHADOW and np.mean(watched) > 48
    assert np.mean(stood_for) == pytest.approx(2000, abs=4 * np.std(stood_for) / 200**0.5)


def test_after_a_silence_new_rows_still_stand_for_many() -> None:
    """Else a ghost's weight, and with it what may have been lost, were told from rows that came just now."""
    rng, monitor = np.random.default_rng(1), LossMonitor()
    monitor.begin_sub_batch([view(2000)], 20, rng)
    before = monitor.probability
    for _ in range(50):  # all have expired, and little comes
        monitor.on_arrival(view(1000, fresh=990), rng)
        monitor.adjust([view(1000)], 20, rng)
    assert before < monitor.probability < 1.6 * before


def test_results_of_one_row_are_a_clump() -> None:
    """Only of rows of earlier quanta, which might have been given up."""
    monitor, rng = LossMonitor(), np.random.default_rng(0)
    stored, probing = view(4), view(6, fresh=0, stream=1)
    stored = WindowView(**{**vars(stored), "first_new": 4})
    monitor.begin_sub_batch([stored, probing], 1000, rng)
    assert monitor.count == 10 and monitor.results_per_row == 1.0
    rows = np.array([0, 0, 0, 0, 1, 2])
    monitor.on_results(ProbeResults([rows, np.arange(6)], [stored, probing]))
    assert monitor.results_per_row == (4**2 + 1 + 1) / 6


def max_weights(account: ResultEstimate, weight: float, clump: float) -> list[float]:
    return [loss.max_weight for loss in account.losses(weight, clump)]


def test_where_no_ghost_brought_anything_a_clump_may_be_lost() -> None:
    nothing = ResultEstimate(8, 1)
    nothing.add(1000.0, 1000)
    assert max_weights(nothing, 10.0, 1.0) == [9.0] and max_weights(nothing, 10.0, 50.0) == [450.0]
    assert nothing.recall(10.0, 50.0)[1] < nothing.recall(10.0, 1.0)[1] < 1.0 == nothing.recall(10.0)[2]
    # Where nothing stands for more than itself nothing can be lost unseen.
    assert nothing.recall(1.0, 50.0) == (1.0, 1.0, 1.0)


def test_what_many_ghosts_brought_is_believed() -> None:
    few, many = ResultEstimate(8, 1), ResultEstimate(8, 1)
    for account, ghosts in ((few, 1), (many, 100)):
        account.add(1000.0, 1000)
        account.sums[1] = 0.0, 9.0 * ghosts, 90.0 * ghosts, 9.0, ghosts
    assert max_weights(few, 10.0, 50.0) == [450.0]
    assert max_weights(many, 10.0, 50.0)[0] == pytest.approx(9.0 + 441.0 / 100)


def test_results_that_lost_two_rows_are_not_excluded() -> None:
    account = ResultEstimate(8, 2)
    account.sums[1] = 0.0, 90.0, 900.0, 9.0, 10
    assert max_weights(account, 10.0, 1.0) == [9.0, 81.0]
