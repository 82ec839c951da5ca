"""The interval of the recall: as wide as what was seen of the lost results allows."""

import math

import numpy as np
import pytest

import windrow as wr
from windrow.kernels import haunting
from windrow.lab.clumped_streams import bursts, skewed
from windrow.model.learned import Auto
from windrow.shed.missed import missed_interval
from windrow.shed.recall import Account, recall_interval


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


def seen(account: Account, *results: tuple[int, ...], weight: float = 10.0) -> Account:
    """Adds results; each is told by the units it hangs on."""
    depth = np.array([len(units) for units in results])
    which = np.repeat(np.arange(len(results)), depth)
    units = np.array([unit for each in results for unit in each], np.int64)
    odds = np.full(len(units), 1 - 1 / weight)
    account.haunted(np.ones(len(results)), weight**depth, depth, which, units, odds)
    return account


def test_results_are_counted_by_what_they_hang_on():
    account = seen(Account(8, 2), (), (0,), (0,), (1, 2))
    assert account.found == 4 and account.true == 1 + 2 * 10 + 100
    assert account.missed.tolist() == [18 + 99, 18, 99]
    assert account.variance[1:].tolist() == pytest.approx([0.9 * 20**2, 0.9 * 100**2 * 2])
    assert account.largest.tolist() == pytest.approx([90, 18, 90])
    # What a ghost brings later adds to what it brought before, and so does what it brings with another.
    seen(account, (0,), (0, 1))
    assert account.variance[1] == pytest.approx(0.9 * 30**2)
    assert account.variance[0] == pytest.approx(0.9 * (130**2 + 200**2 + 100**2))


def test_what_was_not_seen_may_still_be_lost():
    account = seen(Account(8, 2), *[()] * 200, *[(k,) for k in range(8)])
    # Results that lost two rows were not seen, and are excluded only where two are seen as soon as one is.
    assert account.unit(10.0, together=True) == pytest.approx(9)
    assert account.unit(10.0, together=False) > 50

    nothing = Account(8, 1)
    nothing.add(50, 50)
    assert nothing.unit(1.0, together=True) == 0
    assert nothing.unit(10.0, together=True) == 9


def test_more_ghosts_tell_more():
    few, many = recall_interval(50, 100, 500), recall_interval(5000, 10000, 50000)
    assert few[0] == many[0] == 0.5
    assert few[1] < many[1] < 0.5 < many[2] < few[2]
    assert recall_interval(50, 100, 500, level=0.6)[1] > few[1]
    assert recall_interval(7, 7, 0) == recall_interval(0, 0, 0) == (1.0, 1.0, 1.0)
    # Where hardly anything was looked at, to have seen nothing missed says little.
    estimate, low, high = recall_interval(7, 7, 0, unit=500)
    assert (estimate, high) == (1.0, 1.0) and low < 0.05
    assert math.isnan(recall_interval(0, 0, 0, unit=500)[0])


def test_ghosts_chosen_with_their_key_are_one_choice():
    """Slots 0 and 1 were chosen with their key, on overlapping spans, slot 2 by itself."""
    alone, inf = np.array([1.0, 2.0, 8.0]), np.inf
    begin, end = np.array([0.0, 0.05, 0.0]), np.array([0.1, 0.15, inf])
    # Results: of slots 0 and 1; of 0; of 2; of 0, 1 and 2; without a ghost.
    which, slots = np.array([0, 1, 3, 0, 3, 2, 3]), np.array([0, 0, 0, 1, 1, 2, 2])
    weights, depth, counts = np.ones(5), np.zeros(5, np.int64), np.empty(7, bool)
    haunting.weigh(which, slots, alone, begin, end, weights, depth, counts)
    assert weights.tolist() == pytest.approx([2 / 0.05, 1 / 0.1, 8, 8 * 2 / 0.05, 1])
    assert depth.tolist() == [1, 1, 1, 2, 0]
    assert counts.tolist() == [True, True, True, False, False, True, True]


@pytest.mark.parametrize("shed", ["fifo", "random", "frequency"])
@pytest.mark.parametrize("streams", [2, 3])
def test_the_estimate_has_no_bias(streams, shed):
    """Over many draws of ghosts the number of true results is right on average, in clumps as well."""
    trace = skewed(streams, 12, 5, 40, 4, 60, 0.9)
    told = []
    for seed in range(60):
        operator = wr.Operator(trace.query(0.5 * trace.whole, shed, seed, "every 60 rows"))
        operator.process(trace.tables)
        told.append(operator.measure().quality.true)
    exact = trace.exact.measured.results
    assert abs(np.mean(told) - exact) < 3 * np.std(told) / len(told) ** 0.5 + 0.01 * exact


def test_counts_over_a_restart_are_the_same():
    """Ghosts, their keys and what hung on them go on as if nothing had happened."""
    trace = bursts(3, 30, 1, 20, 8)
    query = trace.query(0.4 * trace.whole, Auto(monitor=0.3), 3, "every 50 rows")
    whole, first = wr.Operator(query), wr.Operator(query)
    cut = trace.tables["a"]["ts"][trace.tables["a"].num_rows // 2].as_py()
    halves: list[dict] = [{}, {}]
    for alias, rows in trace.tables.items():
        early = sum(ts <= cut for ts in rows["ts"].to_pylist())
        halves[0][alias], halves[1][alias] = rows[:early], rows[early:]
    for half in halves:
        whole.process(half)
    first.process(halves[0])
    second = wr.Operator.restore(query, first.snapshot())
    second.process(halves[1])
    assert whole.measure().quality == second.measure().quality
    assert whole.measure().quality.variance > 0
