"""Watched rows: as many as are allowed, with their weights; and what they tell of rows nobody watched."""

from __future__ import annotations

import numpy as np
import pytest

from windrow.shed.monitor import FOR_A_GHOST, WATCH, Monitor
from windrow.shed.recall import Account
from windrow.shed.view import Found, View


def view(rows: int, fresh: int = 0, stream: int = 0) -> View:
    return View(
        stream=stream,
        ts=np.arange(rows),
        words=[],
        notes={WATCH: np.zeros(rows)},
        fresh=fresh,
        span=rows,
        now=rows,
        passed=0.0,
        lesson=1,
        learns=True,
        payload=lambda names, start: [],
    )


def slots(seen: View) -> np.ndarray:
    noted = seen.notes[WATCH]
    return noted[noted > 0].astype(np.int64) - 1


def test_ghosts_are_as_many_as_allowed_and_stand_for_all_rows() -> None:
    stood_for, ghosts, watched = [], [], []
    for seed in range(200):
        rng, monitor, seen = np.random.default_rng(seed), Monitor(), view(2000)
        monitor.begin([seen], 100, rng)
        monitor.haunt(slots(seen))
        left = monitor.adjust([seen], 30, rng)[0]
        ghosts.append(int(left.ghost.sum()))
        # Those that must go are no longer watched.
        assert set(left.leaving).isdisjoint(left.rows) and not seen.notes[WATCH][left.leaving].any()
        stood_for.append(monitor.stands_for([(seen.notes[WATCH], left.rows)]).sum())

        kept = view(2000)
        monitor = Monitor()
        monitor.begin([kept], 100, rng)
        monitor.adjust([kept], 30, rng)
        watched.append(monitor.count)
    assert max(ghosts) <= 30 and np.mean(ghosts) > 24
    # Rows that the policy keeps anyway take nobody's place.
    assert max(watched) <= 30 * FOR_A_GHOST and np.mean(watched) > 48
    assert np.mean(stood_for) == pytest.approx(2000, abs=4 * np.std(stood_for) / 200**0.5)


def test_after_a_silence_new_rows_still_stand_for_many() -> None:
    """Else a ghost's weight, and with it what may have been lost, were told from rows that came just now."""
    rng, monitor = np.random.default_rng(1), Monitor()
    monitor.begin([view(2000)], 20, rng)
    before = monitor.chance
    for _ in range(50):  # all have expired, and little comes
        monitor.arrive(view(1000, fresh=990), rng)
        monitor.adjust([view(1000)], 20, rng)
    assert before < monitor.chance < 1.6 * before


def test_results_of_one_row_are_a_clump() -> None:
    """Only of rows of earlier quanta, which might have been given up."""
    monitor, rng = Monitor(), np.random.default_rng(0)
    stored, probing = view(4), view(6, fresh=0, stream=1)
    stored = View(**{**vars(stored), "fresh": 4})
    monitor.begin([stored, probing], 1000, rng)
    assert monitor.count == 10 and monitor.clump == 1.0
    rows = np.array([0, 0, 0, 0, 1, 2])
    monitor.found(Found([rows, np.arange(6)], [stored, probing]))
    assert monitor.clump == (4**2 + 1 + 1) / 6


def test_where_no_ghost_brought_anything_a_clump_may_be_lost() -> None:
    nothing = Account(8, 1)
    nothing.add(1000.0, 1000)
    assert nothing.sizes(10.0, 1.0) == [9.0] and nothing.sizes(10.0, 50.0) == [450.0]
    assert nothing.recall(10.0, 50.0)[1] < nothing.recall(10.0, 1.0)[1] < 1.0 == nothing.recall(10.0)[2]
    # Where nothing stands for more than itself nothing can be lost unseen.
    assert nothing.recall(1.0, 50.0) == (1.0, 1.0, 1.0)


def test_what_many_ghosts_brought_is_believed() -> None:
    few, many = Account(8, 1), Account(8, 1)
    for account, ghosts in ((few, 1), (many, 100)):
        account.add(1000.0, 1000)
        account.missed[0], account.variance[0] = 9.0 * ghosts, 90.0 * ghosts
        account.largest[0], account.bringing[0] = 9.0, ghosts
    assert few.sizes(10.0, 50.0) == [450.0]
    assert many.sizes(10.0, 50.0)[0] == pytest.approx(9.0 + 441.0 / 100)


def test_results_that_lost_two_rows_are_not_excluded() -> None:
    account = Account(8, 2)
    account.missed[0], account.variance[0] = 90.0, 900.0
    account.largest[0], account.bringing[0] = 9.0, 10
    assert account.sizes(10.0, 1.0) == [9.0, 81.0]
