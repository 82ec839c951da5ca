"""How soon keys come again: the rate of a key on a stream, from when it came lately on it and on others.

A key's rate on stream j is taken to be a sum of what its rows of late foretell (a Hawkes process),

    rate_j(v)  =  base_j  +  sum over half-lives h of  w_jjh x_jh(v)
                          +  sum over other streams s and h of  w_jsh min(1, x_sh(v))

with x_sh(v) the rows of s with value v, each counting half after h: how often it came on the stream itself,
and how long ago on others, for that a key is frequent there tells little of how frequent it is here. A key
that comes evenly is foretold by its slowest counts, which is PROB; one in the news by the fastest; one that
follows from stream to stream by those of the other stream. Which it is the weights learn from all rows that
arrive, kept or not: each arrival is shared out among what foretold it, and a weight is its part of the
arrivals over the time its counts stood (expectation maximisation; the likelihood has one maximum). They begin
with a few arrivals' worth of a prior, and counts that tell no more than the others do are left out, for they
would add their noise.

With more streams and several equalities rates are put together as in `frequency.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.kernels import recurring, sketch
from windrow.shed.context import Context
from windrow.shed.sketch import ROWS, SMALLEST_UNIT
from windrow.shed.view import View

Array = np.ndarray
FASTER = (1 / 4, 1 / 16)
"""Half-lives besides the policy's, in windows."""
SLOWEST, LATELY = 0, 1
"""Numbers of half-lives: the policy's; and one at which a count is that of about a third of a window."""
PRIOR, CROSS = 3.0, 0.25
"""Arrivals that weights begin with, if they were foretold by the stream itself, by all half-lives alike; and
the part of them that each other stream would have foretold as well."""
MET, SOME = 1024, 64
"""Arrivals that weights are learned from, and how many of a quantum."""
STEADY = float(MET)
"""Of two streams: arrivals besides, of keys that come as often as they came in the long run, as PROB has it.
Fast counts foretell the next rows well and the rest of a window badly, so they must tell much to be gone
by."""
ROUNDS, REFIT = 10, 4
"""Of expectation maximisation, each time that one in so many arrivals is new."""
_NONE = np.empty(0)


class Traces:
    """Of the streams that share a key: what its rows left behind, and what that foretells."""

    def __init__(self, streams: Sequence[int], width: int) -> None:
        self.streams = list(streams)
        count = len(streams) * (1 + len(FASTER))
        self._cells = np.zeros((ROWS, width, count), np.float32)
        # Half as wide, a key's traces are mostly in one line of the cache; a count ends at 16 million.
        self._totals = np.zeros(count)
        self._units = np.ones(count)
        self._sums = np.zeros(count + 1)
        """Over all keys, of counts of 1 at most; last the keys that came lately."""
        self._met = np.zeros((len(streams), MET, 2 * count + 2))
        """By stream, some arrivals, the newest in place of the oldest: the traces they met; counts times the
        seconds they stood since the arrival before, all keys together, and last the keys; and how many an
        arrival stands for."""
        self._meetings = [0] * len(streams)
        self._standing = np.zeros((len(streams), count + 1))
        """By stream: counts times seconds since its last arrival."""
        self._parts = np.full((len(streams), count + 1), 1 / (count + 1))
        """By stream: the part of the arrivals that each trace foretold, and last that none did."""
        self._weights = np.zeros(self._parts.shape)
        self._needed = np.ones(self._parts.shape)
        """By stream: factors on the weights, 0 where the others tell as much."""
        self._learned = [0] * len(streams)
        """Meetings that weights were learned from."""
        self._half_lives = np.ones(1 + len(FASTER))
        self._seconds = 0.0
        """Since the beginning."""
        self._fill = self._filling()

    def meet(self, stream: int, words: Array, each: float) -> None:
        """Rows of the stream arrive, and stand for so many each; they are not counted yet."""
        if not len(words):
            return
        j, count = self.streams.index(stream), len(self._totals)
        met = np.zeros((len(words), 2 * count + 2))
        scales = len(self._half_lives)
        recurring.look(*self._counts, words.view(np.int64), scales, j * scales, met)
        met[:, j * scales : (j + 1) * scales] *= self._fill
        met[0, count:-1], met[:, -1] = self._standing[j], each
        self._met[j, (self._meetings[j] + np.arange(len(met))) % MET] = met
        self._meetings[j] += len(met)
        self._standing[j] = 0.0

    def wanted(self, stream: int, seconds: float) -> int:
        """How many arrivals to meet when none were for so long: those that are remembered go back as far as
        the slowest half-life."""
        if self._meetings[self.streams.index(stream)] < MET:
            return SOME
        return min(SOME, math.ceil(MET * seconds / self._half_lives[0]))

    def stand(self, seconds: float) -> None:
        """Counts stand for so long before the next arrivals."""
        self._standing += self._sums * seconds
        scales = len(self._half_lives)
        for j, own in enumerate(self._standing):
            mine = slice(j * scales, (j + 1) * scales)
            own[mine] += (self._totals[mine] * self._fill - self._sums[:-1][mine]) * seconds

    def go(self, seconds: float, span: float, half_life: float) -> None:
        """Time passes."""
        self._half_lives = span * np.array([half_life, *FASTER])
        self._seconds += seconds
        self._fill = self._filling()
        fade = 0.5 ** (seconds / self._half_lives)
        for j, meetings in enumerate(self._meetings):
            if meetings > self._learned[j] + min(self._learned[j], MET) // REFIT:
                self._learn(j)
        fade = np.tile(fade, len(self.streams))
        self._totals *= fade
        self._units *= fade
        for trace in np.flatnonzero(self._units < SMALLEST_UNIT):
            self._cells[:, :, trace] *= self._units[trace]
            self._units[trace] = 1.0

    def _learn(self, j: int) -> None:
        count = len(self._totals)
        met, parts = self._met[j, : min(self._meetings[j], MET)], self._parts[j]
        prior, stood = self._prior(j)
        stood += met[:, count:-1].sum(axis=0)
        self._learned[j] = self._meetings[j]
        recurring.sums(*self._counts, len(self._half_lives), self._sums)
        if len(self.streams) == 2:
            # Keys that come for the first time are no news of those that came before, whose time it is that
            # stood. With more streams what they find hangs on others still: there it is left as it was.
            met = met[met[:, : count : len(self._half_lives)].sum(axis=1) >= recurring.LONE]
        if not len(met):
            self._weights[j], parts[:] = prior / stood, np.eye(count + 1)[-1]
            return
        each = np.ascontiguousarray(met[:, -1])
        known = (np.ascontiguousarray(met[:, :count]), each)
        recurring.share(*known, prior, stood, ROUNDS, parts)
        told = each.sum() * parts + prior
        self._weights[j] = told / stood
        if len(self.streams) == 2:
            # What is left out is decided by what was seen.
            told = each.sum() * parts + self._prior(j, steady=False)[0]
            parts[:] = told / told.sum()
        recurring.needed(*known, self._weights[j], parts, self._needed[j])
        self._weights[j] *= self._needed[j]

    def add(self, stream: int, words: Array, each: float) -> None:
        """Counts rows of the stream, which stand for so many each."""
        scales = len(self._half_lives)
        first = self.streams.index(stream) * scales
        own = slice(first, first + scales)
        recurring.add(self._cells, words.view(np.int64), first, each / self._units[own])
        self._totals[own] += each * len(words)

    def weights(self, stream: int) -> Array:
        """What a count of each trace foretells of the stream, in rows per second; and last, the base."""
        j = self.streams.index(stream)
        if not self._learned[j]:
            prior, stood = self._prior(j)
            self._weights[j] = prior / stood
        scales, weights = len(self._half_lives), self._weights[j].copy()
        weights[j * scales : (j + 1) * scales] *= self._fill
        return weights

    def _filling(self) -> Array:
        """By how much more counts of each half-life would be if rows had come as they do for ever."""
        return 1 / np.maximum(1 - 0.5 ** (self._seconds / self._half_lives), 1e-3)

    @property
    def _counts(self) -> tuple[Array, Array, Array]:
        """As kernels take them: the cells, what all keys add up to by trace, and its unit."""
        return self._cells, self._totals / self._units, self._units

    def _prior(self, j: int, steady: bool = True) -> tuple[Array, Array]:
        """Arrivals that weights begin with, and what stood for them; with the steady ones, or without."""
        scales = len(self._half_lives)
        prior = np.full(len(self._totals) + 1, CROSS * PRIOR / scales)
        prior[j * scales : (j + 1) * scales] = PRIOR / scales
        prior[-1] = PRIOR
        # A count stands for its half-life / ln 2: with one arrival in that time as many come as came. A key
        # comes by itself once in the slowest half-life.
        counts = np.tile(self._half_lives, len(self.streams)) / np.log(2)
        stood = PRIOR * np.append(counts, self._half_lives[0])
        if steady and len(self.streams) == 2:
            prior[j * scales] += STEADY
            stood[j * scales] += STEADY * counts[0]
        return prior, stood

    def rate(self, stream: int, words: Array, ages: Array, out: Array) -> None:
        """Multiplies `out` by the rate of these keys on the stream; by 0 if a key has but one row.
        `ages` are those of the rows, where they were counted."""
        weights, scales = self.weights(stream), len(self._half_lives)
        own = self.streams.index(stream) * scales
        told = (weights[:-1], weights[-1], scales, own, ages, self._half_lives[0])
        recurring.rate(*self._counts, words.view(np.int64), *told, out)

    def count(self, stream: int, words: Array, scale: int) -> Array:
        """How many rows of these keys came on the stream, at one of the half-lives."""
        out = np.ones(len(words))
        trace = self.streams.index(stream) * len(self._half_lives) + scale
        cells, totals, units = self._counts
        sketch.estimate(cells[:, :, trace], totals[trace], words.view(np.int64), units[trace], out)
        return out

    def lone(self, stream: int, own: int, ages: Array) -> Array:
        """The rate on the stream of a key that came just once, on stream `own` and so many seconds ago."""
        weights, scales = self.weights(stream), len(self._half_lives)
        first = self.streams.index(own) * scales
        left = 0.5 ** (ages[:, np.newaxis] / self._half_lives)
        return np.asarray(weights[-1] + left @ weights[first : first + scales])

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        plain = {
            "totals": self._totals.tolist(),
            "units": self._units.tolist(),
            "standing": self._standing.tolist(),
            "weights": self._weights.tolist(),
            "seconds": self._seconds,
            "sums": self._sums.tolist(),
            "meetings": self._meetings,
            "parts": self._parts.tolist(),
            "needed": self._needed.tolist(),
            "learned": self._learned,
            "half_lives": self._half_lives.tolist(),
        }
        return plain, [
            pa.record_batch({"cells": self._cells.ravel()}),
            pa.record_batch({"met": self._met.ravel()}),
        ]

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None:
        self._cells, self._met = (
            part.column(0).to_numpy().reshape(shape).copy()
            for part, shape in zip(parts, (self._cells.shape, self._met.shape), strict=True)
        )
        self._totals, self._units = np.array(plain["totals"]), np.array(plain["units"])
        self._standing, self._weights = np.array(plain["standing"]), np.array(plain["weights"])
        self._sums, self._half_lives = np.array(plain["sums"]), np.array(plain["half_lives"])
        self._meetings, self._parts = list(plain["meetings"]), np.array(plain["parts"])
        self._seconds = plain["seconds"]
        self._fill = self._filling()
        self._learned, self._needed = list(plain["learned"]), np.array(plain["needed"])


class Recurrence:
    """Of all equalities of a query."""

    def __init__(self, context: Context, width: int, half_life: float) -> None:
        classes = [members for members in context.classes if len({w.stream for w in members}) > 1]
        self._at = [
            {c: words.index(w) for c, members in enumerate(classes) for w in members[::-1] if w in words}
            for words in context.words
        ]
        """Per stream: class to the number of a word; words of one class are equal in any row of a result."""
        self._traces = [Traces(sorted({w.stream for w in members}), width) for members in classes]
        self._half_life = half_life
        self._until: int | None = None
        self._unmet = 0.0
        """Seconds since rows were last met."""
        self._spans = [0.0] * len(context.words)

    @property
    def known(self) -> bool:
        """Whether there is anything to go by."""
        return bool(self._traces)

    def settle(self, views: Sequence[View], now: int, counted: float, every: int) -> None:
        """A quantum's rows have come, and event time to `now`; rows of its last `counted` seconds count, one
        in `every` of them for all. If the views say so, what they bring is learned before any is counted."""
        for view in views:
            self._spans[view.stream] = view.span / 1e6
        seconds = counted if self._until is None else max(0, now - self._until) / 1e6
        self._until = now if self._until is None else max(now, self._until)
        if views[0].learns:
            self._meet(views, min(counted, seconds), self._unmet + seconds, every)
        self._unmet = 0.0 if views[0].learns else self._unmet + seconds
        span = max(self._spans)
        for traces in self._traces if span > 0 else ():
            traces.go(seconds, span, self._half_life)
        for view in views:
            for c, word in self._at[view.stream].items():
                self._traces[c].add(view.stream, view.words[word][view.fresh :: every], every)

    def _meet(self, views: Sequence[View], counted: float, since: float, every: int) -> None:
        """Rows of the last `counted` seconds; none were met `since` so long."""
        for traces in self._traces:
            traces.stand(counted)
        for view in views:
            for c, word in self._at[view.stream].items():
                wanted = self._traces[c].wanted(view.stream, since)
                step = max(every, -(-(len(view) - view.fresh) // max(wanted, 1)))
                self._traces[c].meet(view.stream, view.words[word][view.fresh :: step], step)

    def rates(self, view: View, rows: Array | slice = slice(None), counted: bool = True) -> Array:
        """Results per second that each row of the view (or some of them) can expect, going by its keys; 0 of
        rows that are the only ones of a key, or, of more than two streams, whose key has not come to all of
        the others: what they find when it does is learned by their age. `counted`: whether these rows were,
        at the end of a quantum."""
        ages = view.ages(rows) if counted else _NONE
        found = np.ones(len(view.ts[rows]), np.float32)
        for c, word in self._at[view.stream].items():
            words, traces = view.words[word][rows], self._traces[c]
            others = [s for s in traces.streams if s != view.stream]
            if len(others) == 1:
                traces.rate(others[0], words, ages, found)
                continue
            coming = np.ones((len(others), len(found)))
            for stream, out in zip(others, coming, strict=True):
                traces.rate(stream, words, ages, out)
            lately = np.stack([traces.count(s, words, LATELY) for s in others])
            found *= self._together(others, coming, lately)
            for s in others:
                found[traces.count(s, words, SLOWEST) < recurring.LONE] = 0.0
        return found

    def lone(self, stream: int, ages: Array) -> Array:
        """As `rates`, for rows of these ages in seconds that are the only ones of their keys."""
        found = np.ones(len(ages))
        for c in self._at[stream]:
            traces = self._traces[c]
            others = [s for s in traces.streams if s != stream]
            coming = np.stack([traces.lone(s, stream, ages) for s in others])
            found *= self._together(others, coming, np.zeros(coming.shape))
        return found

    def _together(self, streams: Sequence[int], coming: Array, lately: Array) -> Array:
        """Results per second with rows that come at these rates on each of the streams, where a result takes
        one of each: any may come last, and meets those of the others in their windows. These are as many as
        come in a window, or came `lately`: a key may have come to a stream for the last time."""
        held = np.maximum(coming * np.array([[self._spans[s]] for s in streams]), lately)
        each = [coming[j] * np.prod(np.delete(held, j, axis=0), axis=0) for j in range(len(streams))]
        return np.asarray(sum(each))

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        saved = [traces.save() for traces in self._traces]
        plain: dict[str, Any] = {"traces": [p for p, _ in saved], "spans": self._spans}
        plain |= {"until": self._until, "unmet": self._unmet}
        return plain, [part for _, parts in saved for part in parts]

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None:
        for k, (traces, saved) in enumerate(zip(self._traces, plain["traces"], strict=True)):
            traces.load(saved, parts[2 * k : 2 * k + 2])
        self._until, self._spans, self._unmet = plain["until"], list(plain["spans"]), plain["unmet"]
