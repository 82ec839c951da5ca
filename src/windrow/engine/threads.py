"""Work on several threads, with results in the order of the work.

Kernels and Arrow release Python's lock, so threads run at the same time wherever it matters. What the work is
and in which order its results come never depends on how fast a thread is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from windrow.errors import Option, QueryError

Item = TypeVar("Item")
Result = TypeVar("Result")
AHEAD = 3
"""Pieces of work per thread that are under way at once. This bounds the memory of results not yet taken."""
LEAST_ROWS, MOST_ROWS = 1 << 12, 1 << 15
"""Rows that are worth several threads, and the most in one piece of work."""


class Threads:
    """So many threads; 1 for no other than the caller's."""

    def __init__(self, count: int = 1) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise QueryError(f"expected a number of threads from 1 on, got {count!r}", Option("threads"))
        self.count = count
        self._pool = ThreadPoolExecutor(count, "windrow") if count > 1 else None

    def map(self, work: Callable[[Item], Iterable[Result]], items: Iterable[Item]) -> Iterator[Result]:
        """All results of the first item, then all of the second, and so on.

        One thread computes each result only on demand. Several compute all results of an item, a few items
        ahead; the caller's thread iterates over `items`.
        """
        if self._pool is None:
            for item in items:
                yield from work(item)
            return
        pending: deque[Future[list[Result]]] = deque()
        for item in items:
            pending.append(self._pool.submit(_all, work, item))
            if len(pending) == AHEAD * self.count:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()

    def each(self, work: Callable[..., object], *columns: Iterable[Any]) -> None:
        """Call `work` with the first of each of the columns, with the second of each, and so on."""
        if self._pool is None:
            for arguments in zip(*columns, strict=True):
                work(*arguments)
            return
        for _ in self.map(lambda arguments: [work(*arguments)], zip(*columns, strict=True)):
            pass

    def suited_to(self, rows: int) -> Threads:
        """The threads for work on this many rows: one if they are few."""
        return self if rows >= LEAST_ROWS else ONE_THREAD

    def parts(self, first: int, end: int) -> list[tuple[int, int]]:
        """Rows from `first` to `end`, cut so that each thread has a part."""
        if self._pool is None:
            return [(first, end)]
        size = max(1, min(MOST_ROWS, -(-(end - first) // self.count)))
        return [(at, min(at + size, end)) for at in range(first, end, size)]


ONE_THREAD = Threads()


def _all(work: Callable[[Item], Iterable[Result]], item: Item) -> list[Result]:
    return list(work(item))
