"""The interval of the recall: as wide as what was seen of the lost results allows."""

import math

import numpy as np
import pytest

from windrow.estimation.clumps import Clumps
from windrow.estimation.missed import missed_interval
from windrow.estimation.recall import ResultEstimate, ShadowMatches, recall_interval
from windrow.kernels.result_sums import ESTIMATED, FOUND, LARGEST, VARIANCE


@pytest.mark.parametrize("ghosts", [0.5, 3, 20, 300])
def test_the_interval_holds_a_sum_over_few_ghosts(ghosts):
    """Ghosts of unequal sizes in a Poisson number, as if drawn with a small chance."""
    rng = np.random.default_rng(int(10 * ghosts))
    true, inside = 3.0 * ghosts, 0
    for _ in range(1000):
        sizes = rng.gamma(1.0, 3.0, rng.poisson(ghosts))
        low, high = missed_interval(
            float(sizes.sum()), float((sizes**2).sum()), float(sizes.max(initial=0.0)) or 9.0
        )
        inside += low <= true <= high
    # Of 3 ghosts of exponential sizes the largest says little about those that were not seen.
    assert inside >= (880 if ghosts == 3 else 930)


def seen(account: ResultEstimate, *results: tuple[int, ...], weight: float = 10.0) -> ResultEstimate:
    """Adds results; each is told by the slots of its ghosts."""
    depth = np.array([len(slots) for slots in results])
    ghosts = []
    for place in range(depth.max()):
        which = np.flatnonzero(depth > place)
        ghosts.append((which, np.array([results[k][place] for k in which])))
    account.add_with_shadows(
        np.ones(len(results)), ShadowMatches(weight**depth, depth, ghosts), np.full(8, weight)
    )
    return account


def test_results_are_counted_by_their_ghosts():
    account = seen(ResultEstimate(8, 2), (), (0,), (0,), (1, 2))
    assert account.found == 4 and account.estimated == 1 + 2 * 10 + 100
    one, two = account.losses(10.0)
    assert [one.missed, two.missed] == [18, 99]
    assert [one.variance, two.variance] == pytest.approx([0.9 * 20**2, 0.9 * 100**2 * 2])
    assert account.sums[1:, LARGEST].tolist() == pytest.approx([18, 90])
    # What a ghost brings later adds to what it brought before.
    seen(account, (0,))
    assert account.sums[1:, VARIANCE].tolist() == pytest.approx([0.9 * 30**2, 0.9 * 100**2 * 2])


def test_what_was_not_seen_may_still_be_lost():
    one, two = ResultEstimate(8, 1), ResultEstimate(8, 2)
    for account in (one, two):
        seen(account, *[()] * 200, *[(k,) for k in range(8)])
    recall, low, high = one.recall(10.0)
    assert 0 < low < recall < high < 1
    # Results that lost two rows were not seen, and are not excluded.
    assert two.recall(10.0)[0] == recall and two.recall(10.0)[1] < low

    nothing = ResultEstimate(8, 1)
    nothing.add_with_shadows(np.ones(50), ShadowMatches(np.ones(50), np.zeros(50, int), []), np.full(8, 10.0))
    assert nothing.recall(1.0) == (1.0, 1.0, 1.0)
    # Nor is it told for certain that nothing was.
    assert 0.8 < nothing.recall(10.0)[0] < 1.0 and nothing.recall(10.0)[1] < 0.8


RUNS = 100


@pytest.mark.parametrize("rows", [20, 4000])
@pytest.mark.parametrize("lost", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("tail", [1.1, 1.5, 2.5])
@pytest.mark.parametrize("weight", [5.0, 30.0])
def test_the_interval_holds_where_few_rows_have_most_results(lost, tail, weight, rows):
    """Results per row by Pareto's law: with an exponent of 1.1 a single row often has a third of them."""
    rng = np.random.default_rng(int(1000 * lost + 10 * tail + 100 * weight))
    inside = 0
    for _ in range(RUNS):
        results = np.floor(rng.pareto(tail, rows) + 1)
        monitored, evicted = rng.random(rows) < 1 / weight, rng.random(rows) < lost
        after = np.where(evicted, np.rint(results * rng.random(rows)), 0.0)
        shadow, sizes = after[monitored & (after > 0)], results[monitored]
        account = ResultEstimate(8, 1)
        account.sums[0, FOUND] = account.sums[0, ESTIMATED] = results.sum() - after.sum()
        account.count = int(account.sums[0, FOUND])
        chance, seen = 1 - 1 / weight, weight * shadow
        account.sums[1] = (
            shadow.sum(), seen.sum(), chance * (seen**2).sum(), chance * seen.max(initial=0.0), len(shadow),
        )  # fmt: skip
        clumps = Clumps(len(sizes), float(sizes.sum()), float((sizes**2).sum()))
        _, low, high = account.recall(weight, clumps)
        inside += low <= account.found / results.sum() <= high
    assert inside >= 0.9 * RUNS


def test_more_ghosts_tell_more():
    few, many = recall_interval(50, 100, 500), recall_interval(5000, 10000, 50000)
    assert few[0] == many[0] == 0.5
    assert few[1] < many[1] < 0.5 < many[2] < few[2]
    assert recall_interval(50, 100, 500, level=0.6)[1] > few[1]
    assert recall_interval(7, 7, 0) == recall_interval(0, 0, 0) == (1.0, 1.0, 1.0)
    # Where hardly anything was looked at, to have seen nothing missed says little.
    estimate, low, high = recall_interval(7, 7, 0, max_weight=500)
    assert low < estimate < high == 1.0 and low < 0.05
    assert math.isnan(recall_interval(0, 0, 0, max_weight=500)[0])
