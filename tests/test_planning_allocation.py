"""Recall curves and the division of memory between joins: all at one level, never below proportional."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import examples
from windrow.errors import QueryError
from windrow.explanation.allocate import allocate
from windrow.memory_models.age_curve import AgeCurve, split
from windrow.memory_models.allocation import RecallCurve, allocate_max_min
from windrow_lab.frequency_model import FrequencyModel
from windrow_lab.memory_theory import proportional, recall_of_ages, recall_of_frequencies

MIB = 2**20
K = np.arange(1, 21)


def zipf(skew: float) -> np.ndarray:
    weight = 1.0 / np.arange(1, 51) ** skew
    return weight / weight.sum()


def drawn(seed: int) -> RecallCurve:
    rng = np.random.default_rng(seed)
    rises = rng.random(rng.integers(1, 8)) + 0.01
    memory = np.concatenate([[0.0], np.cumsum(rng.uniform(1, 20, len(rises)))])
    return RecallCurve(memory, np.concatenate([[0.0], np.cumsum(rises) / rises.sum()]).clip(0, 1))


seeds = st.lists(st.integers(0, 10_000), min_size=1, max_size=5, unique=True)


@given(seeds, st.floats(0, 1))
def test_all_joins_reach_the_same_recall(chosen, part):
    curves = [drawn(seed) for seed in chosen]
    memory = part * sum(curve.memory[-1] for curve in curves)
    found = allocate_max_min(curves, memory)
    assert found.recall == pytest.approx((found.worst,) * len(curves), abs=1e-9)
    assert sum(found.memory) == pytest.approx(memory)
    assert found.worst >= proportional(curves, memory).worst - 1e-9


@given(seeds, st.floats(0, 1), st.integers(0, 100))
def test_weights_scale_the_recall_until_a_join_has_all(chosen, part, seed):
    curves = [drawn(each) for each in chosen]
    weights = np.random.default_rng(seed).uniform(0.5, 2, len(curves))
    memory = part * sum(curve.memory[-1] for curve in curves)
    found = allocate_max_min(curves, memory, weights)
    level = max(r / w for r, w in zip(found.recall, weights, strict=True))
    assert found.recall == pytest.approx(np.minimum(level * weights, 1), abs=1e-6)
    assert sum(found.memory) == pytest.approx(memory)


def test_no_other_division_has_a_better_worst():
    one, two = drawn(1), drawn(2)
    memory = 0.4 * (one.memory[-1] + two.memory[-1])
    found = allocate_max_min([one, two], memory)
    assert found.worst >= max(min(one.at(x), two.at(memory - x)) for x in np.linspace(0, memory, 1001)) - 1e-9


def test_a_step_that_does_not_fit_leaves_the_memory_in_use():
    flat = RecallCurve([0, 10, 90, 100], [0, 0.5, 0.5, 1.0])
    found = allocate_max_min([flat, flat], 60.0)
    assert found.worst == pytest.approx(0.5) and sum(found.memory) == pytest.approx(60)


def test_a_join_that_cannot_do_better_leaves_the_rest_to_others():
    poor = RecallCurve([0, 10], [0, 0.3])
    found = allocate_max_min([poor, RecallCurve([0, 100], [0, 1])], 70.0)
    assert found.memory == pytest.approx((10, 60)) and found.recall == pytest.approx((0.3, 0.6))


def test_too_much_memory_is_not_given_away():
    found = allocate_max_min([drawn(5), drawn(6)], 1e9)
    assert found.memory == (drawn(5).memory[-1], drawn(6).memory[-1]) and found.worst == 1


# --- claim A7 ---------------------------------------------------------------------------------------------


def frequency_pair(skew: float) -> list[RecallCurve]:
    direct = FrequencyModel([zipf(skew), zipf(skew)], [1, 5], [500, 0])
    inverse = FrequencyModel([zipf(skew), zipf(skew)[::-1]], [1, 5], [500, 0])
    return [recall_of_frequencies(direct), recall_of_frequencies(inverse)]


def age_pair(exponent: float) -> list[RecallCurve]:
    rising, falling = AgeCurve(K**exponent, 25.0), AgeCurve((20.0 - K) ** exponent, 25.0)
    return [recall_of_ages([rising], [1.0]), recall_of_ages([falling], [1.0])]


def test_frequency_joins_proportional_falls_with_skew_and_equal_recall_does_not():
    # Below a skew of 1 the values are too alike for either join to be the easy one.
    skews = (1.0, 1.5, 2.0, 2.5)
    ours = [allocate_max_min(frequency_pair(z), 200.0).worst for z in skews]
    theirs = [proportional(frequency_pair(z), 200.0).worst for z in skews]
    assert all(a >= b for a, b in zip(ours, theirs, strict=True))
    assert max(ours) - min(ours) < 0.1
    assert theirs == sorted(theirs, reverse=True) and theirs[-1] < 0.5 * theirs[0]


def test_age_joins_proportional_stays_flat_and_equal_recall_rises():
    exponents = (0.0, 1.0, 2.0, 4.0)
    ours = [allocate_max_min(age_pair(p), 500.0).worst for p in exponents]
    theirs = [proportional(age_pair(p), 500.0).worst for p in exponents]
    assert theirs == pytest.approx([0.5] * 4)
    assert ours == sorted(ours) and ours[-1] > 0.7


# --- curves -----------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_needed_is_the_inverse(seed, recall):
    curve = drawn(seed)
    memory = curve.memory_for(recall)
    assert curve.at(memory) == pytest.approx(recall, abs=1e-9)
    assert memory == 0 or curve.at(memory * (1 - 1e-6)) < recall + 1e-9


def test_needed_takes_the_least_and_says_when_none_is_enough():
    curve = RecallCurve([0, 10, 90, 100], [0, 0.5, 0.5, 0.9])
    assert curve.memory_for(0.5) == 10 and curve.memory_for(0) == 0
    assert curve.memory_for(0.7) == pytest.approx(95) and curve.memory_for(0.95) == float("inf")


def test_prints_what_a_planner_asks():
    curve = RecallCurve([0, 310 * MIB, 620 * MIB], [0, 0.95, 1.0])
    assert "95 % needs 310 MiB" in str(curve).splitlines()
    assert "99 % needs more than is known" in str(RecallCurve([0, 10], [0, 0.95])).splitlines()
    assert "50 % needs 500 rows" in str(RecallCurve([0, 1000], [0, 1], "rows")).splitlines()
    assert str(allocate({"one": curve}, 310 * MIB)) == "one: 310 MiB, recall 95.0 %"


def test_of_age_follows_the_split():
    curves, rates, sizes = [AgeCurve(K**2.0, 25.0), AgeCurve((3, 0, 2), 10.0)], [1.0, 4.0], [100.0, 50.0]
    recall = recall_of_ages(curves, rates, sizes)
    assert recall.memory[-1] == pytest.approx(500 * 100 + 4 * 30 * 50)
    assert recall.at(recall.memory[-1]) == pytest.approx(1) and recall.at(0) == 0
    for memory in np.linspace(0, recall.memory[-1], 7):
        assert recall.at(memory) == pytest.approx(split(curves, rates, memory, sizes).recall, abs=0.005)


@given(st.integers(0, 1000), st.integers(2, 4))
@examples(8)
def test_of_frequency_follows_the_model(seed, streams):
    rng = np.random.default_rng(seed)
    model = FrequencyModel(rng.dirichlet(np.ones(12), streams), [1.0] * streams, [10.0] * streams)
    curve = recall_of_frequencies(model)
    assert curve.unit == "rows" and curve.at(model.whole) == pytest.approx(1)
    for memory in rng.uniform(0, model.whole, 5):
        assert curve.at(memory) == pytest.approx(model.keep(memory).recall, abs=0.02)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: RecallCurve([0, 1], [0.5]), "one recall for each amount"),
        (lambda: RecallCurve([1, 0], [0, 1]), "must rise"),
        (lambda: RecallCurve([0, 1], [1, 0]), "must not fall"),
        (lambda: RecallCurve([0, 1], [0, 2]), "in 0..1"),
        (lambda: allocate_max_min([], 5), "at least one join"),
        (lambda: allocate_max_min([drawn(1)], -5), "from 0 up, got -5"),
        (lambda: allocate_max_min([drawn(1)], 5, [0.0]), "one positive weight for each of 1 joins"),
        (
            lambda: allocate_max_min([drawn(1), RecallCurve([0, 1], [0, 1], "rows")], 5),
            "some curves count bytes",
        ),
    ],
)
def test_bad_input(build, says):
    with pytest.raises(QueryError, match=says):
        build()
