"""Response times: mean, maximum and percentile, kept through a snapshot."""

from __future__ import annotations

import json

import numpy as np
import pytest

from windrow.engine.shared.response_times import ResponseTimes
from windrow.model.stateful import decode, encode


def test_responses_keep_mean_maximum_and_percentile():
    r = ResponseTimes()
    for k in range(1, 1001):
        r.add(k / 1000, 1)
    assert r.mean == pytest.approx(0.5005) and r.maximum == 1.0
    assert 0.99 <= r.percentile(0.99) <= 1.0
    assert 0.5 <= r.percentile(0.5) <= 0.6
    again = decode(json.loads(json.dumps(encode(r, []))), [])
    again.add(0.1, 5)
    assert again.since(r).count == 5 and again.since(r).maximum == pytest.approx(0.1, rel=0.21)


def test_times_of_many_results_count_as_if_each_was_added():
    seconds = np.sort(np.random.default_rng(0).exponential(0.01, 500))
    seconds[:3] = 0.0
    one_by_one, together = ResponseTimes(), ResponseTimes()
    for each in seconds.tolist():
        one_by_one.add(each, 1)
    for part in np.array_split(seconds, 7):
        together.merge(ResponseTimes.of(part))
    together.merge(ResponseTimes.of(np.empty(0)))
    assert together.metrics() == {name: pytest.approx(each) for name, each in one_by_one.metrics().items()}
    assert [together.percentile(k / 20) for k in range(21)] == [
        one_by_one.percentile(k / 20) for k in range(21)
    ]
