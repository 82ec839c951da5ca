"""Predicted arrival rate of each key, from its recent arrivals on all streams (a Hawkes process).

A key's rate on stream j is modelled as a sum over its recent rows,

    rate_j(v)  =  base_j  +  sum over half-lives h of  w_jjh x_jh(v)
                          +  sum over other streams s and h of  w_jsh min(1, x_sh(v))

where x_sh(v) is the decayed number of rows of s with key v at half-life h. Of the stream itself it counts how
often the key arrived; of the others only whether it arrived recently, because a key's frequency there says
little about its frequency here. A key that arrives evenly is predicted by its slowest counts, which is PROB;
one that bursts by the fastest; one that moves from stream to stream by the counts of the other stream. The
weights are learned from all arriving rows, kept or not: each arrival is divided among the terms that
predicted it, and a weight is its share of the arrivals divided by the exposure of its counts (expectation
maximisation; the likelihood has one maximum). They start from a prior of a few arrivals. Counts that add no
information are left out, because they would add noise.

With more streams and several join keys rates are combined as in `key_rates.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from windrow.eviction.models.key_rates import ROWS, SMALLEST_UNIT, results_per_second
from windrow.eviction.window_view import WindowView
from windrow.kernels import count_min_sketch, key_intensity
from windrow.model.stateful import Stateful
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
FASTER = (1 / 4, 1 / 16)
"""Half-lives in addition to the policy's, in windows."""
SLOWEST, RECENT = 0, 1
"""Indexes of half-lives: the policy's; and one whose count covers about a third of a window."""
PRIOR, CROSS = 3.0, 0.25
"""Arrivals of the prior, divided evenly between the stream's own half-lives; and the fraction of them that
each other stream predicts as well."""
OBSERVED, PER_SUB_BATCH = 1024, 64
"""Arrivals that weights are learned from, and the most of one sub-batch."""
STEADY = float(OBSERVED)
"""Further arrivals of the prior, for keys that arrive at their long-run rate, as in PROB. Fast counts predict
the next rows well but the rest of a window badly, so they need strong evidence."""
ROUNDS, REFIT = 10, 4
"""Rounds of expectation maximisation; weights are refitted when one in REFIT arrivals is new."""
_NONE = np.empty(0)


class KeyIntensity(Stateful):
    """One join key: decayed counts of its values by stream and half-life (*features*), and what they
    predict."""

    saved = (
        "_cells", "_totals", "_units", "_sums", "_observations", "_observed", "_exposure", "_parts",
        "_weights", "_needed", "_learned", "_half_lives", "_seconds",
    )  # fmt: skip

    def __init__(self, streams: Sequence[int], width: int) -> None:
        self.streams = list(streams)
        count = len(streams) * (1 + len(FASTER))
        self._cells = np.zeros((ROWS, width, count), np.float32)
        # 32-bit floats keep a key's features within one cache line; counts are exact up to 16 million.
        self._totals = np.zeros(count)
        self._units = np.ones(count)
        self._sums = np.zeros(count + 1)
        """By feature, the sum over all keys of min(1, count); last, the number of recent keys."""
        self._observations = np.zeros((len(streams), OBSERVED, 2 * count + 2), np.float32)
        """By stream, a ring of observed arrivals: their features; the exposure of all counts and of the base
        since the previous arrival; and how many arrivals each represents. 32-bit floats are as exact as the
        features, and the ring is most of the state of a small window."""
        self._observed = [0] * len(streams)
        self._exposure = np.zeros((len(streams), count + 1))
        """By stream: exposure since its last observed arrival."""
        self._parts = np.full((len(streams), count + 1), 1 / (count + 1))
        """By stream: the fraction of the arrivals that each feature predicted; last, the base."""
        self._weights = np.zeros(self._parts.shape)
        self._needed = np.ones(self._parts.shape)
        """By stream: factors on the weights, 0 for features that are left out."""
        self._learned = [0] * len(streams)
        """Observations that weights were learned from."""
        self._half_lives = np.ones(1 + len(FASTER))
        self._seconds = 0.0
        """Since the beginning."""
        self._warm_up = self._warming_up()

    def observe(self, stream: int, keys: Array, each: float) -> None:
        """Observes arriving rows, each of which represents `each` rows, before they are counted."""
        if not len(keys):
            return
        j, count = self.streams.index(stream), len(self._totals)
        own, met = self._own(j), np.zeros((len(keys), 2 * count + 2))
        key_intensity.key_features(*self._counts, keys.view(np.int64), len(self._half_lives), own.start, met)
        met[:, own] *= self._warm_up
        # The exposure since the last observation counts once, for the first of these arrivals.
        met[0, count:-1], met[:, -1] = self._exposure[j], each
        self._observations[j, (self._observed[j] + np.arange(len(met))) % OBSERVED] = met
        self._observed[j] += len(met)
        self._exposure[j] = 0.0

    def sample_size(self, stream: int, seconds: float) -> int:
        """How many arrivals to observe after `seconds`, so that the ring reaches back as far as the slowest
        half-life."""
        if self._observed[self.streams.index(stream)] < OBSERVED:
            return PER_SUB_BATCH
        return min(PER_SUB_BATCH, math.ceil(OBSERVED * seconds / self._half_lives[0]))

    def add_exposure(self, seconds: float) -> None:
        """Adds the exposure of all counts before the next arrivals."""
        self._exposure += self._sums * seconds
        for j, exposure in enumerate(self._exposure):
            own = self._own(j)
            exposure[own] += (self._totals[own] * self._warm_up - self._sums[own]) * seconds

    def advance(self, seconds: float, span: float, half_life: float) -> None:
        """Time passes."""
        self._half_lives = span * np.array([half_life, *FASTER])
        self._seconds += seconds
        self._warm_up = self._warming_up()
        for j, observed in enumerate(self._observed):
            if observed > self._learned[j] + min(self._learned[j], OBSERVED) // REFIT:
                self._learn(j)
        decay = np.tile(0.5 ** (seconds / self._half_lives), len(self.streams))
        self._totals *= decay
        self._units *= decay
        for feature in np.flatnonzero(self._units < SMALLEST_UNIT):
            self._cells[:, :, feature] *= self._units[feature]
            self._units[feature] = 1.0

    def _learn(self, j: int) -> None:
        count = len(self._totals)
        met, parts = self._observations[j, : min(self._observed[j], OBSERVED)].astype(float), self._parts[j]
        prior, exposure = self._prior(j)
        exposure += met[:, count:-1].sum(axis=0)
        self._learned[j] = self._observed[j]
        key_intensity.feature_totals(*self._counts, len(self._half_lives), self._sums)
        # A key's first arrival says nothing about the keys seen before, which had the exposure.
        met = met[met[:, : count : len(self._half_lives)].sum(axis=1) >= key_intensity.LONE]
        if not len(met):
            self._weights[j], parts[:] = prior / exposure, np.eye(count + 1)[-1]
            return
        each = np.ascontiguousarray(met[:, -1])
        known = (np.ascontiguousarray(met[:, :count]), each)
        key_intensity.fit_weights_em(*known, prior, exposure, ROUNDS, parts)
        self._weights[j] = (each.sum() * parts + prior) / exposure
        # Which features are left out is decided without the steady part of the prior.
        predicted = each.sum() * parts + self._prior(j, steady=False)[0]
        parts[:] = predicted / predicted.sum()
        key_intensity.prune_features(*known, self._weights[j], parts, self._needed[j])
        self._weights[j] *= self._needed[j]

    def add(self, stream: int, keys: Array, each: float) -> None:
        """Counts rows of the stream, each of which represents `each` rows."""
        own = self._own(self.streams.index(stream))
        key_intensity.count_keys(self._cells, keys.view(np.int64), own.start, each / self._units[own])
        self._totals[own] += each * len(keys)

    def weights(self, stream: int) -> Array:
        """Rows per second of the stream that a count of each feature predicts; last, the base."""
        j = self.streams.index(stream)
        if not self._learned[j]:
            prior, exposure = self._prior(j)
            self._weights[j] = prior / exposure
        weights = self._weights[j].copy()
        weights[self._own(j)] *= self._warm_up
        return weights

    def _own(self, j: int) -> slice:
        """The features of the j-th stream, the slowest first."""
        scales = len(self._half_lives)
        return slice(j * scales, (j + 1) * scales)

    def _warming_up(self) -> Array:
        """Correction of the counts of each half-life for the short time since the start."""
        return 1 / np.maximum(1 - 0.5 ** (self._seconds / self._half_lives), 1e-3)

    @property
    def _counts(self) -> tuple[Array, Array, Array]:
        """Arguments of kernels: the cells, the sum over all keys by feature, and its unit."""
        return self._cells, self._totals / self._units, self._units

    def _prior(self, j: int, steady: bool = True) -> tuple[Array, Array]:
        """Arrivals of the prior and their exposure; with the steady ones, or without."""
        own, scales = self._own(j), len(self._half_lives)
        prior = np.full(len(self._totals) + 1, CROSS * PRIOR / scales)
        prior[own] = PRIOR / scales
        prior[-1] = PRIOR
        # A count lasts for its half-life / ln 2 on average: one arrival per that time keeps it steady. By the
        # base alone a key arrives once per slowest half-life.
        counts = np.tile(self._half_lives, len(self.streams)) / np.log(2)
        exposure = PRIOR * np.append(counts, self._half_lives[0])
        if steady:
            prior[own.start] += STEADY
            exposure[own.start] += STEADY * counts[0]
        return prior, exposure

    def rate(self, stream: int, keys: Array, ages: Array, out: Array) -> None:
        """Multiplies `out` by the rate of these keys on the stream, or by 0 if a key has only one row. `ages`
        are the ages of the rows if they were counted."""
        weights, own = self.weights(stream), self._own(self.streams.index(stream))
        model = (weights[:-1], weights[-1], len(self._half_lives), own.start, ages, self._half_lives[0])
        key_intensity.predicted_rates(*self._counts, keys.view(np.int64), *model, out)

    def count(self, stream: int, keys: Array, scale: int) -> Array:
        """Decayed number of rows of these keys on the stream, at one of the half-lives."""
        out = np.ones(len(keys))
        f = self._own(self.streams.index(stream)).start + scale
        cells, totals, units = self._counts
        count_min_sketch.estimate(cells[:, :, f], totals[f], keys.view(np.int64), units[f], out)
        return out

    def singleton_rate(self, stream: int, own: int, ages: Array) -> Array:
        """The rate on the stream of a key that arrived only once, on stream `own`, `ages` seconds ago."""
        weights = self.weights(stream)
        left = 0.5 ** (ages[:, np.newaxis] / self._half_lives)
        return np.asarray(weights[-1] + left @ weights[self._own(self.streams.index(own))])

    def restore(self, values: dict[str, Any]) -> None:
        super().restore(values)
        self._warm_up = self._warming_up()


class KeyIntensities(Stateful):
    """The intensities of all join keys of a query."""

    saved = ("_intensities", "_until", "_unobserved", "_spans")
    clocks = ("_until",)

    def __init__(self, bound: BoundQuery, width: int, half_life: float) -> None:
        self._columns = bound.key_names
        self._intensities = [KeyIntensity(streams, width) for streams in bound.key_streams]
        self._half_life = half_life
        self._until: int | None = None
        self._unobserved = 0.0
        """Seconds since arrivals were last observed."""
        self._spans = [0.0] * len(bound.join_columns)

    @property
    def known(self) -> bool:
        """Whether the query has a join key."""
        return bool(self._intensities)

    def end_sub_batch(self, views: Sequence[WindowView], every: int) -> None:
        """Counts every `every`-th new row, with that weight. In sub-batches that are learned from, rows are
        observed before they are counted."""
        now, counted = views[0].now, views[0].elapsed
        for view in views:
            self._spans[view.stream] = view.window_length / 1e6
        seconds = counted if self._until is None else max(0, now - self._until) / 1e6
        self._until = now if self._until is None else max(now, self._until)
        if views[0].learning:
            self._observe(views, min(counted, seconds), self._unobserved + seconds, every)
        self._unobserved = 0.0 if views[0].learning else self._unobserved + seconds
        span = max(self._spans)
        for intensity in self._intensities if span > 0 else ():
            intensity.advance(seconds, span, self._half_life)
        for view in views:
            for key, column in self._columns[view.stream].items():
                keys = view.join_columns[column][view.first_new :: every]
                self._intensities[key].add(view.stream, keys, every)

    def _observe(self, views: Sequence[WindowView], counted: float, since: float, every: int) -> None:
        """Observes arrivals of the last `counted` seconds; the last observation was `since` seconds ago."""
        for intensity in self._intensities:
            intensity.add_exposure(counted)
        for view in views:
            for key, column in self._columns[view.stream].items():
                wanted = self._intensities[key].sample_size(view.stream, since)
                step = max(every, -(-view.new_count // max(wanted, 1)))
                keys = view.join_columns[column][view.first_new :: step]
                self._intensities[key].observe(view.stream, keys, step)

    def rates(self, view: WindowView, rows: Array | slice = slice(None), counted: bool = True) -> Array:
        """Expected results per second of each row of the view, or of some of them, by their keys.

        It is 0 for rows that are the only ones of their key and, with three or more streams, for rows whose
        key has arrived neither on all other streams nor twice on any; results of such rows are learned by
        age. `counted` says whether these rows are in the counts.
        """
        ages = view.ages(rows) if counted else _NONE
        found = np.ones(len(view.ts[rows]), np.float32)
        for key, column in self._columns[view.stream].items():
            keys, intensity = view.join_columns[column][rows], self._intensities[key]
            others = [s for s in intensity.streams if s != view.stream]
            if len(others) == 1:
                intensity.rate(others[0], keys, ages, found)
                continue
            arriving = np.ones((len(others), len(found)))
            for stream, out in zip(others, arriving, strict=True):
                intensity.rate(stream, keys, ages, out)
            recent = np.stack([intensity.count(s, keys, RECENT) for s in others])
            found *= self._results_per_second(others, arriving, recent)
            counts = {s: intensity.count(s, keys, SLOWEST) for s in intensity.streams}
            everywhere = np.minimum.reduce([counts[s] for s in others]) >= key_intensity.LONE
            again = np.maximum.reduce(list(counts.values())) >= 1 + key_intensity.LONE
            found[~(everywhere | again)] = 0.0
        return found

    def singleton_rate(self, stream: int, ages: Array) -> Array:
        """As `rates`, for rows of these ages in seconds that are the only ones of their keys."""
        found = np.ones(len(ages))
        for key in self._columns[stream]:
            intensity = self._intensities[key]
            others = [s for s in intensity.streams if s != stream]
            arriving = np.stack([intensity.singleton_rate(s, stream, ages) for s in others])
            found *= self._results_per_second(others, arriving, np.zeros(arriving.shape))
        return found

    def _results_per_second(self, streams: Sequence[int], arriving: Array, recent: Array) -> Array:
        """Results per second of a row whose key arrives on these streams at these rates. The other windows
        hold as many rows of the key as arrive in a window at these rates, or the number of `recent` arrivals:
        a key may have arrived for the last time."""
        spans = np.array([[self._spans[s]] for s in streams])
        return results_per_second(arriving, np.maximum(arriving * spans, recent))
