"""Cost and output of a harvest: C and O of GrubJoin (s. 4.3), for every access path.

For each partial match that enters it, hop j of direction i probes the c best basic windows of its window.
They hold a fraction P of the window's matches (the yield factor) and a fraction z of its S rows. P * sigma *
S partial matches leave the hop. It costs

    scan      z * S: every probed row is compared
    sorted    for each basic window log2(1 + its rows), then P * delta * S: rows in the range
    inverted  the same: tokens are looked up, then rows that share one are counted
    hash      for each basic window one lookup, then P * delta * S: rows of the key

but never more than a scan. Delta is the fraction of the rows that the index finds; further checks make sigma
smaller. Each basic window has its own index (s. 7), so each one costs a lookup. Rows of the probed value lie
where the matches lie, so the rows found are proportional to the yield.

Three choices that the paper leaves open:

- P is a fraction of the matches inside the window, as in the paper (scores divided by their sum). So sigma
  must be that of a direction: matches in W_l of a row arriving on S_i, over rows of W_l. If streams lag, it
  differs from the selectivity of S_l's rows in W_i, because the row that arrives first finds nothing.
  Selectivities learned from probes have this form; `directional` in `selectivity.py` converts symmetric ones.
- Selectivities are given by hop, not by pair, so that those of later hops can be conditional on earlier ones.
- Work per arriving row that no harvest avoids can be included; the throttle fraction is then one of all work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from windrow.errors import QueryError, unknown
from windrow.kernels.harvest.tables import HASH, SCAN, SORTED, Tables, rank, tabulate, total
from windrow.model.access import PATHS
from windrow.model.harvest import BasicWindows, Harvest, HarvestDirection, HarvestHop

Array = np.ndarray

_PATHS = {"scan": SCAN, "sorted": SORTED, "inverted": SORTED, "hash": HASH}


@dataclass(frozen=True)
class CostFactors:
    """Costs of work, in comparisons.

    Parameters
    ----------
    lookup
        One lookup in a hash table, or one step of a search in a sorted index.
    match
        Building a partial match or result; the paper ignores it.
    arrival
        Storing and expiring an arriving row; the paper ignores it.
    """

    lookup: float = 1.0
    match: float = 0.0
    arrival: float = 0.0

    def __post_init__(self) -> None:
        if not (self.lookup >= 0 and self.match >= 0 and self.arrival >= 0):
            raise QueryError(f"charges must not be negative, got {self}")


@dataclass(frozen=True, eq=False)
class HarvestModel:
    """The input of the search for a harvest, for m streams with at most n basic windows.

    Parameters
    ----------
    windows
        The basic windows.
    rates
        Rows that arrive per second, by stream.
    rows
        Rows in each window.
    orders
        For each arriving stream the other streams, in the order in which their windows are probed.
    selectivities
        By direction and hop (m, m-1): the fraction of the window's rows that match a partial match.
    scores
        By direction, hop and basic window (m, m-1, n), youngest first: proportional to the probability that a
        match lies there. Entries beyond a window's last basic window are not read.
    access
        Access path by direction and hop; None for scans.
    drivers
        By direction and hop, the fraction of the window's rows that the index finds; None for the
        selectivity.
    charges
        Costs of work.
    """

    windows: BasicWindows
    rates: Array
    rows: Array
    orders: tuple[tuple[int, ...], ...]
    selectivities: Array
    scores: Array
    access: tuple[tuple[str, ...], ...] | None = None
    drivers: Array | None = None
    charges: CostFactors = CostFactors()

    def __post_init__(self) -> None:
        m = len(self.windows.counts)
        put = object.__setattr__
        put(self, "orders", tuple(map(tuple, self.orders)))
        for name, shape in (("rates", (m,)), ("rows", (m,)), ("selectivities", (m, m - 1))):
            put(self, name, _numbers(name, getattr(self, name), shape))
        put(self, "scores", _numbers("scores", self.scores, (m, m - 1, max(self.windows.counts))))
        if self.drivers is not None:
            put(self, "drivers", _numbers("drivers", self.drivers, (m, m - 1)))
        for i, order in enumerate(self.orders):
            if sorted((i, *order)) != list(range(m)):
                raise QueryError(f"the order of stream {i} names every other of {m} once, got {order}")
        if len(self.orders) != m:
            raise QueryError(f"expected an order for each of {m} streams, got {len(self.orders)}")
        for path in (path for paths in self.access or () for path in paths):
            if path not in _PATHS:
                raise QueryError(unknown("access path", path, PATHS))

    def __len__(self) -> int:
        return len(self.rates)

    @cached_property
    def counts(self) -> Array:
        """Basic windows by direction and hop (m, m-1)."""
        return np.array([[self.windows.counts[s] for s in order] for order in self.orders], dtype=np.int64)

    @cached_property
    def ranking(self) -> Array:
        """Basic windows of each hop, best first (m, m-1, n); equal scores youngest first."""
        ranking = np.full(self.scores.shape, -1, dtype=np.int64)
        rank(self.scores, self.counts, ranking)
        return ranking

    @cached_property
    def tables(self) -> Tables:
        """By direction, hop and number of probed basic windows (m, m-1, n+1): what a partial match that
        enters costs and finds."""
        return self._tabulated(self.rates, self.rows)

    def _tabulated(self, rates: Array, rows: Array) -> Tables:
        out = Tables(rates, self.counts, *np.zeros((3, *self.scores.shape[:2], self.scores.shape[2] + 1)))
        streams, shares, access = self._of_hops
        tabulate(
            self.scores,
            shares,
            rows[streams],
            self.selectivities,
            self.selectivities if self.drivers is None else self.drivers,
            access,
            self.charges.lookup,
            self.charges.match,
            self.ranking,
            out,
        )
        return out

    @cached_property
    def _of_hops(self) -> tuple[Array, Array, Array]:
        """By direction and hop: the stream, the shares of its basic windows, and the access path."""
        m, hops, n = self.scores.shape
        streams = np.array(self.orders, dtype=np.int64).reshape(m, hops)
        return streams, _shares(self.windows, n)[streams], _paths(self.access, (m, hops))

    @property
    def base(self) -> float:
        """Cost per second that no harvest avoids."""
        return self.charges.arrival * float(self.rates.sum())

    @cached_property
    def full(self) -> tuple[float, float]:
        """Cost and output per second if everything is probed: C(1) and O(1)."""
        return self.at(self.counts)

    def full_with(self, rates: Array, rows: Array) -> tuple[float, float]:
        """`full` of the same join with other rates and rows: what a search for drop rates asks a hundred
        times, so nothing else is computed again."""
        cost, output = total(self._tabulated(rates, rows), self.counts)
        return self.charges.arrival * float(rates.sum()) + cost, output

    def at(self, chosen: Array) -> tuple[float, float]:
        """Cost (`base` included) and output per second if `chosen` basic windows are probed (m, m-1)."""
        cost, output = total(self.tables, np.asarray(chosen, dtype=np.int64))
        return self.base + cost, output

    def budget(self, z: float) -> float:
        """Cost per second that a throttle fraction leaves for probes; 0 if `base` takes all."""
        if not 0 <= z <= 1:
            raise QueryError(f"a throttle fraction lies in 0..1, got {z}")
        return max(0.0, z * self.full[0] - self.base)

    def admitting(self, keep: Array) -> tuple[float, float]:
        """`full` if only these fractions of the streams' rows are admitted."""
        return self.full_with(self.rates * keep, self.rows * keep)

    def harvest(self, used: Array, z: float, method: str) -> Harvest:
        """The harvest that probes `used` basic windows (m, m-1), which need not be integers."""
        _, _, found, work, fan = self.tables
        directions = []
        for i, order in enumerate(self.orders):
            cost, partial, hops = 0.0, float(self.rates[i]), []
            for j, stream in enumerate(order):
                u, ranked = float(used[i, j]), self.ranking[i, j, : self.counts[i, j]]
                cost += partial * _between(work[i, j], u)
                partial *= _between(fan[i, j], u)
                hops.append(HarvestHop(stream, tuple(ranked.tolist()), u, _between(found[i, j], u)))
            directions.append(HarvestDirection(i, tuple(hops), cost, partial))
        cost, output = self.full
        return Harvest(self.windows, tuple(directions), z, cost, output, self.base, method)


def _between(table: Array, used: float) -> float:
    """A table's value at a number of basic windows, interpolated: rows lie evenly inside a basic window."""
    low = int(used)
    fraction = used - low
    return float(table[low] if not fraction else (1 - fraction) * table[low] + fraction * table[low + 1])


def _shares(windows: BasicWindows, n: int) -> Array:
    """The fraction of each stream's window in each of its basic windows (m, n)."""
    sizes, lengths = np.array(windows.sizes), np.array(windows.lengths)
    upper = np.minimum(np.arange(n + 1) * lengths[:, None], sizes[:, None])
    return np.diff(upper, axis=1) / sizes[:, None]


def _paths(access: tuple[tuple[str, ...], ...] | None, shape: tuple[int, int]) -> Array:
    if access is None:
        return np.zeros(shape, dtype=np.int64)
    return np.array([[_PATHS[path] for path in paths] for paths in access], dtype=np.int64).reshape(shape)


def _numbers(name: str, values: Array, shape: tuple[int, ...]) -> Array:
    array = np.ascontiguousarray(values, dtype=float)
    if array.shape != shape:
        raise QueryError(f"expected {name} of shape {shape}, got {array.shape}")
    if not (array >= 0).all() or not np.isfinite(array).all():
        raise QueryError(f"{name} must be numbers from 0 up, got {array.tolist()}")
    return array


def max_useful_ages(harvest: Harvest) -> tuple[float, ...]:
    """For each stream the greatest age at which some direction probes its rows, in its window's unit; 0 if
    none (GrubJoin s. 7).

    To evict older rows loses no result of this harvest. It does lose results of a later harvest, or of window
    shredding, that would have probed them. Every row is stored, because a harvest may probe it only when it
    is older.
    """
    oldest = [0.0] * len(harvest.directions)
    for direction in harvest.directions:
        # A direction that skips a window completely finds nothing, so its other hops do not count.
        if direction.idle:
            continue
        for hop in direction.hops:
            oldest[hop.stream] = max(oldest[hop.stream], hop.ages(harvest.windows)[-1][1])
    return tuple(oldest)
