"""A harvest: the parts of the windows that an arriving row probes when there is no time for all.

A window is cut into logical basic windows by age relative to the arriving row: the k-th (from 0) holds the
rows older than it by more than `length * k` and at most `length * (k + 1)`; the last one holds the rest of
the window (GrubJoin s. 4.1). Rows younger than a late arriving row belong to the first. For each direction
(arriving stream) and hop (window in its order) a harvest has a ranking of the basic windows and the number of
them to probe, best first; the last of these may be probed in part.

Lengths and sizes are in the unit of the window: seconds, or rows of the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf
from typing import Any

from windrow.model.stateful import Stateful

_WHOLE = 1e-9
"""Tolerance for a whole number of basic windows."""


@dataclass(frozen=True)
class BasicWindows(Stateful):
    """How the windows of all streams are cut."""

    sizes: tuple[float, ...]
    """Size of each stream's window."""
    lengths: tuple[float, ...]
    """Length of its basic windows; the last one is shorter if they do not divide the window."""

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Number of logical basic windows per stream (n_i)."""
        return tuple(ceil(s / b - _WHOLE) for s, b in zip(self.sizes, self.lengths, strict=True))

    @classmethod
    def equal(cls, sizes: Sequence[float], count: int) -> BasicWindows:
        """The same number of basic windows for each stream."""
        return cls(tuple(sizes), tuple(size / count for size in sizes))


@dataclass(frozen=True)
class HarvestHop(Stateful):
    """The part of one window that one direction probes."""

    stream: int
    """Stream of the window."""
    ranking: tuple[int, ...]
    """All its logical basic windows, from 0 for the youngest, best first (s_ij)."""
    used: float
    """Number of them to probe, best first; fractional if the last is probed in part."""
    found: float
    """Expected fraction of the window's matches found there: the yield factor (P_ij)."""

    def __post_init__(self) -> None:
        nearest = round(self.used)
        if abs(self.used - nearest) < _WHOLE:
            object.__setattr__(self, "used", float(nearest))

    @property
    def fraction(self) -> float:
        """The harvest fraction (z_ij)."""
        return self.used / len(self.ranking)

    @property
    def whole(self) -> bool:
        return self.used == len(self.ranking)

    @property
    def probed(self) -> tuple[int, ...]:
        """The basic windows to probe, best first; the last possibly in part."""
        return self.ranking[: ceil(self.used)]

    @cached_property
    def pieces(self) -> tuple[tuple[float, float], ...]:
        """Disjoint ascending ages to probe, in basic windows: (from, to]. The last may be used in part."""
        taken: list[tuple[float, float]] = []
        part = self.used - int(self.used)
        for rank, k in enumerate(self.probed):
            if part and rank == int(self.used):
                # Next to the better neighbour: scores change gradually, so most matches lie on that side.
                young = self._rank(k - 1) < self._rank(k + 1)
                taken.append((float(k), k + part) if young else (k + 1 - part, k + 1.0))
            else:
                taken.append((float(k), k + 1.0))
        merged: list[tuple[float, float]] = []
        for low, high in sorted(taken):
            if merged and merged[-1][1] >= low:
                merged[-1] = (merged[-1][0], high)
            else:
                merged.append((low, high))
        return tuple(merged)

    def ages(self, windows: BasicWindows) -> tuple[tuple[float, float], ...]:
        """Ages to probe in the unit of the window, (from, to]; from -inf if the youngest are included."""
        size, length = windows.sizes[self.stream], windows.lengths[self.stream]
        return tuple((low * length if low else -inf, min(high * length, size)) for low, high in self.pieces)

    def _rank(self, k: int) -> float:
        return self.ranking.index(k) if 0 <= k < len(self.ranking) else inf

    def picture(self) -> str:
        """A sign per basic window, youngest first: ● probed, ◐ in part, ○ not."""
        signs = ["○"] * len(self.ranking)
        for k in self.probed:
            signs[k] = "●"
        if self.used != int(self.used):
            signs[self.probed[-1]] = "◐"
        return "".join(signs)


@dataclass(frozen=True)
class HarvestDirection(Stateful):
    """The parts of windows that arriving rows of one stream probe, in order."""

    arriving: int
    hops: tuple[HarvestHop, ...]
    cost: float = 0.0
    """Expected cost per second, in the unit of the model: usually rows compared."""
    output: float = 0.0
    """Expected results per second."""

    @property
    def idle(self) -> bool:
        """Whether it finds nothing, because one of its windows is not probed at all."""
        return any(hop.used == 0 for hop in self.hops)

    @property
    def whole(self) -> bool:
        return all(hop.whole for hop in self.hops)


@dataclass(frozen=True)
class Harvest(Stateful):
    """The parts to probe for each direction and window, with their expected cost and output."""

    windows: BasicWindows
    """How they are cut."""
    directions: tuple[HarvestDirection, ...]
    """One per stream, in the order of the streams."""
    throttle: float = 1.0
    """The throttle fraction (z)."""
    full_cost: float = 0.0
    full_output: float = 0.0
    """Expected per second when probing everything; 0 if unknown."""
    base: float = 0.0
    """Cost per second that no harvest avoids, included in `full_cost`."""
    method: str = "everything"
    """How the harvest was found."""

    @cached_property
    def everything(self) -> bool:
        """Whether nothing is shed."""
        return all(direction.whole for direction in self.directions)

    @property
    def cost(self) -> float:
        """Expected cost per second."""
        return self.base + sum(direction.cost for direction in self.directions)

    @property
    def output(self) -> float:
        """Expected results per second."""
        return sum(direction.output for direction in self.directions)

    @property
    def recall(self) -> float:
        """Expected fraction of all results found; 1 if no result is expected."""
        return self.output / self.full_output if self.full_output > 0 else 1.0

    def text(self, aliases: Sequence[str]) -> str:
        """A line per direction and window, as in GrubJoin's Figure 4, youngest rows at the left."""
        lines = [
            f"Harvest for a throttle of {self.throttle:.3g} ({self.method}): "
            f"{self.cost / self.full_cost if self.full_cost > 0 else 1.0:.1%} of the cost, "
            f"{self.recall:.1%} of the results expected"
        ]
        wide = max(len(alias) for alias in aliases)
        for direction in self.directions:
            shown = "nothing is probed" if direction.idle else f"{direction.output:.3g} results/s"
            lines.append(f"  when {aliases[direction.arriving]} arrives: {shown}")
            lines.extend(
                f"    {aliases[hop.stream]:<{wide}} {hop.picture()}  z = {hop.fraction:.2f}, "
                f"{hop.found:.1%} of the matches"
                for hop in direction.hops
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON: the probed basic windows per direction and window, youngest first, as the papers
        draw them."""
        return {
            "throttle": self.throttle,
            "recall": self.recall,
            "method": self.method,
            "sizes": list(self.windows.sizes),
            "counts": list(self.windows.counts),
            "directions": [
                {
                    "output": direction.output,
                    "hops": [
                        {
                            "stream": hop.stream,
                            "best": list(hop.probed),
                            "pieces": [list(piece) for piece in hop.pieces],
                            "fraction": hop.fraction,
                            "found": hop.found,
                        }
                        for hop in direction.hops
                    ],
                }
                for direction in self.directions
            ],
        }
