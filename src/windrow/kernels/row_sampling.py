"""Randomness by row: numbers that depend only on a key, a row's identity and a draw's number.

So a row gets the same numbers however the input is cut into sub-batches, and after a restart. Draws of one
row differ by their number: below 0 for single decisions, from 0 on for a row's results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.hashing import avalanche
from windrow.kernels.result_sums import CONTRIBUTING, ESTIMATED, FOUND, LARGEST, VARIANCE, add_row_results

_STEP = np.uint64(0x9E3779B97F4A7C15)
_ONE, _R11 = np.uint64(1), np.uint64(11)
_UNIT = 2.0**-53
_FAR = 2.0**53
_FEW = 64


@njit(cache=True, inline="always")
def _uniform(identity: np.uint64, draw: int) -> float:
    """In (0, 1), both ends excluded."""
    h = avalanche(identity + _STEP * np.uint64(draw + 16))
    return (float(h >> _R11) + 0.5) * _UNIT


@njit(cache=True, inline="always")
def _geometric(u: float, p: float, fails: float) -> float:
    """Trials of probability p up to the first success, itself included; `fails` is log(1 - p)."""
    if p >= 1.0:
        return 1.0
    return min(1.0 + np.floor(np.log(u) / fails), _FAR)


@njit(cache=True, inline="always")
def _identity(key: int, number: float, time: int, word: int) -> np.uint64:
    h = avalanche(np.uint64(key) + _STEP * np.uint64(np.int64(number)))
    h = avalanche(h ^ np.uint64(time))
    return avalanche(h + _STEP * np.uint64(word))


@njit(cache=True)
def identify(key: int, numbers: Any, ts: Any, words: Any) -> Any:
    """An identity for each row, from its number in its stream, its time and a join column, so that rows of
    different partitions differ too."""
    out = np.empty(len(numbers), np.uint64)
    for r in range(len(numbers)):
        out[r] = _identity(key, numbers[r], ts[r], words[r])
    return out


@njit(cache=True)
def uniforms(identities: Any, draw: int) -> Any:
    """A number in (0, 1) for each row."""
    out = np.empty(len(identities))
    for r in range(len(identities)):
        out[r] = _uniform(identities[r], draw)
    return out


@njit(cache=True, nogil=True)
def init_row_sampling(
    identities: Any,
    results: Any,
    reach: float,
    p: float,
    monitored: float,
    draws: Any,
    nexts: Any,
    bound: Any,
    chance: Any,
    extra: Any,
    thin: Any,
) -> None:
    """Writes the row state (as in `sample_results`) of new rows that are expected to find so many `results`
    and are followed `reach` standard deviations beyond. A row is monitored with probability `monitored`.
    `draws` are the numbers of the draws that round the bound and choose who is monitored."""
    fails = np.log1p(-min(p, 1.0))
    # The probability that the first so many trials fail: it decides most rows without a logarithm.
    none = np.power(max(0.0, 1.0 - p), np.arange(_FEW))
    for r in range(len(identities)):
        who, expected = identities[r], results[r]
        bound[r] = np.floor(expected + reach * np.sqrt(expected) + _uniform(who, draws[0]))
        watched = monitored >= 1.0 or (monitored > 0.0 and _uniform(who, draws[1]) < monitored)
        extra[r] = 1.0 / monitored if watched else 0.0
        chance[r], thin[r] = p, 1.0
        drawn = _uniform(who, 0)
        if not watched and bound[r] < _FEW and drawn < none[int(bound[r])] * (1.0 - 1e-9):
            nexts[r] = 0.0
            continue
        first = _geometric(drawn, p, fails)
        nexts[r] = first if watched or first <= bound[r] else 0.0


@njit(cache=True, nogil=True)
def find_last_arrival(rows: Any, ts: Any, fresh: int, stream: int, latest: Any, last: Any) -> None:
    """By result, sets `last` to `stream` if its row arrived later than those of earlier streams. Rows from
    `fresh` on arrived in this sub-batch, in order of time, and all others before them. `latest` starts at the
    least number there is."""
    for k in range(len(rows)):
        row = rows[k]
        if row >= fresh and ts[row] >= latest[k]:
            latest[k] = ts[row]
            last[k] = stream


@njit(cache=True, nogil=True)
def in_arrival_order(last: Any, stream: int, others: Any, fresh: int, end: int) -> Any:
    """The results of stored rows of `stream`, in the order in which the rows that found them arrived. Those
    are `others`, from `fresh` to `end`, in that order. A counting sort."""
    starts = np.zeros(end - fresh + 1, np.int64)
    for k in range(len(others)):
        if last[k] != stream:
            starts[others[k] - fresh + 1] += 1
    for k in range(1, len(starts)):
        starts[k] += starts[k - 1]
    out = np.empty(starts[-1], np.int64)
    for k in range(len(others)):
        if last[k] != stream:
            at = others[k] - fresh
            out[starts[at]] = k
            starts[at] += 1
    return out


@njit(cache=True, nogil=True)
def sample_results(
    which: Any,
    rows: Any,
    key: int,
    number: Any,
    ts: Any,
    words: Any,
    p: float,
    num: Any,
    nexts: Any,
    bound: Any,
    chance: Any,
    extra: Any,
    thin: Any,
    seen: Any,
    weights: Any,
    clusters: Any,
    sums: Any,
    met: Any,
) -> None:
    """Counts the results of stored rows and samples among them (Memory, Fig. 4).

    `rows` are the stored rows of all results, `which` the results to follow, in order of arrival. `num` is
    how many results a row has had, `nexts` the number of its next sampled one (0: none), `bound` how many are
    followed, `chance` the probability of its next one. Rows with `extra` > 0 are followed beyond their bound,
    and represent so many there; rows represent 1 / `thin` of those that were evicted.

    Writes weight and cluster of the sampled results, adds the weights to what was `seen` of their rows, and
    adds to `sums` (kinds: followed, and beyond the bound; columns as in `result_sums.py`). A followed result
    of weight w, drawn by itself, adds w (w - 1) to the variance; but what hangs on a row that represents e
    rows, y in all, is there or not as a whole, and adds (1 - 1/e) y^2. Beyond the bound a monitored row sees
    all its results, sampled or not, and all of them count: e for each. `met` has the results of rows and
    their squares.

    Invariant: nexts[r] is 0 or above num[r].
    """
    fails = np.log1p(-min(p, 1.0))
    for k in which:
        r = rows[k]
        num[r] += 1.0
        met[0] += 1.0
        met[1] += 2.0 * num[r] - 1.0
        beyond = num[r] > bound[r]
        if beyond and extra[r] > 0.0:
            stands = extra[r] / thin[r]
            after = (num[r] - bound[r]) * stands
            sums[1, ESTIMATED] += stands
            add_row_results(sums, 1, stands, after - stands, after)
        if num[r] != nexts[r]:
            continue
        weight = 1.0 / (chance[r] * thin[r])
        if beyond:
            weight *= extra[r]
        else:
            stands = 1.0 / thin[r]
            before, seen[r] = seen[r], seen[r] + weight
            whole = 1.0 - 1.0 / stands
            squares = seen[r] * seen[r] - before * before
            sums[0, ESTIMATED] += weight
            sums[0, VARIANCE] += whole * squares + (1.0 - whole) * weight * (weight - 1.0)
            sums[0, LARGEST] = max(sums[0, LARGEST], whole * seen[r], weight - 1.0)
            sums[0, CONTRIBUTING] += before == 0.0 and weight > 1.0
        weights[k] = weight
        sums[int(beyond), FOUND] += 1.0
        chance[r] = p
        nexts[r] = num[r] + 1.0
        if p < 1.0 or weight > 1.0:
            who = _identity(key, number[r], ts[r], words[r])
            if thin[r] < 1.0 or (beyond and extra[r] > 1.0):
                clusters[k] = np.int64(who >> _ONE)
            elif weight > 1.0:
                clusters[k] = np.int64(avalanche(who + _STEP * np.uint64(num[r])) >> _ONE)
            nexts[r] = num[r] + _geometric(_uniform(who, np.int64(num[r])), p, fails)
        if nexts[r] > bound[r] and extra[r] == 0.0:
            nexts[r] = 0.0


@njit(cache=True, nogil=True)
def residence_fraction(results: Any, shares: Any, further: Any, p: float) -> float:
    """The fraction of its window a row stays on average (Theorem 4.2), where rows of so many whole `results`
    are such `shares` of all and are followed `further` beyond them; there are twice as many as values of
    `further`, which repeat."""
    fails = np.log1p(-min(p, 1.0 - 1e-15))
    theorem = beyond = 0.0
    for k in range(len(results)):
        n = results[k]
        within = np.exp(fails * further[k % len(further)])
        if n > 0.0:
            theorem += shares[k] * within * (1.0 - (1.0 - p) * -np.expm1(fails * n) / (p * n))
        beyond += 1.0 - within
    return max(0.0, theorem) + beyond / len(results)


@njit(cache=True, nogil=True)
def apply_weights(
    last: Any,
    stream: int,
    rows: Any,
    stands: Any,
    key: int,
    number: Any,
    ts: Any,
    words: Any,
    weights: Any,
    heaviest: Any,
    clusters: Any,
) -> None:
    """Multiplies the weights of results by those of their rows of `stream`, where stored. The heaviest row
    identifies the result's cluster."""
    for k in range(len(rows)):
        if last[k] == stream:
            continue
        row = rows[k]
        own = stands[row]
        weights[k] *= own
        if own > heaviest[k]:
            heaviest[k] = own
            clusters[k] = np.int64(_identity(key, number[row], ts[row], words[row]) >> _ONE)


@njit(cache=True, nogil=True)
def add_sampling_variance(
    last: Any, stream: int, rows: Any, weights: Any, stands: Any, seen: Any, sums: Any
) -> None:
    """What results of these weights add to the variance of their sum, on account of their rows of `stream`,
    where stored: a row that `stands` for w rows and has `seen` y adds (1 - 1/w) y^2 in all. It may occur
    often; results of weight 1 or less are certain, or not there. `sums` as in `sample_results`."""
    for k in range(len(rows)):
        if last[k] == stream or weights[k] <= 1.0:
            continue
        row = rows[k]
        before = seen[row]
        seen[row] = before + weights[k]
        add_row_results(sums, 0, stands[row], before, seen[row])
