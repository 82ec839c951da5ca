"""The clairvoyant bound against exhaustive search, and on the papers' worked examples."""

from __future__ import annotations

from functools import cache
from itertools import combinations, groupby, product

import numpy as np
import pytest

from windrow.errors import WindrowError
from windrow_lab.clairvoyant import OfflineOptimum, ResultTrace, clairvoyant

Limit = int | tuple[int, int]

# iJoin, Table 1: at each time one row of R, then one of S; the importance of a value is its place in "abcd".
TABLE_1 = ("abcddbac", "babbccda")


def fits(arrivals: ResultTrace, held: frozenset[int], limit: Limit) -> bool:
    if not isinstance(limit, tuple):
        return len(held) <= limit
    return all(sum(arrivals.stream[row] == s for row in held) <= limit[s] for s in (0, 1))


def exhaustive(arrivals: ResultTrace, limit: Limit, weights: np.ndarray) -> float:
    """The best over every choice of what to drop after every step."""
    worth = {(int(u), int(v)): w for u, v, w in zip(arrivals.earlier, arrivals.later, weights, strict=True)}
    steps = [list(rows) for _, rows in groupby(range(len(arrivals.ts)), key=lambda row: arrivals.steps[row])]

    @cache
    def best(step: int, held: frozenset[int]) -> float:
        if step == len(steps):
            return 0.0
        gained = 0.0
        for row in steps[step]:
            gained += sum(worth.get((other, row), 0.0) for other in held)
            held = held | {row}
        choices = (frozenset(c) for size in range(len(held) + 1) for c in combinations(sorted(held), size))
        return gained + max(best(step + 1, kept) for kept in choices if fits(arrivals, kept, limit))

    return best(0, frozenset())


def replay(arrivals: ResultTrace, bound: OfflineOptimum, limit: Limit, weights: np.ndarray) -> float:
    """Runs the join, dropping as the bound says; the limit must hold after every step."""
    steps = arrivals.steps
    for step in steps:
        held = np.flatnonzero((steps <= step) & (steps[bound.until] > step))
        assert fits(arrivals, frozenset(held.tolist()), limit)
    return float(weights[arrivals.later <= bound.until[arrivals.earlier]].sum())


def random_trace(seed: int, rows: int, most_together: int = 1) -> tuple[ResultTrace, np.ndarray]:
    random = np.random.default_rng(seed)
    ts = np.cumsum(random.integers(0, 3, size=rows))
    step = np.cumsum(random.integers(0, 2, size=rows)) if most_together > 1 else None
    stream, key = random.integers(0, 2, size=rows), random.integers(0, 3, size=rows)
    arrivals = ResultTrace.equal_keys(ts, stream, key, (6, 9), step)
    return arrivals, random.integers(0, 5, size=len(arrivals.later)).astype(float)


@pytest.mark.parametrize("limit", [1, 2, 3, (1, 1), (2, 1), (0, 3)])
@pytest.mark.parametrize("most_together", [1, 2])
def test_nothing_beats_it_and_it_can_be_reached(limit: Limit, most_together: int) -> None:
    for seed in range(12):
        arrivals, weights = random_trace(seed, 9, most_together)
        for worth in (np.ones(len(weights)), weights):
            bound = clairvoyant(arrivals, limit, worth)
            assert bound.total == exhaustive(arrivals, limit, worth)
            assert bound.total == replay(arrivals, bound, limit, worth)


def test_a_longer_trace_can_be_replayed_and_gains_with_memory() -> None:
    """Also that the solver ends in whole solutions: the bound would be refused otherwise."""
    random = np.random.default_rng(3)
    rows = 600
    arrivals = ResultTrace.equal_keys(
        np.arange(rows), random.integers(0, 2, size=rows), random.zipf(1.5, size=rows) % 40, (80, 50)
    )
    weights = random.random(len(arrivals.later))
    totals, limits = [], (0, 5, 20, 60, 200)
    for limit in limits:
        bound = clairvoyant(arrivals, limit, weights)
        assert replay(arrivals, bound, limit, weights) == pytest.approx(bound.total)
        totals.append(bound.total)
    assert totals[0] == 0 and totals[-1] == pytest.approx(weights.sum())
    gains = np.diff(totals) / np.diff(limits)
    assert (np.diff(gains) < 0).all(), "each further row of memory gives less"


def test_pairs_are_those_of_the_window_join() -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        ts, stream = np.sort(random.integers(0, 20, size=30)), random.integers(0, 2, size=30)
        key, within = random.integers(-1, 3, size=30), (4, 7)
        arrivals = ResultTrace.equal_keys(ts, stream, key, within)
        expected = {
            (u, v)
            for u, v in combinations(range(30), 2)
            if stream[u] != stream[v] and key[u] == key[v] and ts[v] - ts[u] <= within[stream[u]]
        }
        found = list(zip(arrivals.earlier.tolist(), arrivals.later.tolist(), strict=True))
        assert set(found) == expected and len(found) == len(expected)


def aged(curve: tuple[int, ...], units: int) -> ResultTrace:
    """One row of stream 0 a unit; between its ages k - 1 and k, curve[k - 1] rows of stream 1 match it."""
    rows = [
        row
        for unit in range(units)
        for row in [(unit, 0), *((unit - k, 1) for k, p in enumerate(curve) for _ in range(p) if unit >= k)]
    ]
    key, stream = np.array(rows).T
    ts = np.repeat(np.arange(units), np.diff(np.append(np.flatnonzero(stream == 0), len(rows))))
    return ResultTrace.equal_keys(ts, stream, key, (len(curve), 0))


@pytest.mark.parametrize(
    ("curve", "memory", "per_unit"),
    [
        ((1, 1, 2, 1), 1, 4 / 3),  # Memory, Example 3.3: a row kept for k_opt = 3 units
        ((1, 1, 2, 1), 2, 8 / 3),  # the same, two cells staggered
        ((1, 1, 2, 1), 4, 5),  # the whole window
        ((3, 0, 2), 2, 4),  # Example 3.4: rows kept for 1 and 3 units in turn
        ((3, 0, 2), 1, 3),
    ],
)
def test_the_age_models_examples(curve: tuple[int, ...], memory: int, per_unit: float) -> None:
    """Results per unit of time once the start is over: the difference of two lengths."""
    longer, shorter = (clairvoyant(aged(curve, units), memory).total for units in (72, 42))
    assert longer - shorter == pytest.approx(30 * per_unit)


def table_1(together: bool) -> tuple[ResultTrace, np.ndarray]:
    key = np.array([ord(value) - ord("a") + 1 for pair in zip(*TABLE_1, strict=True) for value in pair])
    ts = np.repeat(np.arange(1, 9), 2)
    arrivals = ResultTrace.equal_keys(ts, np.tile([0, 1], 8), key, (8, 8), ts if together else None)
    return arrivals, key[arrivals.earlier].astype(float)


def test_the_exact_join_of_ijoins_table_1() -> None:
    arrivals, importance = table_1(together=False)
    bound = clairvoyant(arrivals, (8, 8), importance)
    assert (bound.results, bound.total, bound.exact) == (16, 36, 36)


@pytest.mark.parametrize(("together", "optimum"), [(False, 26), (True, 27)])
def test_the_optimum_of_ijoins_table_1(together: bool, optimum: float) -> None:
    """Two rows a stream, where GREEDY reaches 13: row by row, or the two rows of a time together."""
    arrivals, importance = table_1(together)
    bound = clairvoyant(arrivals, (2, 2), importance)
    assert bound.total == exhaustive(arrivals, (2, 2), importance) == optimum
    assert bound.total >= 13


def test_the_optimum_as_the_papers_tables_count() -> None:
    assert evicting_first() == 21


def evicting_first() -> int:
    """The optimum of Table 1 as the paper's tables count: drop first, then join what is left of a time.

    A row dropped at once joins nothing there (R(c, 8) in Table 4), nor does one dropped as its match comes.
    """
    best = {((), ()): 0}
    for time in range(len(TABLE_1[0])):
        reached: dict[tuple[tuple[int, ...], ...], int] = {}
        for held, total in best.items():
            choices = (
                [tuple(c) for size in range(3) for c in combinations((*rows, time), size)] for rows in held
            )
            for kept in product(*choices):
                gain = total + sum(
                    ord(TABLE_1[0][i]) - ord("a") + 1
                    for i, j in product(*kept)
                    if time in (i, j) and TABLE_1[0][i] == TABLE_1[1][j]
                )
                reached[kept] = max(gain, reached.get(kept, 0))
        best = reached
    return max(best.values())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"stream": np.array([0, 2])}, "expected stream 0 or 1"),
        ({"ts": np.array([5, 4])}, "must ascend"),
        ({"step": np.array([1])}, "a step for each of the 2 rows, got 1"),
        ({"later": np.array([1, 1])}, "1 earlier rows but 2 later"),
        ({"later": np.array([2])}, "earlier < later, among 2 rows"),
        ({"stream": np.array([1, 1])}, "one row of each stream"),
    ],
)
def test_a_wrong_trace_is_refused(wrong: dict[str, np.ndarray], message: str) -> None:
    right = {
        "ts": np.array([4, 5]),
        "stream": np.array([0, 1]),
        "earlier": np.array([0]),
        "later": np.array([1]),
    }
    assert clairvoyant(ResultTrace(**right), 1).recall == 1
    with pytest.raises(WindrowError, match=message):
        ResultTrace(**(right | wrong))


def test_wrong_limits_and_weights_are_refused() -> None:
    arrivals = aged((1, 2), 5)
    with pytest.raises(WindrowError, match="at least 0 rows, got -1"):
        clairvoyant(arrivals, -1)
    with pytest.raises(WindrowError, match="expected 13 weights of at least 0"):
        clairvoyant(arrivals, 1, [1.0])
    with pytest.raises(WindrowError, match="expected 13 weights of at least 0"):
        clairvoyant(arrivals, 1, -np.ones(len(arrivals.later)))


def test_a_trace_without_results() -> None:
    nothing = np.array([], int)
    bound = clairvoyant(ResultTrace(nothing, nothing, nothing, nothing), 3)
    assert (bound.total, bound.results, bound.recall, len(bound.kept)) == (0, 0, 1.0, 0)
    assert str(clairvoyant(aged((1, 1), 3), 1)) == "at most 3 of 5 (60.0%)"
