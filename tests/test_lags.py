"""Learned lags and selectivities, and the scores made of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.errors import QueryError
from windrow.harvest.lags import KINDS, PairLags, StreamLags
from windrow.harvest.selectivity import Selectivities, by_hop
from windrow.model.harvest import BasicWindows
from windrow.model.stateful import decode, encode
from windrow_lab.harvest import directional

WINDOWS = BasicWindows((10.0, 10.0, 10.0), (2.0, 2.0, 2.0))
ORDERS = ((1, 2), (2, 0), (1, 0))


def _true_scores(times, windows, orders):
    """The part of the results in each basic window, counted."""
    out = np.zeros((len(orders), len(orders) - 1, max(windows.counts)))
    for i, order in enumerate(orders):
        for j, s in enumerate(order):
            age = times[:, i] - times[:, s]
            for k in range(windows.counts[s]):
                low, high = k * windows.lengths[s], min((k + 1) * windows.lengths[s], windows.sizes[s])
                out[i, j, k] = ((age > low) & (age <= high)).mean()
    return out


def _independent(rng, rows=40_000):
    """S_2 lags S_1 by 4 s and S_3 by 5, as in Figure 4, independently of each other."""
    return np.stack([np.zeros(rows), rng.normal(4, 1, rows), rng.normal(5, 1.5, rows)], axis=1)


@pytest.mark.parametrize("kind", [StreamLags, PairLags])
def test_scores_are_the_parts_of_the_results(kind):
    times = _independent(np.random.default_rng(1))
    learned = kind.empty(WINDOWS.sizes, prior=0.0).add(times)
    assert learned.scores(WINDOWS, ORDERS) == pytest.approx(_true_scores(times, WINDOWS, ORDERS), abs=0.02)


def test_equation_2_by_hand():
    """Two buckets a histogram: A_21 is in [-2, 0] for 1/4 of the results, A_31 in [0, 2] for all."""
    windows = BasicWindows((2.0, 2.0, 2.0), (2.0, 2.0, 2.0))
    times = np.array([[0, -1, 1]] + [[0, 1, 1]] * 3, dtype=float)
    scores = StreamLags.empty(windows.sizes, buckets=2, prior=0.0).add(times).scores(windows, ORDERS)
    assert scores[0, 0] == pytest.approx([0.25])  # eq. 1: A_12 = -A_21 in [0, 2]
    assert scores[1, 1] == pytest.approx([0.75])
    # A_32 = A_31 - A_21. With A_21 at its bucket's middle 1: P(A_31 in [1, 3]) = 1/2; at -1: in [-1, 1], 1/2.
    assert scores[2, 0] == pytest.approx([0.5])


def test_pairs_where_independence_hurts():
    """S_2 and S_3 are copies and S_1 comes at any time: their lag is 0, which equation 2 cannot see."""
    rng = np.random.default_rng(2)
    first = rng.uniform(-8, 8, 20_000)
    times = np.stack([first, rng.normal(0, 0.2, 20_000), rng.normal(0, 0.2, 20_000)], axis=1)
    true = _true_scores(times, WINDOWS, ORDERS)
    streams = StreamLags.empty(WINDOWS.sizes).add(times).scores(WINDOWS, ORDERS)
    pairs = PairLags.empty(WINDOWS.sizes).add(times).scores(WINDOWS, ORDERS)
    assert np.abs(pairs - true).max() < 0.03
    assert streams[1, 0, 0] < 0.2 < 0.45 < true[1, 0, 0]


@pytest.mark.parametrize("kind", [StreamLags, PairLags])
def test_fading_follows_a_change(kind):
    rng = np.random.default_rng(3)
    learned = kind.empty(WINDOWS.sizes)
    before, after = rng.normal([0, 3, 0], 0.3, (2000, 3)), rng.normal([0, 7, 0], 0.3, (2000, 3))
    for times in [before] * 5 + [after] * 5:
        learned = learned.decayed(0.5).add(times)
    assert learned.scores(WINDOWS, ORDERS)[1, 1].argmax() == 3  # 7 s behind S_1: (6, 8]
    assert learned.weight == pytest.approx(2000 * sum(0.5**k for k in range(10)))


def test_nothing_learned_is_flat_and_weights_count():
    flat = StreamLags.empty(WINDOWS.sizes).scores(WINDOWS, ORDERS)
    assert flat[0, 0] == pytest.approx(np.full(5, flat[0, 0, 0]))
    assert flat[2, 1] == pytest.approx(np.full(5, flat[2, 1, 0]))
    times = np.array([[0, 1, 1], [0, 9, 9]], dtype=float)
    weighed = PairLags.empty(WINDOWS.sizes, prior=0.0).add(times, np.array([3.0, 1.0]))
    assert weighed.scores(WINDOWS, ORDERS)[1, 1] == pytest.approx([0.75, 0, 0, 0, 0.25])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(KINDS)), st.integers(1, 80), st.integers(2, 5))
def test_scores_are_chances_and_survive_json(seed, kind, buckets, m):
    rng = np.random.default_rng(seed)
    windows = BasicWindows(tuple(rng.uniform(5, 20, m)), tuple(rng.uniform(1, 5, m)))
    orders = [tuple(s for s in range(m) if s != i) for i in range(m)]
    learned = KINDS[kind].empty(windows.sizes, buckets).add(rng.uniform(0, 5, (50, m)))
    scores = learned.scores(windows, orders)
    assert (scores >= 0).all() and (scores.sum(axis=2) <= 1 + 1e-9).all()
    arrays: list[np.ndarray] = []
    again = decode(json.loads(json.dumps(encode(learned, arrays))), arrays)
    assert np.array_equal(again.scores(windows, orders), scores)


def test_bad_lags_are_refused():
    with pytest.raises(QueryError, match="a column for each of 3 streams"):
        StreamLags.empty(WINDOWS.sizes).add(np.zeros((5, 2)))
    with pytest.raises(QueryError, match=r"the decay factor lies in 0\.\.1, got 2"):
        StreamLags.empty(WINDOWS.sizes).decayed(2)


def test_selectivities_are_learned_by_direction():
    learned = Selectivities.unknown(2, guess=0.02, prior=50)
    assert learned.matrix == pytest.approx(np.full((2, 2), 0.02))
    learned = learned.add(np.array([[0, 0], [9, 0]]), np.array([[0, 1000], [950, 0]]))
    assert by_hop(learned.matrix, ((1,), (0,))) == pytest.approx(np.array([[1 / 1050], [0.01]]))
    again = learned.decayed(0.5)
    assert again.found[1, 0] == 4.5 and again.tried[0, 1] == 500


def test_symmetric_selectivities_become_those_of_directions():
    """Flat lags leave them as they are; when S_2 always comes last, S_1's rows find nothing, S_2's twice."""
    windows, orders = BasicWindows((10.0, 10.0), (5.0, 5.0)), ((1,), (0,))
    symmetric = np.full((2, 2), 0.01)
    flat = PairLags.empty(windows.sizes).scores(windows, orders)
    assert directional(symmetric, windows.sizes, flat, orders) == pytest.approx(np.full((2, 1), 0.01))
    late = PairLags.empty(windows.sizes, prior=0.0).add(np.array([[0.0, 3.0]])).scores(windows, orders)
    assert directional(symmetric, windows.sizes, late, orders) == pytest.approx(np.array([[0], [0.02]]))
