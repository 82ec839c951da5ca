"""Statistics of a join for the planner: arrival rates, window lengths, and selectivities.

Streams are numbered in the order of the query. Rates and spans share one unit of time, which is up to the
caller. The model assumes uniform and contained values: the values of a column with fewer distinct values are
a subset of those of a column with more. So two columns match with probability 1 / max(v_i, v_j), and a
partial match has as many distinct values as the smallest of its members (MultiJoin s. 4.2, App. A).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2, prod
from types import MappingProxyType

from windrow.errors import QueryError


@dataclass(frozen=True)
class StreamStatistics:
    """Arrival rate, window and access path of one stream."""

    rate: float
    """Rows per unit of time."""
    span: float
    """Length of the window in units of time; n / rate for a row window of n rows."""
    access: str = "scan"
    """One of `PATHS` of `model/access.py`."""
    buckets: int | None = None
    """Buckets of a hash path; None for one per distinct value."""

    @property
    def rows(self) -> float:
        """Rows expected in the window."""
        return self.rate * self.span


@dataclass(frozen=True)
class JoinStatistics:
    """All streams of a join and how selective its conditions are."""

    streams: tuple[StreamStatistics, ...]
    """One entry per stream."""
    classes: tuple[Mapping[int, float], ...] = ()
    """Classes of columns that must all be equal. Each maps a stream to the number of distinct values of its
    column."""
    others: tuple[tuple[frozenset[int], float], ...] = ()
    """All other conditions: the streams that each one reads, and the probability that it holds."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(MappingProxyType(dict(c)) for c in self.classes))
        for distinct in self.classes:
            if not all(v >= 1 for v in distinct.values()):
                raise QueryError(f"a column has at least one value, got {dict(distinct)}")

    def __len__(self) -> int:
        return len(self.streams)

    def selectivity(self, bound: frozenset[int], stream: int) -> float:
        """Probability that a row of `stream`'s window matches a partial match over the streams `bound`."""
        return prod(self._checkable(bound, stream))

    def compared(self, bound: frozenset[int], stream: int, rows: float) -> float:
        """Rows compared when a partial match over `bound` probes `rows` rows of `stream`.

        An access path that no condition can use from `bound` is a scan.
        """
        window = self.streams[stream]
        if window.access == "hash":
            equalities = self._equalities(bound, stream)
            if not equalities:
                return rows
            # With a bucket per value a probe compares only rows with its value of the most selective column.
            return rows / window.buckets if window.buckets else rows * min(equalities)
        if window.access in ("sorted", "inverted"):
            ranges = self._checkable(bound, stream)
            return min(rows, log2(1 + rows) + rows * min(ranges)) if ranges else rows
        return rows

    def connected(self, bound: frozenset[int], stream: int) -> bool:
        """Whether some condition between `stream` and the bound streams alone can be checked."""
        joint = bound | {stream}
        return bool(self._equalities(bound, stream)) or any(
            stream in members and len(members) > 1 and members <= joint for members, _ in self.others
        )

    def _equalities(self, bound: frozenset[int], stream: int) -> list[float]:
        """Probability of equality for each class that links `stream` to a bound stream."""
        found = []
        for distinct in self.classes:
            of_bound = [v for member, v in distinct.items() if member in bound]
            if of_bound and stream in distinct:
                found.append(1.0 / max(min(of_bound), distinct[stream]))
        return found

    def _checkable(self, bound: frozenset[int], stream: int) -> list[float]:
        """Probabilities of all conditions that become checkable when `stream` joins `bound`."""
        joint = bound | {stream}
        others = [p for members, p in self.others if stream in members and members <= joint]
        return self._equalities(bound, stream) + others
