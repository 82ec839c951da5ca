"""Response times: mean, maximum and percentile, kept through a snapshot."""

from __future__ import annotations

import json

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
