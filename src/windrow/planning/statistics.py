"""What the planner knows about a join: how fast streams come, how long they stay, how often they match.

Streams are numbered in the order of the query. Rates and spans share one unit of time, whichever it is.
Values of a column are taken as uniform and contained: a column with fewer distinct values has a prefix
of those of a column with more, so two columns match with probability 1 / max(v_i, v_j), and a joined
prefix has as many values as the poorest of its members (MultiJoin s. 4.2, App. A).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2
from types import MappingProxyType

from windrow.errors import WindrowError, unknown
from windrow.model.access import PATHS


@dataclass(frozen=True)
class StreamStatistics:
    """One stream: its speed, its window and the way its window is searched.

    Parameters
    ----------
    rate
        Rows per unit of time.
    span
        Length of the window in units of time; for a window of n rows, n / rate.
    access
        "scan", "hash", "sorted" or "inverted".
    buckets
        Buckets of a hash path; None for as many as there are values.
    """

    rate: float
    span: float
    access: str = "scan"
    buckets: int | None = None

    def __post_init__(self) -> None:
        if not self.rate >= 0:
            raise WindrowError(f"statistics: a rate must not be negative, got {self.rate}")
        if not self.span >= 0:
            raise WindrowError(f"statistics: a span must not be negative, got {self.span}")
        if self.access not in PATHS:
            raise WindrowError(f"statistics: {unknown('access path', self.access, PATHS)}")
        if self.buckets is not None and self.buckets < 1:
            raise WindrowError(f"statistics: buckets must be a positive number, got {self.buckets}")

    @property
    def rows(self) -> float:
        """Rows expected in the window."""
        return self.rate * self.span


@dataclass(frozen=True)
class JoinStatistics:
    """All streams of a join and how selective its conditions are.

    Parameters
    ----------
    streams
        One entry a stream.
    classes
        Classes of columns that must all be equal. Each maps a stream to the distinct values of its column.
    others
        Any other condition: the streams it speaks of, and the probability that rows of them fulfil it.
    """

    streams: tuple[StreamStatistics, ...]
    classes: tuple[Mapping[int, float], ...] = ()
    others: tuple[tuple[frozenset[int], float], ...] = ()

    def __post_init__(self) -> None:
        known = set(range(len(self.streams)))
        put = object.__setattr__
        put(self, "classes", tuple(MappingProxyType(dict(each)) for each in self.classes))
        for distinct in self.classes:
            if not set(distinct) <= known:
                raise WindrowError(
                    f"statistics: class speaks of streams {sorted(distinct)}, known {sorted(known)}"
                )
            if not all(v >= 1 for v in distinct.values()):
                raise WindrowError(f"statistics: a column has at least one value, got {dict(distinct)}")
        for members, probability in self.others:
            if not members <= known:
                raise WindrowError(
                    f"statistics: condition on streams {sorted(members)}, known {sorted(known)}"
                )
            if not 0 <= probability <= 1:
                raise WindrowError(f"statistics: a selectivity lies in 0..1, got {probability}")

    def __len__(self) -> int:
        return len(self.streams)

    def selectivity(self, bound: frozenset[int], stream: int) -> float:
        """Probability that a row of `stream`'s window matches a partial match over the streams `bound`."""
        probability = 1.0
        for each in self._checkable(bound, stream):
            probability *= each
        return probability

    def compared(self, bound: frozenset[int], stream: int, rows: float) -> float:
        """Rows looked at when a partial match over `bound` probes `rows` rows of `stream`.

        An access path that no condition can use from `bound` is a scan.
        """
        how = self.streams[stream]
        if how.access == "hash":
            equalities = self._equalities(bound, stream)
            if not equalities:
                return rows
            # Unbounded, only rows of the probed value are met; the path takes the most selective equality.
            return rows / how.buckets if how.buckets else rows * min(equalities)
        if how.access in ("sorted", "inverted"):
            ranges = self._checkable(bound, stream)
            return min(rows, log2(1 + rows) + rows * min(ranges)) if ranges else rows
        return rows

    def connected(self, bound: frozenset[int], stream: int) -> bool:
        """Whether some condition between `stream` and the bound streams can be checked at once."""
        joint = bound | {stream}
        return bool(self._equalities(bound, stream)) or any(
            stream in members and len(members) > 1 and members <= joint for members, _ in self.others
        )

    def _equalities(self, bound: frozenset[int], stream: int) -> list[float]:
        """For each class that links `stream` to a bound stream: probability of being equal."""
        found = []
        for distinct in self.classes:
            met = [v for member, v in distinct.items() if member in bound]
            if met and stream in distinct:
                found.append(1.0 / max(min(met), distinct[stream]))
        return found

    def _checkable(self, bound: frozenset[int], stream: int) -> list[float]:
        """Probabilities of all conditions that become checkable when `stream` joins `bound`."""
        joint = bound | {stream}
        others = [p for members, p in self.others if stream in members and members <= joint]
        return self._equalities(bound, stream) + others
