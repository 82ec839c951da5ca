"""Memory of samples: the theorems against UNIFORM as the paper writes it, run over long streams."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import examples
from windrow.errors import QueryError
from windrow.memory_models.age_curve import AgeCurve
from windrow.memory_models.sampling import mean_within, pps_constant, uniform_fraction
from windrow_lab.memory_theory import AgeSample, FrequencySample

WINDOW = 100.0
fractions = st.floats(0.001, 1.0)


def lifetimes(rng: np.random.Generator, ages: np.ndarray, rows: int, p: float) -> np.ndarray:
    """UNIFORM (Fig. 4): skip geometrically from result to result; a row stays until the last one chosen."""
    chosen = np.cumsum(rng.geometric(p, (rows, len(ages))), axis=1)
    last = np.where(chosen <= len(ages), chosen, 0).max(axis=1)
    return np.concatenate([[0.0], ages])[last]


def held(rng: np.random.Generator, births: np.ndarray, lives: np.ndarray) -> np.ndarray:
    """Rows held at many moments, after a window of warming up."""
    moments = np.sort(rng.uniform(WINDOW, births[-1], 40_000))
    ends = np.sort(births + lives)
    return np.searchsorted(births, moments, side="right") - np.searchsorted(ends, moments, side="right")


def arrivals(rng: np.random.Generator, rate: float, rows: int, poisson: bool) -> np.ndarray:
    gaps = rng.exponential(1 / rate, rows) if poisson else np.full(rows, 1 / rate)
    return np.cumsum(gaps)


@pytest.mark.parametrize("poisson", [False, True])
@pytest.mark.parametrize("p", [0.1, 0.5])
def test_theorem_4_2(p, poisson):
    rng = np.random.default_rng(42)
    shares, results, rows, rate = np.array([0.5, 0.3, 0.2]), np.array([2, 8, 25]), 200_000, 2.0
    births = arrivals(rng, rate, rows, poisson)
    value = rng.choice(3, rows, p=shares)
    lives = np.zeros(rows)
    for v, n in enumerate(results):
        lives[value == v] = lifetimes(rng, np.arange(1, n + 1) * WINDOW / n, (value == v).sum(), p)
    seen = held(rng, births, lives)
    model = FrequencySample(rate, WINDOW, shares, results)
    assert seen.mean() == pytest.approx(model.memory(p), rel=0.02)
    assert not poisson or seen.var() == pytest.approx(model.memory(p), rel=0.15)


@pytest.mark.parametrize("poisson", [False, True])
@pytest.mark.parametrize("p", [0.05, 0.3])
def test_theorem_4_3(p, poisson):
    rng = np.random.default_rng(43)
    curve, rows, rate = AgeCurve((0, 1, 0, 3, 5, 1, 0, 0, 2, 0), WINDOW / 10), 200_000, 2.0
    births = arrivals(rng, rate, rows, poisson)
    lives = lifetimes(rng, curve.age_at(np.arange(1, 13)), rows, p)
    seen = held(rng, births, lives)
    model = AgeSample(curve, rate)
    assert seen.mean() == pytest.approx(model.memory(p), rel=0.02)
    assert not poisson or seen.var() == pytest.approx(model.memory(p), rel=0.15)


def test_theorem_4_3_as_printed():
    p, rate, fine = 0.3, 7.0, 1000
    late = np.zeros(4 * fine)
    late[fine - 1 :: fine] = (1, 1, 2, 1)  # in discrete time results occur at the end of each unit
    by_age = {1: 1, 2: 2, 3: 3, 4: 3, 5: 4}
    printed = rate * sum(p * (1 - p) ** (5 - i) * age for i, age in by_age.items())
    assert AgeSample(AgeCurve(late, 1 / fine), rate).memory(p) == pytest.approx(printed, rel=1e-3)
    assert AgeSample(AgeCurve((1, 1, 2, 1)), rate).memory(p) < printed


def test_theorem_4_2_as_printed():
    p, q, n = 0.3, 0.7, np.array([2.0, 8.0])
    printed = 5 * 10 * (np.array([0.4, 0.6]) * (1 - q * (1 - q**n) / (p * n))).sum()
    assert FrequencySample(5, 10, [0.4, 0.6], n).memory(p) == pytest.approx(printed)


def test_results_that_come_at_random_take_no_more_memory():
    rng = np.random.default_rng(44)
    rate, n, p, rows = 2.0, 5, 0.4, 100_000
    chosen = np.cumsum(rng.geometric(p, (rows, n)), axis=1)
    last = np.where(chosen <= n, chosen, 0).max(axis=1)
    waits = np.cumsum(np.column_stack([np.zeros(rows), rng.exponential(WINDOW / n, (rows, n))]), axis=1)
    lives = np.minimum(waits[np.arange(rows), last], WINDOW)
    assert rate * lives.mean() < FrequencySample(rate, WINDOW, [1.0], [n]).memory(p)


@given(st.integers(1, 40), fractions)
def test_the_two_theorems_agree_on_an_even_curve(n, p):
    even = AgeSample(AgeCurve([n / 10] * 10, WINDOW / 10), 3.0)
    frequency = FrequencySample(3.0, WINDOW, [1.0], [n])
    assert even.memory(p) == pytest.approx(frequency.memory(p), rel=1e-6)


@given(st.floats(0.01, 30), fractions)
def test_rounded_counts_take_no_more_memory_than_the_formula_says(n, p):
    model = FrequencySample(1.0, WINDOW, [1.0], [n])
    assert model.rounded().memory(p) <= model.memory(p) + 1e-9
    assert (model.rounded().shares * model.rounded().results).sum() == pytest.approx(n)
    even = AgeSample(AgeCurve([n / 10] * 10, WINDOW / 10), 1.0)
    assert even.memory(p) == pytest.approx(model.rounded().memory(p), rel=1e-6)


def test_at_the_ends():
    frequency, age = FrequencySample(2, 50, [0.5, 0.5], [4, 0]), AgeSample(AgeCurve((1, 1, 2, 0)), 2)
    assert frequency.memory(0) == age.memory(0) == 0
    assert frequency.memory(1) == pytest.approx(50) and age.memory(1) == pytest.approx(6)
    assert AgeSample(AgeCurve((0, 0)), 2).memory(0.5) == 0


# --- choosing the fraction ---------------------------------------------------------------------------------

BOTH = [
    FrequencySample(1.0, 500.0, [0.7, 0.3], [4.0, 20.0]),
    AgeSample(AgeCurve((0, 1, 4, 2), 100.0), 5.0),
]


def both(p: float) -> list[float]:
    return [stream.memory(p) for stream in BOTH]


def alone(p: float) -> list[float]:
    return [FrequencySample(2.0, WINDOW, [1.0], [10.0]).memory(p)]


@given(st.floats(1, 2000), st.floats(0, 4))
@examples(40)
def test_the_fraction_fills_the_memory_with_its_margin(memory, z):
    sizes = [1.0, 0.5]
    p = uniform_fraction(both, memory, z, sizes)
    mean = sum(rows * size for rows, size in zip(both(p), sizes, strict=True))
    spread = sum(rows * size**2 for rows, size in zip(both(p), sizes, strict=True)) ** 0.5
    assert 0 < p <= 1
    assert mean + z * spread <= memory * (1 + 1e-6)
    assert p == 1 or mean + z * spread == pytest.approx(memory, rel=1e-6)


def test_a_margin_holds_the_limit():
    rng = np.random.default_rng(45)
    ages = np.arange(1, 11) * WINDOW / 10
    p = uniform_fraction(alone, 60.0, 3.0, [1.0])
    births = arrivals(rng, 2.0, 100_000, poisson=True)
    seen = held(rng, births, lifetimes(rng, ages, len(births), p))
    assert (seen > 60).mean() < 0.01
    assert uniform_fraction(alone, 60.0, 0.0, [1.0]) > p


def test_no_memory_no_sample_enough_memory_everything():
    assert uniform_fraction(both, 0.0, 0.0, [1.0, 1.0]) == 0
    assert uniform_fraction(both, 1e9, 3.0, [1.0, 1.0]) == 1


@given(st.integers(0, 10_000), st.integers(1, 30), st.floats(0.01, 1.5))
def test_pps_fills_the_memory_with_no_probability_above_1(seed, classes, part):
    rng = np.random.default_rng(seed)
    sizes, counts = rng.pareto(0.7, classes) + 0.1, rng.uniform(0, 50, classes)
    memory = part * counts.sum()
    p = pps_constant(sizes, counts, memory)
    taken = (counts * np.minimum(1, p * sizes)).sum()
    assert taken == pytest.approx(min(memory, counts.sum()))


def test_pps_by_hand():
    # 10 rows with 8 results each, 10 with 2: solved at once p = 15 / 100 and 8 p > 1; so 10 certain, 5 of 10.
    ten = np.array([10.0, 10.0])
    assert pps_constant(np.array([8.0, 2.0]), ten, 15) == pytest.approx(0.25)
    assert pps_constant(np.array([8.0, 2.0]), ten, 5) == pytest.approx(0.05)
    # Rows without results are never taken.
    assert pps_constant(np.array([8.0, 0.0]), ten, 15) == pytest.approx(1 / 8)
    assert pps_constant(np.array([0.0]), ten[:1], 15) == 0


@pytest.mark.parametrize("memory", [1.0, 50.0, 1e6])
def test_mean_within_leaves_the_margin(memory):
    mean = mean_within(memory, 3.0, 0.5)
    assert mean + 3.0 * np.sqrt(0.5 * mean) == pytest.approx(memory)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: FrequencySample(1, 1, [0.5, 0.5], [1.0]), "one number of results for each value"),
        (lambda: FrequencySample(1, 1, [1.0], [-1.0]), "from 0 up"),
        (lambda: FrequencySample(-1, 1, [1.0], [1.0]), "rate and window must not be negative, got -1, 1"),
    ],
)
def test_bad_input(build, says):
    with pytest.raises(QueryError, match=says):
        build()
