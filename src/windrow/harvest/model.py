"""What a harvest costs and finds: C and O of GrubJoin (s. 4.3), for every access path.

For each partial match that enters it, hop j of direction i looks at the c best basic windows of its window,
which hold the part P of the window's matches (the yield factor) and of S rows the part z. It lets out
P * sigma * S partial matches, and costs

    scan      z * S: each row looked at is compared
    sorted    for each basic window log2(1 + its rows), then P * delta * S: rows in the range searched
    inverted  the same: tokens are looked up, then rows that share one are counted
    hash      for each basic window one lookup, then P * delta * S: rows of the key searched

but never more than a scan. Here delta is the part of the rows that the index finds; checks that follow make
sigma smaller. Indexes belong to basic windows (s. 7), so each one looked at is entered anew; and rows of the
value searched lie where the matches lie, which is why the rows met are in proportion to the yield.

Three choices where the paper leaves it open:

- P is a part of the matches inside the window, as in the paper (scores divided by their sum). So sigma has to
  be that of a direction: matches in W_l of an arriving row of S_i, over rows of W_l. Where streams lag this
  differs from the selectivity of S_l's rows in W_i: the row that comes first finds nothing. Selectivities
  learned from probes are of this kind; `directional` in `selectivity.py` turns symmetric ones into it.
- Selectivities are given by hop, not by pair, so that those of later hops can be conditional on earlier ones.
- Work that no harvest avoids, for each arriving row, can be added; the throttle fraction is one of all work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from windrow.errors import QueryError, unknown
from windrow.kernels.harvest import tables
from windrow.model.access import PATHS
from windrow.model.harvest import BasicWindows, Harvest, HarvestDirection, HarvestHop

Array = np.ndarray

_PATHS = {
    "scan": tables.SCAN,
    "sorted": tables.SORTED,
    "inverted": tables.SORTED,
    "hash": tables.HASH,
}


@dataclass(frozen=True)
class CostFactors:
    """What work costs, in comparisons.

    Parameters
    ----------
    lookup
        Entering a hash table once, or one step of a search in a sorted index.
    match
        Building a partial match or result from a match; the paper leaves it out.
    arrival
        Taking in an arriving row and letting it go, whatever is looked at; the paper leaves it out.
    """

    lookup: float = 1.0
    match: float = 0.0
    arrival: float = 0.0

    def __post_init__(self) -> None:
        if not (self.lookup >= 0 and self.match >= 0 and self.arrival >= 0):
            raise QueryError(f"harvest: charges must not be negative, got {self}")


@dataclass(frozen=True, eq=False)
class HarvestModel:
    """Everything the choice of a harvest depends on, for m streams and n basic windows at most.

    Parameters
    ----------
    windows
        How the windows are cut.
    rates
        Rows that arrive per second, by stream.
    rows
        Rows in each window.
    orders
        For each arriving stream the windows in the order they are probed, itself left out.
    selectivities
        By direction and hop (m, m-1): the part of the window's rows that match what enters the hop.
    scores
        By direction, hop and basic window (m, m-1, n), youngest first: how likely a match lies there, to any
        scale. What stands beyond a window's number of basic windows is not read.
    access
        By direction and hop the access path; None for scans.
    drivers
        By direction and hop the part of the window's rows that the index finds; None for the selectivity.
    charges
        What work costs.
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
                raise QueryError(
                    f"harvest: the order of stream {i} names every other of {m} once, got {order}"
                )
        if len(self.orders) != m:
            raise QueryError(f"harvest: an order for each of {m} streams, got {len(self.orders)}")
        for path in (path for paths in self.access or () for path in paths):
            if path not in _PATHS:
                raise QueryError(f"harvest: {unknown('access path', path, PATHS)}")

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
        tables.rank(self.scores, self.counts, ranking)
        return ranking

    @cached_property
    def tables(self) -> tuple[Array, Array, Array]:
        """By direction, hop and number of basic windows looked at (m, m-1, n+1), for each partial match that
        enters: the part of its matches found, the work, and the partial matches that leave."""
        m, hops, n = self.scores.shape
        streams = np.array(self.orders, dtype=np.int64).reshape(m, hops)
        found, work, fan = (np.zeros((m, hops, n + 1)) for _ in range(3))
        tables.tabulate(
            self.scores,
            self.counts,
            _shares(self.windows, n)[streams],
            self.rows[streams],
            self.selectivities,
            self.selectivities if self.drivers is None else self.drivers,
            _paths(self.access, (m, hops)),
            self.charges.lookup,
            self.charges.match,
            self.ranking,
            found,
            work,
            fan,
        )
        return found, work, fan

    @property
    def base(self) -> float:
        """Cost per second that no harvest avoids."""
        return self.charges.arrival * float(self.rates.sum())

    @cached_property
    def full(self) -> tuple[float, float]:
        """Cost and output per second when everything is looked at: C(1) and O(1)."""
        return self.at(self.counts)

    def at(self, chosen: Array) -> tuple[float, float]:
        """Cost (`base` included) and output per second when so many basic windows are looked at (m, m-1)."""
        _, work, fan = self.tables
        cost, output = tables.total(self.rates, work, fan, np.asarray(chosen, dtype=np.int64))
        return self.base + cost, output

    def budget(self, z: float) -> float:
        """Cost per second that a throttle fraction leaves for looking at windows: 0 if `base` takes all."""
        if not 0 <= z <= 1:
            raise QueryError(f"harvest: a throttle fraction lies in 0..1, got {z}")
        return max(0.0, z * self.full[0] - self.base)

    def with_drop_rates(self, keep: Sequence[float]) -> HarvestModel:
        """The same join when only such parts of the streams' rows are let in."""
        parts = _numbers("keep", np.asarray(keep), (len(self),))
        return replace(self, rates=self.rates * parts, rows=self.rows * parts)

    def harvest(self, used: Array, z: float, method: str) -> Harvest:
        """The harvest that looks at so many basic windows (m, m-1), which need not be whole numbers."""
        found, work, fan = self.tables
        directions = []
        for i, order in enumerate(self.orders):
            cost, partial, hops = 0.0, float(self.rates[i]), []
            for j, stream in enumerate(order):
                u, ranked = float(used[i, j]), self.ranking[i, j, : self.counts[i, j]]
                cost += partial * between(work[i, j], u)
                partial *= between(fan[i, j], u)
                hops.append(HarvestHop(stream, tuple(ranked.tolist()), u, between(found[i, j], u)))
            directions.append(HarvestDirection(i, tuple(hops), cost, partial))
        cost, output = self.full
        return Harvest(self.windows, tuple(directions), z, cost, output, self.base, method)


def between(table: Array, used: float) -> float:
    """A table's value at a number of basic windows that need not be whole: rows lie evenly inside one."""
    low = int(used)
    part = used - low
    return float(table[low] if not part else (1 - part) * table[low] + part * table[low + 1])


def _shares(windows: BasicWindows, n: int) -> Array:
    """The part of each stream's window that each of its basic windows holds (m, n)."""
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
        raise QueryError(f"harvest: {name} of shape {shape} expected, got {array.shape}")
    if not (array >= 0).all() or not np.isfinite(array).all():
        raise QueryError(f"harvest: {name} must be numbers from 0 up, got {array.tolist()}")
    return array
