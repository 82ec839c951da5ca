"""Partial results: for each bound stream the positions of its rows, and the time bounds they leave.

A row x of stream j may join if  newest - T_j <= x.ts <= latest,  where `newest` is the newest time in the
partial result and `latest` the earliest end of its rows' windows. Keeping just these two numbers is enough
to hold every pair of rows to the definition of a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from windrow.window.window import Window

Array = np.ndarray
PIECE = 1 << 13
"""Results that are worth building by themselves."""


@dataclass(frozen=True)
class Partials:
    rows: Mapping[int, Array]
    """Stream to positions in its window."""
    newest: Array | None = None
    latest: Array | None = None
    adjacent: slice | None = None
    """Where the rows of the only stream stand, if they stand side by side."""

    @classmethod
    def start(cls, stream: int, window: Window, first: int, end: int) -> Partials:
        ts = window.ts[first:end]
        return cls({stream: np.arange(first, end)}, ts, ts + window.time_span, slice(first, end))

    @classmethod
    def of_rows(cls, stream: int, window: Window, rows: Array) -> Partials:
        """Partial results of single rows, wherever they stand."""
        ts = window.ts[rows]
        return cls({stream: rows}, ts, ts + window.time_span)

    def __len__(self) -> int:
        return len(next(iter(self.rows.values())))

    def values(self, stream: int, column: Array) -> Array:
        """A column of a bound stream, one entry per partial result."""
        return column[self.rows[stream] if self.adjacent is None else self.adjacent]

    def extend(self, stream: int, window: Window, which: Array, found: Array, last: bool) -> Partials:
        """Partial result `which[k]` with row `found[k]` of `stream` added; the last needs no time bounds."""
        rows = {s: positions[which] for s, positions in self.rows.items()}
        rows[stream] = found
        if last:
            return Partials(rows)
        assert self.newest is not None and self.latest is not None
        ts = window.ts[found]
        return Partials(
            rows,
            np.maximum(self.newest[which], ts),
            np.minimum(self.latest[which], ts + window.time_span),
        )

    @classmethod
    def joined(cls, parts: Sequence[Partials]) -> Partials:
        """Complete ones, one after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls({s: np.concatenate([p.rows[s] for p in parts]) for s in parts[0].rows})

    def kept(self) -> Partials:
        """Complete ones in memory of their own: what a search finds lasts only until it goes on."""
        return Partials({s: p.copy() for s, p in self.rows.items()})

    def slice(self, begin: int, end: int) -> Partials:
        """Complete ones from `begin` to `end`."""
        return Partials({s: p[begin:end] for s, p in self.rows.items()})

    def where(self, mask: Array) -> Partials:
        if mask.all():
            return self
        newest, latest = (None if b is None else b[mask] for b in (self.newest, self.latest))
        return Partials({s: p[mask] for s, p in self.rows.items()}, newest, latest)


def in_pieces(found: Iterable[Partials]) -> Iterator[Partials]:
    """The same results in fewer pieces: each takes some time to build however small it is."""
    parts: list[Partials] = []
    held = 0
    for partials in found:
        if not parts and len(partials) >= PIECE:
            yield partials
            continue
        parts.append(partials.kept())
        held += len(partials)
        if held >= PIECE:
            yield Partials.joined(parts)
            parts, held = [], 0
    if parts:
        yield Partials.joined(parts)
