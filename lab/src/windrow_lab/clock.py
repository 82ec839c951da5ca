"""The virtual clock: counted work turned into time at a stated capacity.

Results then depend on the algorithm and not on the machine, its load or its compiler. Work is counted in
three kinds of access to a stored row or bucket, each with its cost in comparisons; by default all cost
one, as in the cost model of MultiJoin (App. A: "proportional to the number of accesses").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windrow.engine.operator import Operator, runner_of
from windrow.errors import WindrowError


@dataclass(frozen=True)
class WorkTotals:
    """What was done: rows compared and inserted, rows or buckets touched by expiry, results built."""

    comparisons: float
    insertions: float = 0
    expiries: float = 0
    results: float = 0


@dataclass(frozen=True)
class VirtualClock:
    """A machine of known speed.

    Parameters
    ----------
    capacity
        Comparisons per second. The default is about what the machine of MultiJoin's Table 8 did.
    insertion, expiry
        What one such access costs, in comparisons.
    result
        What building one costs, in comparisons; nothing, as in the cost models of MultiJoin and GrubJoin.
    """

    capacity: float = 2_000_000
    insertion: float = 1.0
    expiry: float = 1.0
    result: float = 0.0

    def __post_init__(self) -> None:
        if not self.capacity > 0:
            raise WindrowError(f"virtual clock: capacity must be positive, got {self.capacity}")
        if min(self.insertion, self.expiry, self.result) < 0:
            raise WindrowError(f"virtual clock: costs must not be negative, got {self}")

    def seconds(self, work: WorkTotals) -> float:
        """Time the work takes."""
        return self.comparisons(work) / self.capacity

    def comparisons(self, work: WorkTotals) -> float:
        """All of the work, in comparisons that take as long."""
        accesses = work.comparisons + self.insertion * work.insertions + self.expiry * work.expiries
        return accesses + self.result * work.results

    def rate(self, rows: int, work: WorkTotals) -> float:
        """The fastest input, in rows per second, that this work allows (MultiJoin s. 6.1: x / t)."""
        return rows / self.seconds(work)


def expiry_accesses(passes: int, buckets: Sequence[int], expired: int) -> int:
    """Accesses of expiry (MultiJoin s. 4.1).

    Each pass looks at the head of every bucket of every window, whether or not anything is stale there
    (a window without an index is one bucket), and each row that goes moves a head on.
    """
    return passes * sum(buckets) + expired


class WorkClock:
    """A clock that goes on with the work of an operator: for deadlines in virtual time.

    >>> import windrow as wr
    >>> clock = WorkClock(VirtualClock(capacity=1_000_000))
    >>> query = wr.Query({"a": wr.Stream("ts", "5 s"), "b": wr.Stream("ts", "5 s")}, "a.k = b.k",
    ...                  deadline="10 ms")
    >>> clock.operator = wr.Operator(query, clock=clock)
    """

    def __init__(self, machine: VirtualClock) -> None:
        self.machine = machine
        self.operator: Operator | None = None

    def __call__(self) -> float:
        if self.operator is None:
            return 0.0
        return self.machine.seconds(self.work)

    @property
    def work(self) -> WorkTotals:
        """Of the operator so far; results are counted where they cost something."""
        assert self.operator is not None
        comparisons, rows = runner_of(self.operator).work
        results = self.operator.metrics().results if self.machine.result else 0
        return WorkTotals(comparisons, rows, results=results)
