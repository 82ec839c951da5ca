"""The age model against the paper's worked examples, a linear program, and the definitions written out."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from queries import examples
from windrow.errors import QueryError
from windrow.memory_models.age_curve import AgeCurve, Retention, split
from windrow_lab.memory_theory import best_retention, has_minima, paper_results, results_by

EXAMPLE_3_3 = AgeCurve((1, 1, 2, 1))
EXAMPLE_3_4 = AgeCurve((3, 0, 2))
K = np.arange(1, 21)
INC = AgeCurve(K**2 * 1.0, 25.0)
DEC = AgeCurve((20 - K) ** 2 * 1.0, 25.0)
BELL = AgeCurve(np.where(K <= 10, K**2, (20 - K) ** 2) * 1.0, 25.0)

counts = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=25)
reals = st.lists(st.floats(0, 10, allow_subnormal=False), min_size=1, max_size=25)
curves = st.builds(AgeCurve, st.one_of(counts, reals), st.sampled_from([1.0, 0.1, 25.0]))


def simulated(curve: AgeCurve, cells: int, steps: int) -> tuple[list[list[int]], list[float]]:
    """One row a time unit and so many cells; who does not fit goes by priority: rows held, results."""
    kept: list[int] = []
    cells_at, results = [], []
    for now in range(1, steps + 1):
        kept = [born for born in kept if now - born < len(curve.rates)] + [now]
        if len(kept) > cells:
            priority = curve.priority(np.array([now - born for born in kept], dtype=float))
            kept.pop(int(np.argmin(priority)))
        cells_at.append(list(kept))
        results.append(sum(curve.rates[now - born] for born in kept))
    return cells_at, results


def best_by_program(curve: AgeCurve, mean: float) -> float:
    """The most results of any distribution over retention times with this mean, as a linear program."""
    solved = linprog(
        -curve.cumulative,
        A_ub=[curve.ages],
        b_ub=[mean],
        A_eq=[np.ones(len(curve.ages))],
        b_eq=[1.0],
        bounds=(0, 1),
    )
    return -solved.fun


# --- the paper's examples -------------------------------------------------------------------------------


def test_example_3_3_one_cell():
    assert best_retention(EXAMPLE_3_3) == 3
    assert EXAMPLE_3_3.retention(1) == Retention(0, 3, 1 / 3)
    assert EXAMPLE_3_3.results(1) * 3 == pytest.approx(4)
    held, results = simulated(EXAMPLE_3_3, 1, 7)
    assert held == [[1], [1], [1], [4], [4], [4], [7]]
    assert results == [1, 1, 2, 1, 1, 2, 1]


def test_example_3_3_two_cells_staggered():
    assert EXAMPLE_3_3.retention(2) == Retention(0, 3, 2 / 3)
    assert EXAMPLE_3_3.results(2) * 3 == pytest.approx(8)
    held, _ = simulated(EXAMPLE_3_3, 2, 7)
    assert held == [[1], [1, 2], [1, 2], [2, 4], [4, 5], [4, 5], [5, 7]]


def test_example_3_4_mixes_two_retention_times():
    assert has_minima(EXAMPLE_3_4) and not has_minima(EXAMPLE_3_3)
    assert best_retention(EXAMPLE_3_4) == 1
    assert EXAMPLE_3_4.retention(2) == Retention(1, 3, 0.5)
    assert EXAMPLE_3_4.results(2) == pytest.approx(4)
    assert results_by(EXAMPLE_3_4, 2) == 3 == paper_results(EXAMPLE_3_4, 2, rate=1)
    assert [each.tolist() for each in EXAMPLE_3_4.envelope] == [[0, 1, 3], [0, 3, 5]]


def test_example_3_4_by_priority():
    assert EXAMPLE_3_4.priority(np.array([0.0, 1.0, 2.0, 3.0])).tolist() == [3, 1, 2, 0]
    held, results = simulated(EXAMPLE_3_4, 2, 7)
    assert held == [[1], [1, 2], [1, 3], [3, 4], [3, 5], [5, 6], [5, 7]]
    assert results == [3, 3, 5, 3, 5, 3, 5]


# --- the envelope -----------------------------------------------------------------------------------------


@given(curves, st.floats(0, 1))
@examples(60)
def test_envelope_is_the_optimum_of_the_linear_program(curve, part):
    mean = part * curve.window
    assert curve.results(mean) == pytest.approx(best_by_program(curve, mean), abs=1e-6 * max(curve.n, 1))


@given(curves, st.floats(0, 1.5))
def test_retention_meets_its_mean_and_its_results(curve, part):
    chosen = curve.retention(part * curve.window)
    mean = chosen.short + chosen.share * (chosen.long - chosen.short)
    assert mean == pytest.approx(min(part, 1.0) * curve.window)
    assert 0 <= chosen.share <= 1 and 0 <= chosen.short < chosen.long <= curve.window
    mixed = chosen.share * results_by(curve, chosen.long) + (1 - chosen.share) * results_by(
        curve, chosen.short
    )
    assert mixed == pytest.approx(float(curve.results(mean)), abs=1e-9 * max(curve.n, 1))


@given(curves)
def test_envelope_is_concave_and_above_the_curve(curve):
    ages, values = curve.envelope
    assert ages[0] == values[0] == 0 and ages[-1] == curve.window and values[-1] == curve.n
    slopes = np.diff(values) / np.diff(ages)
    assert all(after <= before + 1e-9 for before, after in pairwise(slopes))
    assert (curve.results(curve.ages) >= curve.cumulative - 1e-9).all()


@given(
    st.lists(st.floats(0, 10), min_size=1, max_size=20),
    st.integers(0, 20),
    st.floats(0.1, 5),
    st.floats(0, 1),
)
def test_equation_3_is_the_envelope_where_there_are_no_minima(values, peak, rate, part):
    rising, falling = sorted(values[:peak]), sorted(values[peak:], reverse=True)
    curve = AgeCurve([*rising, *falling], 2.0)
    assert not has_minima(curve)
    memory = part * rate * curve.window
    assert paper_results(curve, memory, rate) == pytest.approx(rate * curve.results(memory / rate), abs=1e-6)


def test_equation_3_knows_less_than_the_envelope_where_there_are_minima():
    rng = np.random.default_rng(3)
    for _ in range(50):
        curve = AgeCurve(rng.random(12) ** 3)
        memory = np.linspace(0, 2 * curve.window, 50)
        assert (paper_results(curve, memory, 2.0) <= 2.0 * curve.results(memory / 2.0) + 1e-9).all()


def test_age_reduces_to_recent_for_falling_curves_only():
    assert best_retention(DEC) == 25.0 and best_retention(INC) == 500.0
    assert DEC.retention(100.0).short == 100.0
    assert INC.retention(100.0) == Retention(0.0, 500.0, 0.2)
    assert 250.0 < best_retention(BELL) < 500.0


# --- priorities -------------------------------------------------------------------------------------------


@given(curves, st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=30))
def test_priority_is_the_definition(curve, parts):
    for age in np.array(parts) * curve.window:
        # At the very end of a span the quotient below is all rounding.
        if np.abs(curve.ages - age).min() < 1e-6 * curve.width:
            age = float(curve.ages[np.abs(curve.ages - age).argmin()])
        later = curve.ages > age
        rates = (curve.cumulative[later] - results_by(curve, age)) / (curve.ages[later] - age)
        assert curve.priority(np.array([age]))[0] == pytest.approx(rates.max(initial=0.0), rel=1e-6, abs=1e-6)


@given(curves, st.lists(st.floats(-1, 2), max_size=30))
def test_priority_of_many_is_that_of_each(curve, parts):
    ages = np.array(parts, dtype=float) * curve.window
    together = curve.priority(ages)
    assert together.tolist() == [curve.priority(np.array([age]))[0] for age in ages]
    assert (together[ages >= curve.window] == 0).all()


def test_priority_reaches_the_envelope_when_rows_come_evenly():
    rng = np.random.default_rng(11)
    for trial in range(25):
        rates = rng.random(10) ** 3 if trial % 2 else rng.integers(0, 4, 10) + 0.0
        curve, cells = AgeCurve(rates), int(rng.integers(1, 10))
        _, results = simulated(curve, cells, 500)
        assert np.mean(results[50:]) == pytest.approx(curve.results(cells), rel=0.02)


# --- memory between streams -------------------------------------------------------------------------------


@given(curves, curves, st.floats(0.1, 5), st.floats(0.1, 5), st.floats(0, 1), st.floats(1, 4))
@examples(40)
def test_split_between_two_is_the_best_of_all_splits(one, two, rate, other, part, size):
    costs = np.array([rate, other * size])
    memory = part * float(costs @ [one.window, two.window])
    found = split([one, two], [rate, other], memory, [1.0, size])
    total = rate * one.n + other * two.n
    if total == 0:
        assert found.recall == 1
        return
    first = np.linspace(0, memory, 400)
    tried = rate * one.results(first / costs[0]) + other * two.results((memory - first) / costs[1])
    assert found.recall >= tried.max() / total - 1e-9
    reached = rate * one.results(found.retention[0]) + other * two.results(found.retention[1])
    assert found.recall == pytest.approx(reached / total)
    assert sum(found.memory) == pytest.approx(memory)
    assert np.allclose(np.array(found.retention) * costs, found.memory)


def test_split_without_minima_is_equation_3():
    found = split([INC, DEC], [1.0, 2.0], 500.0)
    produced = paper_results(INC, found.memory[0], 1.0) + paper_results(DEC, found.memory[1], 2.0)
    assert found.recall == pytest.approx(float(produced / (INC.n + 2 * DEC.n)))


def test_split_gives_like_streams_alike():
    assert split([INC, INC], [1.0, 1.0], 200.0).memory == pytest.approx((100.0, 100.0))
    assert split([INC, INC, INC], [1.0, 1.0, 1.0], 300.0).memory == pytest.approx((100.0, 100.0, 100.0))


def test_split_at_the_ends():
    nothing, everything = split([INC, DEC], [1.0, 2.0], 0.0), split([INC, DEC], [1.0, 2.0], 1e9)
    assert nothing.recall == 0 and nothing.retention == (0, 0)
    assert everything.recall == pytest.approx(1) and everything.retention == (500, 500)
    assert split([EXAMPLE_3_3], [1.0], 1.0).recall == pytest.approx(4 / 15)
    assert split([INC, DEC], [0.0, 2.0], 1e9).retention == (500, 500)


def test_split_between_three_is_the_best_of_a_grid():
    rng = np.random.default_rng(7)
    for _ in range(10):
        rates, completed = rng.uniform(0.5, 3, 3), rng.dirichlet(np.ones(3))
        shapes = [rng.random(rng.integers(2, 12)) ** 3 for _ in range(3)]
        three = [
            AgeCurve(shape / shape.sum() * (1 - done) / rate)
            for shape, done, rate in zip(shapes, completed, rates, strict=True)
        ]
        memory = rng.uniform(0.1, 0.8) * sum(r * c.window for r, c in zip(rates, three, strict=True))
        first, second = (each.ravel() * memory for each in np.meshgrid(*[np.linspace(0, 1, 101)] * 2))
        tried = np.stack([first, second, memory - first - second])[:, first + second <= memory]
        q1, q2, q3 = (c.results(x / r) / c.n for c, x, r in zip(three, tried, rates, strict=True))
        grid = completed[0] * q2 * q3 + completed[1] * q1 * q3 + completed[2] * q1 * q2
        found = split(three, rates, memory)
        assert found.recall >= 0.999 * grid.max()
        assert sum(found.memory) == pytest.approx(memory)


# --- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: AgeCurve(()), "at least one span"),
        (lambda: AgeCurve((1.0, -2.0)), "from 0 up, got -2.0"),
        (lambda: AgeCurve((1.0, float("nan"))), "got nan"),
        (lambda: AgeCurve((1.0,), 0.0), "width of a span must be positive, got 0.0"),
    ],
)
def test_bad_input(build, says):
    with pytest.raises(QueryError, match=says):
        build()
