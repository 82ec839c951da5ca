"""The windows of all queries as nested tiers: each contains the one below, and the largest is joined.

Queries with equal windows share one *output*. Outputs are sorted by size. If each contains the one before
(the paper's case, one window for all streams), a result belongs to the smallest output that holds it and to
all larger ones. Windows per stream need not be nested: then tier k is the union of the first k windows,
output k is complete once tier k is, and each result is checked against each output.

A result's distance on a stream is how far back its row lies when the newest arrives, in time or in rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from windrow.kernels import result_routing
from windrow.model.query import Window

Array = np.ndarray
Windows = tuple[Window, ...]


@dataclass(frozen=True, eq=False)
class WindowTiers:
    outputs: tuple[Windows, ...]
    """Distinct windows, the smallest first."""
    tier_sizes: Array
    """Size of the tier per output and stream, in microseconds or rows."""
    sizes: tuple[Array, ...]
    """Per stream, the distinct sizes, ascending."""
    size_ranks: Array
    """Per output and stream, the index of its size."""

    @classmethod
    def of(cls, windows: Iterable[Windows]) -> WindowTiers:
        different = list(dict.fromkeys(windows))
        plain = np.array([[w.size for w in each] for each in different], np.int64)
        # As fractions of the largest, windows in microseconds and in rows can be added.
        order = np.argsort((plain / plain.max(axis=0)).sum(axis=1), kind="stable")
        plain = plain[order]
        sizes = tuple(np.unique(column) for column in plain.T)
        ranks = [np.searchsorted(s, column) for s, column in zip(sizes, plain.T, strict=True)]
        return cls(
            tuple(different[k] for k in order),
            np.maximum.accumulate(plain, axis=0),
            sizes,
            np.ascontiguousarray(np.array(ranks, np.int64).T),
        )

    def __len__(self) -> int:
        return len(self.outputs)

    @property
    def largest(self) -> Windows:
        """The windows that the join must hold."""
        return tuple(
            Window(w.kind, int(size)) for w, size in zip(self.outputs[0], self.tier_sizes[-1], strict=True)
        )

    @cached_property
    def number(self) -> dict[Windows, int]:
        """Output of each distinct windows."""
        return {windows: k for k, windows in enumerate(self.outputs)}

    @cached_property
    def nested(self) -> bool:
        """Whether each output contains the one before."""
        return bool((np.diff(self.size_ranks, axis=0) >= 0).all())

    @cached_property
    def slices(self) -> Array:
        """What each tier adds to the one below, as a fraction of the top."""
        parts = np.diff(self.tier_sizes, axis=0, prepend=0) / self.tier_sizes[-1]
        return parts.sum(axis=1) / self.tier_sizes.shape[1]

    def ranks(self, distances: Array) -> Array:
        """Per stream and result, the rank of the smallest size that holds it."""
        found = np.empty(distances.shape, np.int64)
        for stream, sizes in enumerate(self.sizes):
            result_routing.rank_among(distances[stream], sizes, found[stream])
        return found

    def route(self, ranks: Array) -> list[Array]:
        """Per output, the results it takes, in order."""
        take = result_routing.taken_by_nested if self.nested else result_routing.taken
        found, ends = take(ranks, self.size_ranks)
        return [found[a:b] for a, b in pairwise([0, *ends.tolist()])]
