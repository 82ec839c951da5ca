"""Randomness by row: numbers that depend only on a key, a row's identity and a draw's number.

So a row gets the same numbers after a restart and however the input is cut into sub-batches. The draws of a
row are numbered: below 0 for single decisions, from 0 on for its results.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from windrow.kernels.hashing import GOLDEN, avalanche
from windrow.kernels.result_sums import CONTRIBUTING, ESTIMATED, FOUND, LARGEST, VARIANCE, add_row_results

_ONE, _R11 = np.uint64(1), np.uint64(11)
_UNIT = 2.0**-53
_FAR = 2.0**53
_TABLED = 64


class RowKeys(NamedTuple):
    """What identifies the rows of a window: a key of the run, and by row its number in its stream, its time
    and a join column, so that rows of different partitions differ too."""

    key: int
    number: Any
    ts: Any
    column: Any


class FollowedRows(NamedTuple):
    """Row state of rows whose results are counted and sampled (Memory, Fig. 4), by row."""

    num: Any
    """Results so far."""
    next: Any
    """The number of the next sampled one; 0 for none, otherwise above `num`."""
    bound: Any
    """How many are followed."""
    probability: Any
    """The probability of the next one."""
    extra: Any
    """How many rows a monitored row represents beyond its bound; 0 for other rows."""
    thin: Any
    """The probability of having stayed: a row that stayed represents 1 / `thin` rows, including evicted
    ones."""
    seen: Any
    """The total weight of its sampled results within the bound."""


@njit(cache=True, inline="always")
def _uniform(identity: np.uint64, draw: int) -> float:
    """In (0, 1), both ends excluded."""
    h = avalanche(identity + GOLDEN * np.uint64(draw + 16))
    return (float(h >> _R11) + 0.5) * _UNIT


@njit(cache=True, inline="always")
def _geometric(u: float, p: float, fails: float) -> float:
    """Trials of probability p up to the first success, itself included; `fails` is log(1 - p)."""
    if p >= 1.0:
        return 1.0
    return min(1.0 + np.floor(np.log(u) / fails), _FAR)


@njit(cache=True, inline="always")
def _identity(keys: Any, row: int) -> np.uint64:
    h = avalanche(np.uint64(keys.key) + GOLDEN * np.uint64(np.int64(keys.number[row])))
    h = avalanche(h ^ np.uint64(keys.ts[row]))
    return avalanche(h + GOLDEN * np.uint64(keys.column[row]))


@njit(cache=True)
def identify(keys: Any) -> Any:
    """A number for each row, from its `RowKeys`."""
    out = np.empty(len(keys.ts), np.uint64)
    for r in range(len(out)):
        out[r] = _identity(keys, r)
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
    rows: Any,
) -> None:
    """Writes the `FollowedRows` of new rows with these expected `results`, which are followed `reach`
    standard deviations beyond. A row is monitored with probability `monitored`. `draws` are the numbers of
    the draws that round the bound and choose the monitored rows."""
    fails = np.log1p(-min(p, 1.0))
    # none[n] is the probability that the first n trials fail. It decides most rows without a logarithm.
    none = np.power(max(0.0, 1.0 - p), np.arange(_TABLED))
    for r in range(len(identities)):
        who, expected = identities[r], results[r]
        rows.bound[r] = np.floor(expected + reach * np.sqrt(expected) + _uniform(who, draws[0]))
        bound = rows.bound[r]
        is_monitored = monitored >= 1.0 or (monitored > 0.0 and _uniform(who, draws[1]) < monitored)
        rows.extra[r] = 1.0 / monitored if is_monitored else 0.0
        rows.probability[r], rows.thin[r] = p, 1.0
        drawn = _uniform(who, 0)
        if not is_monitored and bound < _TABLED and drawn < none[int(bound)] * (1.0 - 1e-9):
            rows.next[r] = 0.0
            continue
        first = _geometric(drawn, p, fails)
        rows.next[r] = first if is_monitored or first <= bound else 0.0


@njit(cache=True, nogil=True)
def find_last_arrival(rows: Any, ts: Any, first_new: int, stream: int, latest: Any, last: Any) -> None:
    """Sets `last` of each result to `stream` if its row arrived later than those of the streams before. Rows
    from `first_new` on arrived in this sub-batch, in order of time, and all others before them. `latest`
    starts at the least integer."""
    for k in range(len(rows)):
        row = rows[k]
        if row >= first_new and ts[row] >= latest[k]:
            latest[k] = ts[row]
            last[k] = stream


@njit(cache=True, nogil=True)
def in_arrival_order(last: Any, stream: int, others: Any, first_new: int, end: int) -> Any:
    """The results of stored rows of `stream`, in the order in which the rows that found them arrived. Those
    are `others`, from `first_new` to `end`, in that order. A counting sort."""
    starts = np.zeros(end - first_new + 1, np.int64)
    for k in range(len(others)):
        if last[k] != stream:
            starts[others[k] - first_new + 1] += 1
    for k in range(1, len(starts)):
        starts[k] += starts[k - 1]
    out = np.empty(starts[-1], np.int64)
    for k in range(len(others)):
        if last[k] != stream:
            at = others[k] - first_new
            out[starts[at]] = k
            starts[at] += 1
    return out


@njit(cache=True, nogil=True)
def sample_results(
    which: Any, rows: Any, keys: Any, p: float, held: Any, weights: Any, clusters: Any, sums: Any, met: Any
) -> None:
    """Counts the results of stored rows and samples among them (Memory, Fig. 4).

    `rows` are the stored rows of all results, `which` the results to follow, in order of arrival; `keys` are
    the `RowKeys` of the window's rows, `held` their `FollowedRows`.

    Writes weight and cluster of the sampled results, adds the weights to what was `seen` of their rows, and
    adds to `sums` (kinds: within the bound, and beyond it; columns as in `result_sums.py`). A result of
    weight w that was drawn independently adds w (w - 1) to the variance. But the results of a row that
    represents e rows, of weight y in all, are present or absent together, and add (1 - 1/e) y^2. Beyond the
    bound a monitored row sees all its results, sampled or not, and each of them counts as e. `met` has the
    number of results per row, summed, and its square.
    """
    num, nexts, bound, probability, extra, thin, seen = held
    fails = np.log1p(-min(p, 1.0))
    for k in which:
        r = rows[k]
        num[r] += 1.0
        met[0] += 1.0
        met[1] += 2.0 * num[r] - 1.0  # num^2 - (num - 1)^2
        beyond = num[r] > bound[r]
        if beyond and extra[r] > 0.0:
            represents = extra[r] / thin[r]
            after = (num[r] - bound[r]) * represents
            sums[1, ESTIMATED] += represents
            add_row_results(sums, 1, represents, after - represents, after)
        if num[r] != nexts[r]:
            continue
        weight = 1.0 / (probability[r] * thin[r])
        if beyond:
            weight *= extra[r]
        else:
            represents = 1.0 / thin[r]
            before, seen[r] = seen[r], seen[r] + weight
            whole = 1.0 - 1.0 / represents
            squares = seen[r] * seen[r] - before * before
            sums[0, ESTIMATED] += weight
            sums[0, VARIANCE] += whole * squares + (1.0 - whole) * weight * (weight - 1.0)
            sums[0, LARGEST] = max(sums[0, LARGEST], whole * seen[r], weight - 1.0)
            sums[0, CONTRIBUTING] += before == 0.0 and weight > 1.0
        weights[k] = weight
        sums[int(beyond), FOUND] += 1.0
        probability[r] = p
        nexts[r] = num[r] + 1.0
        if p < 1.0 or weight > 1.0:
            who = _identity(keys, r)
            # Results of a row that represents others are sampled together: the row is their cluster. A result
            # that was drawn independently is a cluster of its own.
            if thin[r] < 1.0 or (beyond and extra[r] > 1.0):
                clusters[k] = np.int64(who >> _ONE)
            elif weight > 1.0:
                clusters[k] = np.int64(avalanche(who + GOLDEN * np.uint64(num[r])) >> _ONE)
            nexts[r] = num[r] + _geometric(_uniform(who, np.int64(num[r])), p, fails)
        if nexts[r] > bound[r] and extra[r] == 0.0:
            nexts[r] = 0.0


@njit(cache=True, nogil=True)
def residence_fraction(results: Any, shares: Any, further: Any, p: float) -> float:
    """The mean fraction of its window that a row stays (Theorem 4.2), for classes of rows with integer
    `results` and their `shares` of all rows, followed `further` beyond the expected results. `further` has
    half as many entries, which repeat."""
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
    last: Any, stream: int, rows: Any, represents: Any, keys: Any, weights: Any, heaviest: Any, clusters: Any
) -> None:
    """Multiplies the weights of results by those of their rows of `stream`, if stored. The heaviest row
    identifies the result's cluster."""
    for k in range(len(rows)):
        if last[k] == stream:
            continue
        row = rows[k]
        own = represents[row]
        weights[k] *= own
        if own > heaviest[k]:
            heaviest[k] = own
            clusters[k] = np.int64(_identity(keys, row) >> _ONE)


@njit(cache=True, nogil=True)
def add_sampling_variance(
    last: Any, stream: int, rows: Any, weights: Any, represents: Any, seen: Any, sums: Any
) -> None:
    """Adds the variance that results of these weights have because their rows of `stream` were sampled, if
    stored: a row that represents w rows and has `seen` y adds (1 - 1/w) y^2 in all. Rows may repeat. Results
    of weight 1 are certain, and those of weight 0 are not in the sample. `sums` as in `sample_results`."""
    for k in range(len(rows)):
        if last[k] == stream or weights[k] <= 1.0:
            continue
        row = rows[k]
        before = seen[row]
        seen[row] = before + weights[k]
        add_row_results(sums, 0, represents[row], before, seen[row])
