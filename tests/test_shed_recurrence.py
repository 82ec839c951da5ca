"""What keys' rows of late foretell: the weights learned, against streams whose cause is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.eviction.models.key_intensity import FASTER, KeyIntensity
from windrow.model.stateful import decode, encode

SPAN, SECONDS = 20.0, 600
SCALES = 1 + len(FASTER)
Keys = Callable[[np.random.Generator, int], tuple[int, int]]


def evenly(rng: np.random.Generator, at: int) -> tuple[int, int]:
    """Some keys come more often than others, always."""
    return int(30 * rng.random() ** 3), int(30 * rng.random() ** 3)


def in_the_news(rng: np.random.Generator, at: int) -> tuple[int, int]:
    """A key comes for five seconds on a stream, for other five on the other, and never again."""
    return at // 5, 10_000 + at // 5


def following(rng: np.random.Generator, at: int) -> tuple[int, int]:
    """Every key comes on the first stream, and a second later on the second."""
    return at, at - 1


def learned(keys: Keys) -> KeyIntensity:
    """Of two streams of a row a second."""
    rng, traces = np.random.default_rng(3), KeyIntensity((0, 1), 4096)
    for at in range(SECONDS):
        words = [np.array([key]) for key in keys(rng, at)]
        traces.add_exposure(1.0)
        for stream in (0, 1):
            traces.observe(stream, words[stream], 1.0)
        traces.advance(1.0, SPAN, 4.0)
        for stream in (0, 1):
            traces.add(stream, words[stream], 1.0)
    return traces


def foretold(traces: KeyIntensity, stream: int) -> np.ndarray:
    """The part of a stream's arrivals by what foretold them: the traces of the one stream and the other, the
    slowest first; and those that nothing did."""
    return traces._parts[stream] * traces._needed[stream]


@pytest.mark.parametrize(
    ("keys", "stream", "cause"),
    [
        (evenly, 0, [0, SCALES, 2 * SCALES]),
        (evenly, 1, [0, SCALES, 2 * SCALES]),
        (in_the_news, 0, [1, 2]),
        (following, 0, [2 * SCALES]),
        (following, 1, [1, 2]),
    ],
)
def test_arrivals_are_put_down_to_their_cause(keys: Keys, stream: int, cause: list[int]) -> None:
    parts = foretold(learned(keys), stream)
    assert parts.sum() == pytest.approx(1.0)
    assert parts[cause].sum() > 0.75, parts


def test_rates_of_keys_that_come_evenly_are_their_frequencies() -> None:
    traces = learned(evenly)
    found = np.ones(30)
    traces.rate(1, np.arange(30), np.empty(0), found)
    true = np.diff((np.arange(31) / 30) ** (1 / 3))
    assert found.sum() == pytest.approx(1.0, abs=0.2)
    assert np.corrcoef(found, true)[0, 1] > 0.95


def test_a_row_that_is_the_only_one_of_its_key_has_no_rate() -> None:
    traces = learned(following)
    words = np.array([SECONDS - 1, SECONDS - 2, 99_999])
    found = np.ones(3)
    traces.rate(1, words, np.array([0.0, 1.0, 0.0]), found)
    assert found[0] == 0 and found[1] > 0 and found[2] == 0  # of the second both streams know
    ages = np.array([0.0, SPAN])
    soon, late = traces.singleton_rate(1, 0, ages)
    assert soon > 10 * late
    assert soon > 0.1


def test_learned_weights_outlive_a_restart() -> None:
    traces = learned(in_the_news)
    again = KeyIntensity((0, 1), 4096)
    arrays: list[np.ndarray] = []
    decode(encode(traces, arrays), arrays, again)
    for stream in (0, 1):
        np.testing.assert_array_equal(again.weights(stream), traces.weights(stream))
        found = [np.ones(2), np.ones(2)]
        for each, out in zip((traces, again), found, strict=True):
            each.rate(stream, np.array([SECONDS // 5 - 1, 10_000]), np.empty(0), out)
        np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("lag", [pytest.param(0, marks=pytest.mark.lab), 12])
def test_auto_keeps_what_is_in_the_news(lag: int) -> None:
    """Keys come for a few seconds, and `lag` seconds later on the other stream: of so many keys frequency
    knows nothing, and the age at which rows find something is not the same for all."""
    rng = np.random.default_rng(5)
    ts = pa.array(np.arange(400) * 1_000_000, pa.timestamp("us"))
    story = np.arange(400) // 6
    noise = rng.integers(1000, 2000, 400)
    a = np.where(rng.random(400) < 0.6, story, noise)
    b = np.where(rng.random(400) < 0.6, np.roll(story, lag), noise[::-1])
    tables = {"a": pa.table({"ts": ts, "k": a}), "b": pa.table({"ts": ts, "k": b})}
    streams = {alias: wr.Stream("ts", "25 s") for alias in "ab"}
    found = {
        shed: wr.Operator(wr.Query(streams, "a.k = b.k", memory="16 rows", shed=shed, evaluate="eager"))
        .process(tables)
        .num_rows
        for shed in ("auto", "frequency", "age", "fifo", "random")
    }
    assert found["auto"] >= 0.9 * max(found.values()), found


@pytest.mark.parametrize("seeds", [2, pytest.param(4, marks=pytest.mark.lab)])
def test_auto_keeps_keys_that_come_again_though_not_to_all_of_three_streams(seeds: int) -> None:
    """Some keys come again and again on two streams and seldom on the third; the others come once. Before a
    key has come to all three, that it comes again tells it from those."""
    on, streams = "a.k = b.k and b.k = c.k", {alias: wr.Stream("ts", "50 s") for alias in "abc"}
    found = dict.fromkeys(("auto", "frequency"), 0)
    for seed in range(seeds):
        rng, rows = np.random.default_rng(seed), 1200
        ts = pa.array(np.arange(rows) * 1_000_000, pa.timestamp("us"))
        tables = {}
        for stream, often in enumerate((0.5, 0.5, 0.1)):
            regular, once = rng.integers(0, 40, rows), rng.integers(1000, 9000, rows)
            keys = np.where(rng.random(rows) < often, regular, once + 10_000 * (1 + stream))
            tables["abc"[stream]] = pa.table({"ts": ts, "k": keys})
        for shed in found:
            query = wr.Query(streams, on, memory="30 rows", shed=shed, evaluate="every 10 rows")
            found[shed] += wr.Operator(query).process(tables).num_rows
    assert found["auto"] >= found["frequency"], found
