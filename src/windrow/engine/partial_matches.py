"""Partial matches: per bound stream the positions of its rows, and the remaining time bounds.

A row x of stream j may join if  newest - T_j <= x.ts <= latest,  where `newest` is the newest time in the
partial match and `latest` the earliest end of its rows' windows. These two numbers are enough to hold every
pair of rows to the definition of a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from windrow.window.window_store import WindowStore

Array = np.ndarray
PIECE = 1 << 13
"""Minimum number of results worth building at once."""
MISSING = -1
"""In place of a row's position, in a combination of an outer join that lacks the row."""


@dataclass(frozen=True)
class PartialMatches:
    rows: Mapping[int, Array]
    """Stream to positions in its window."""
    newest: Array | None = None
    latest: Array | None = None
    adjacent: slice | None = None
    """Positions of the only stream's rows, if they are contiguous."""
    below: Array | None = None
    """In a search by slices, `latest` in the windows of the tier below, while inside them."""
    origin: Array | None = None
    """Number of the combination or row that each match grew from, where a search needs it."""

    @classmethod
    def start(cls, stream: int, window: WindowStore, first: int, end: int) -> PartialMatches:
        ts = window.ts[first:end]
        return cls({stream: np.arange(first, end)}, ts, ts + window.time_span, slice(first, end))

    @classmethod
    def of_rows(cls, stream: int, window: WindowStore, rows: Array) -> PartialMatches:
        """Partial matches of single rows at any positions."""
        ts = window.ts[rows]
        return cls({stream: rows}, ts, ts + window.time_span)

    def __len__(self) -> int:
        return len(next(iter(self.rows.values())))

    def values(self, stream: int, column: Array) -> Array:
        """A column of a bound stream, one entry per partial match."""
        return column[self.rows[stream] if self.adjacent is None else self.adjacent]

    def extend(
        self, stream: int, which: Array, found: Array, ts: Array | None = None, span: int = 0
    ) -> PartialMatches:
        """Add row `found[k]` of `stream`, with the time `ts[k]` and a window of this length, to match
        `which[k]`. Without times the matches are complete, and need no time bounds."""
        rows = {**{s: positions[which] for s, positions in self.rows.items()}, stream: found}
        origin = None if self.origin is None else self.origin[which]
        if ts is None:
            return PartialMatches(rows, origin=origin)
        assert self.newest is not None and self.latest is not None
        newest = np.maximum(self.newest[which], ts)
        return PartialMatches(rows, newest, np.minimum(self.latest[which], ts + span), origin=origin)

    @classmethod
    def joined(cls, parts: Sequence[PartialMatches]) -> PartialMatches:
        """Concatenate complete matches."""
        if len(parts) == 1:
            return parts[0]
        return cls({s: np.concatenate([p.rows[s] for p in parts]) for s in parts[0].rows})

    def kept(self) -> PartialMatches:
        """Complete matches that outlast the search. It reuses its buffers, so views of these are copied."""
        return PartialMatches({s: p if p.base is None else p.copy() for s, p in self.rows.items()})

    def slice(self, begin: int, end: int) -> PartialMatches:
        """Complete matches from `begin` to `end`."""
        return PartialMatches({s: p[begin:end] for s, p in self.rows.items()})

    def where(self, mask: Array) -> PartialMatches:
        if mask.all():
            return self
        bounds = (self.newest, self.latest, self.below, self.origin)
        newest, latest, below, origin = (None if b is None else b[mask] for b in bounds)
        return PartialMatches({s: p[mask] for s, p in self.rows.items()}, newest, latest, None, below, origin)


def in_pieces(found: Iterable[PartialMatches], kept: bool) -> Iterator[PartialMatches]:
    """Merge small pieces: each has a fixed cost to build. `kept` if they must outlast the next search."""
    parts: list[PartialMatches] = []
    held = 0
    for partials in found:
        count = len(partials)
        if not parts and count >= PIECE:
            yield partials.kept() if kept else partials
            continue
        parts.append(partials.kept())
        held += count
        if held >= PIECE:
            yield PartialMatches.joined(parts)
            parts, held = [], 0
    if parts:
        yield PartialMatches.joined(parts)
