"""Residence priorities as kernels compute them, eight rows at a time, and as the paper writes them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from windrow.kernels import importance_priority

NOW, TOP = 100_000_000, 1e200


def rows(count: int, seed: int) -> tuple[np.ndarray, ...]:
    """Times, importance, matches and the time of the last match; some rows out of order."""
    random = np.random.default_rng(seed)
    ts = np.sort(random.integers(NOW - 12_000_000, NOW + 1, count))
    ts[random.integers(0, count, count // 20)] = NOW - 3
    matches = np.where(random.random(count) < 0.4, 0.5 + random.random(count), 0.0)
    matched = np.where(matches > 0, ts + (NOW - ts) * random.random(count), ts).astype(float)
    return ts, 1e5 * random.random(count), matches, matched


@pytest.mark.parametrize("decay", [0.0, 4e-8, 1e-6, 1e-3])
@pytest.mark.parametrize("maturity", [0.0, 5e6, 60e6])
def test_one_pass_is_the_formula(decay: float, maturity: float) -> None:
    ts, importance, matches, matched = given = rows(1001, 3)
    idle, loss, tie = 7e6, 0.2, 1e-9
    out, kept, spared = np.empty(1001), np.empty(1001), np.empty(1001)
    terms = (*given, NOW, decay, idle, loss, tie)
    importance_priority.residence_priorities(*terms, maturity, TOP, out)
    importance_priority.residence_priorities(*terms, 0.0, np.inf, kept)
    importance_priority.spare_young(ts, kept, NOW, maturity, TOP, spared)
    assert np.array_equal(out, spared)
    for k in range(1001):
        age, since = max(1.0, float(NOW - ts[k])), NOW - matched[k]
        expected = importance[k] * matches[k] * math.exp(-decay * since) * 1e6 / age - tie * age
        expected -= loss * since / 1e6 if since >= idle else 0.0
        if maturity and NOW - ts[k] <= maturity:
            expected = TOP * (2 - (NOW - ts[k]) / maturity)
        assert out[k] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_what_is_no_importance_is_none() -> None:
    values = np.array([1.0, np.nan, 0.0, np.inf, -2.0, 1e100, 1e101])
    assert importance_priority.bound_importance(values, 0) == 4
    assert values.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 1e100, 0.0]
    assert importance_priority.bound_importance(np.array([np.nan, np.nan, np.nan]), 2) == 1
