"""Solvers of harvest fractions against trying every setting."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvests import random_model, slow_cost_and_output
from windrow.errors import QueryError
from windrow.harvest.model import CostFactors, HarvestModel
from windrow.harvest.solve import METRICS, SOLVERS, greedy, reverse, solve, switch
from windrow.kernels.harvest import multiple_choice
from windrow.model.harvest import BasicWindows

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.floats(0.02, 0.98))
def test_exhaustive_tries_every_setting(seed, z):
    model = random_model(np.random.default_rng(seed), 3, 2)
    best = 0.0
    for flat in product(range(3), repeat=6):
        cost, output = slow_cost_and_output(model, np.array(flat).reshape(3, 2))
        if cost <= z * model.full[0] * (1 + 1e-12):
            best = max(best, output)
    assert solve(model, z, "exhaustive").output == pytest.approx(best, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.floats(0.01, 0.99), st.sampled_from([0.0005, 0.01, 0.1]), st.booleans())
def test_three_streams_knapsack_is_the_optimum(seed, z, selectivity, ragged):
    model = random_model(np.random.default_rng(seed), 3, 7, selectivity=selectivity, ragged=ragged)
    best = solve(model, z, "exhaustive").output
    assert solve(model, z, "knapsack").output == pytest.approx(best, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.floats(0.01, 0.99), st.integers(1, 12))
def test_two_streams_knapsack_is_the_optimum(seed, z, windows):
    model = random_model(np.random.default_rng(seed), 2, windows)
    best = solve(model, z, "exhaustive").output
    assert solve(model, z, "knapsack").output == pytest.approx(best, rel=1e-9)


def test_four_streams_knapsack_is_near_the_optimum():
    rng = np.random.default_rng(4)
    for z in (0.05, 0.2, 0.6):
        model = random_model(rng, 4, 4)
        assert solve(model, z, "knapsack").output >= 0.99 * solve(model, z, "exhaustive").output


@settings(max_examples=40, deadline=None)
@given(
    SEEDS, st.integers(2, 5), st.floats(0.0, 0.999), st.sampled_from(sorted(set(SOLVERS) - {"exhaustive"}))
)
def test_every_method_stays_within_the_budget(seed, streams, z, method):
    rng = np.random.default_rng(seed)
    charges = CostFactors(arrival=float(rng.choice([0, 20])))
    model = random_model(rng, streams, 6, ragged=True, charges=charges)
    harvest = solve(model, z, method)
    free = max(z * harvest.full_cost, harvest.base)
    assert harvest.cost <= free * (1 + 1e-9)
    for direction in harvest.directions:  # what finds nothing costs nothing
        assert direction.cost == 0 or not direction.idle
    whole = [[hop.used for hop in direction.hops] for direction in harvest.directions]
    assert model.at(whole) == pytest.approx((harvest.cost, harvest.output), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(2, 5), st.floats(0.01, 0.99))
def test_knapsack_is_never_below_double_sided(seed, streams, z):
    model = random_model(np.random.default_rng(seed), streams, 8)
    assert solve(model, z, "knapsack").output >= solve(model, z, "double-sided").output * (1 - 1e-9)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(2, 4), st.floats(1e-6, 0.99), st.sampled_from(["knapsack", "greedy"]))
def test_parts_use_up_the_budget_and_never_lose(seed, streams, z, method):
    model = random_model(np.random.default_rng(seed), streams, 5)
    whole, parts = solve(model, z, method), solve(model, z, method, parts=True)
    assert parts.output >= whole.output and parts.output > 0
    assert parts.cost <= z * parts.full_cost * (1 + 1e-9)
    # Unless what is left to look at holds nothing.
    assert parts.cost == pytest.approx(z * parts.full_cost, rel=1e-6) or parts.recall > 0.9999


def test_greedy_takes_the_step_its_metric_prefers():
    """By hand: a row a second meets 100 rows in each of 2 basic windows with scores 1 and 3."""
    windows = BasicWindows.equal((10.0, 10.0), 2)
    scores = np.array([[[1.0, 3]], [[1, 1]]])
    model = HarvestModel(windows, [1, 0], [0, 200], ((1,), (0,)), np.full((2, 1), 0.04), scores)
    for metric in METRICS:
        assert greedy(model, 0.5, metric)[0, 0] == 1
    harvest = solve(model, 0.5)
    assert harvest.directions[0].hops[0].probed == (1,)
    assert harvest.output == pytest.approx(6, rel=1e-6)


def test_double_sided_switches_where_the_paper_says():
    assert [switch(m) for m in (2, 3, 5)] == pytest.approx([0.5**0.5, 0.5, 0.25])
    model = random_model(np.random.default_rng(2), 3, 9)
    for z, side in ((0.5, greedy), (0.51, reverse)):
        used = [[hop.used for hop in d.hops] for d in solve(model, z, "double-sided").directions]
        assert np.array_equal(used, side(model, z))


def choose(budget, steps, sizes, cost, output, best):
    """As the knapsack chooses: points are rows of larger tables, for which no kernel is compiled again."""
    cost, output = (np.stack([points, points], axis=1)[:, 0] for points in (cost, output))
    return multiple_choice.solve_multiple_choice(budget, steps, sizes, cost, output, best)


def test_choosing_against_every_combination():
    rng = np.random.default_rng(9)
    for _ in range(200):
        m, size = int(rng.integers(1, 5)), 6
        cost = np.sort(rng.integers(1, 30, (m, size)).astype(float) + rng.random((m, size)), axis=1)
        output = np.sort(rng.random((m, size)), axis=1)
        sizes = rng.integers(0, size + 1, m)
        budget = float(rng.uniform(0, 60))
        best = np.full(m, -1)
        assert choose(budget, 10**6, sizes, cost, output, best)
        worth = sum(output[i, p] for i, p in enumerate(best) if p >= 0)
        assert sum(cost[i, p] for i, p in enumerate(best) if p >= 0) <= budget * (1 + 1e-9)
        every = product(*(range(-1, s) for s in sizes))
        fits = [c for c in every if sum(cost[i, p] for i, p in enumerate(c) if p >= 0) <= budget]
        assert worth == pytest.approx(
            max(sum(output[i, p] for i, p in enumerate(c) if p >= 0) for c in fits), abs=1e-8
        )


def test_unknown_names_and_impossible_sizes_are_told():
    model = random_model(np.random.default_rng(0), 5, 20)
    with pytest.raises(QueryError, match="Did you mean 'knapsack'"):
        solve(model, 0.5, "knapsak")
    with pytest.raises(QueryError, match="unknown metric 'BestCost'"):
        greedy(model, 0.5, "BestCost")
    with pytest.raises(QueryError, match=r"would try .* settings"):
        solve(model, 0.5, "exhaustive")
    with pytest.raises(QueryError, match=r"lies in 0\.\.1, got -1"):
        solve(model, -1)


def test_a_join_that_finds_nothing_looks_at_nothing():
    model = random_model(np.random.default_rng(0), 3, 4, selectivity=0.0)
    for method in SOLVERS:
        assert solve(model, 0.5, method, parts=True).output == 0
    assert solve(model, 1).everything


@pytest.mark.parametrize("method", SOLVERS)
def test_a_budget_below_what_no_harvest_avoids_is_spent_on_nothing(method):
    model = random_model(np.random.default_rng(0), 3, 4, charges=CostFactors(arrival=500.0))
    assert 0.01 * model.full[0] < model.base
    harvest = solve(model, 0.01, method, parts=True)
    assert harvest.cost == harvest.base and harvest.output == 0
    best = np.zeros(3, dtype=np.int64)
    points = np.ones((3, 1))
    assert not choose(-1.0, 100, np.ones(3, dtype=np.int64), points, points, best)
    assert (best == -1).all()


@settings(max_examples=60, deadline=None)
@given(
    SEEDS,
    st.integers(2, 5),
    st.integers(1, 5),
    st.floats(0, 1),
    st.sampled_from(sorted(set(SOLVERS) - {"exhaustive"})),
)
def test_streams_that_stand_still_and_conditions_that_never_hold(seed, streams, windows, z, method):
    """Rates, rows, selectivities and scores of 0 anywhere: an answer within the budget, in finite time."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, streams, windows)
    some = {
        "rates": model.rates * rng.integers(0, 2, streams),
        "rows": model.rows * rng.integers(0, 2, streams),
        "selectivities": model.selectivities * rng.integers(0, 2, model.selectivities.shape),
        "scores": model.scores * rng.integers(0, 2, model.scores.shape),
    }
    model = replace(model, **some)
    harvest = solve(model, z, method, parts=True)
    assert harvest.cost <= z * harvest.full_cost * (1 + 1e-9)
    assert np.isfinite(harvest.output)
    assert harvest.output <= harvest.full_output * (1 + 1e-9)
