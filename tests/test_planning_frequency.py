"""The frequency model against the paper's formula, every split, a linear program, and the cost model."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from queries import examples
from windrow.errors import QueryError
from windrow.planning.cost import join_size
from windrow.planning.statistics import JoinStatistics, StreamStatistics
from windrow_lab.frequency_model import FrequencyModel


def zipf(values: int, skew: float) -> np.ndarray:
    weight = 1.0 / np.arange(1, values + 1) ** skew
    return weight / weight.sum()


def drawn(seed: int, streams: int, values: int) -> FrequencyModel:
    rng = np.random.default_rng(seed)
    return FrequencyModel(
        rng.dirichlet(np.full(values, 0.5), streams),
        rng.uniform(0.5, 5, streams),
        rng.uniform(5, 20, streams) if seed % 2 else np.full(streams, 10.0),
        rng.uniform(1, 3, streams),
    )


def best_by_program(model: FrequencyModel, memory: float) -> float:
    """For each value a mix of sets of windows that keep it, as a linear program: the most recall."""
    streams, values = model.frequencies.shape
    sets = np.array(list(product([0, 1], repeat=streams)))
    completes = np.array([[np.delete(each, j).all() for j in range(streams)] for each in sets])
    solved = linprog(
        -(completes @ model.completed).T.ravel(),
        A_ub=[(sets @ model.sizes).T.ravel()],
        b_ub=[memory],
        A_eq=np.kron(np.eye(values), np.ones(len(sets))),
        b_eq=np.ones(values),
        bounds=(0, 1),
    )
    return -solved.fun / model.completed.sum()


def test_section_3_3_by_hand():
    # Rows in window 1 by value: 50, 30, 20; results per time from a row of it: f2 * r2 = 0.4, 0.6, 1.0.
    model = FrequencyModel([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], [10, 2], [10, 20])
    assert model.rows.tolist() == [[50, 30, 20], [8, 12, 20]]
    assert model.yields == pytest.approx(np.array([[0.4, 0.6, 1.0], [5.0, 3.0, 2.0]]))
    # 50 rows of stream 1 hold the third and second value; 12 of stream 2 the first, a third of the second.
    kept = model.prob([50, 12])
    assert kept.share == pytest.approx(np.array([[0, 1, 1], [1, 1 / 3, 0]]))
    first = 10 * 2 * 10 * (0.3 * 0.3 + 0.2 * 0.5)
    second = 10 * 2 * 20 * (0.5 * 0.2 + 0.3 * 0.3 / 3)
    assert kept.recall == pytest.approx((first + second) / (10 * 2 * (10 + 20) * 0.29))


def test_best_split_keeps_by_frequency_on_the_other_stream():
    model = FrequencyModel([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], [10, 2], [10, 20])
    assert model.priority == pytest.approx(model.yields)
    # All of stream 2 is worth more than any row of stream 1.
    assert model.keep(40 + 20).memory == pytest.approx((20, 40))
    assert model.keep(40 + 20).share[0].tolist() == [0, 0, 1]


@given(st.integers(0, 10_000), st.integers(1, 12), st.floats(0, 1))
@examples(40)
def test_no_split_between_two_streams_is_better(seed, values, part):
    model = drawn(seed, 2, values)
    memory = part * model.whole
    found = model.keep(memory)
    assert sum(found.memory) == pytest.approx(memory)
    for first in np.linspace(0, memory, 40):
        assert model.prob([first, max(0.0, memory - first)]).recall <= found.recall + 1e-9
    assert model.prob(found.memory).recall == pytest.approx(found.recall)
    assert found.recall == pytest.approx(best_by_program(model, memory), abs=1e-7)


@pytest.mark.parametrize("streams", [3, 4])
def test_whole_steps_are_the_optimum_for_more_streams(streams):
    for seed in range(12):
        model = drawn(seed, streams, 5)
        for memory in model.levels[:: len(model.levels) // 3]:
            assert model.keep(memory).recall == pytest.approx(best_by_program(model, memory), abs=1e-6)


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 8), st.floats(0, 1), st.floats(0, 1))
@examples(60)
def test_more_memory_never_hurts_and_all_of_it_finds_all(seed, streams, values, part, other):
    model = drawn(seed, streams, values)
    less, more = sorted((part * model.whole, other * model.whole))
    assert model.keep(less).recall <= model.keep(more).recall + 1e-9
    assert model.keep(model.whole).recall == pytest.approx(1)
    assert model.keep(0).recall == 0
    assert sum(model.keep(more).memory) == pytest.approx(more)


def test_yields_are_the_sum_over_the_completing_streams():
    model = drawn(5, 4, 6)
    f, r, rows = model.frequencies, model.rates, model.rows
    for i, v in product(range(4), range(6)):
        expected = sum(
            r[j] * f[j, v] * np.prod([rows[k, v] for k in range(4) if k not in (i, j)])
            for j in range(4)
            if j != i
        )
        assert model.yields[i, v] == pytest.approx(expected)


def test_results_agree_with_the_cost_model_for_even_frequencies():
    rates, windows, values = (2.0, 3.0, 1.0), (10.0, 20.0, 5.0), 7
    model = FrequencyModel(np.full((3, values), 1 / values), rates, windows)
    streams = tuple(StreamStatistics(r, w) for r, w in zip(rates, windows, strict=True))
    stats = JoinStatistics(streams, (dict.fromkeys(range(3), values),))
    for stream in range(3):
        assert model.completed[stream].sum() == pytest.approx(join_size(stats, range(3)) / windows[stream])


def test_a_stream_that_is_not_stored():
    model = FrequencyModel([zipf(50, 2), zipf(50, 2)[::-1]], [1, 5], [500, 0])
    assert model.whole == pytest.approx(500)
    kept = model.keep(50)
    assert kept.memory == pytest.approx((50, 0))
    # Values that are rare on stream 1 and frequent on stream 2 are the cheap ones.
    direct = FrequencyModel([zipf(50, 2), zipf(50, 2)], [1, 5], [500, 0])
    assert direct.keep(50).recall < 0.2 < 0.5 < kept.recall


def test_values_of_one_stream_only_come_last():
    model = FrequencyModel([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]], [1, 1], [10, 10])
    kept = model.keep(10)
    assert kept.recall == pytest.approx(1) and kept.share[:, 0].tolist() == [1, 1]
    assert FrequencyModel([[1.0, 0.0], [0.0, 1.0]], [1, 1], [10, 10]).keep(3).recall == 1


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: FrequencyModel([[1.0]], [1], [1]), "two or more streams"),
        (lambda: FrequencyModel([[0.9, 0.9], [0.5, 0.5]], [1, 1], [1, 1]), "sum to at most 1"),
        (lambda: FrequencyModel([[1.0], [1.0]], [1], [1, 1]), "rates must be 2 numbers"),
        (lambda: FrequencyModel([[1.0], [1.0]], [1, 1], [1, -1]), "windows must be 2 numbers from 0 up"),
        (lambda: drawn(1, 2, 3).keep(-1), "must not be negative, got -1"),
        (lambda: drawn(1, 2, 3).prob([1.0]), "memory for 2 streams, got 1"),
    ],
)
def test_bad_input(build, says):
    with pytest.raises(QueryError, match=says):
        build()


def test_prints():
    model = FrequencyModel([[0.5, 0.5], [0.5, 0.5]], [1, 1], [10, 10])
    assert str(model.keep(10)) == "recall 50.0 %; stream 0: 2 of 2 values in 5, stream 1: 2 of 2 values in 5"
