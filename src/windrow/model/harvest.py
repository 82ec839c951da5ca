"""A harvest: which parts of the windows an arriving row is compared with when there is no time for all.

A window is cut into logical basic windows by age, counted from the arriving row: the k-th (from 0) holds the
rows at most `length * (k + 1)` and more than `length * k` older than it, the last one what is left of the
window (GrubJoin s. 4.1). Rows that are younger than the arriving one, which comes late, belong to the first.
For each direction (arriving stream) and hop (window in its order) a harvest tells the ranking of the basic
windows, and how many of the first in it are looked at; of the last of these perhaps only a part.

Lengths and sizes are in the unit in which the window is measured: seconds, or rows of the stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, inf
from typing import Any

from windrow.errors import QueryError
from windrow.model.stateful import Stateful

_WHOLE = 1e-9
"""A number of basic windows this near to a whole one is that one."""


@dataclass(frozen=True)
class BasicWindows(Stateful):
    """How the windows of all streams are cut.

    Parameters
    ----------
    sizes
        Of the window of each stream.
    lengths
        Of its basic windows; the last one is shorter where they do not divide the window.
    """

    sizes: tuple[float, ...]
    lengths: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.lengths):
            raise QueryError(
                f"basic windows: one length for each window, got {len(self.lengths)} for {len(self.sizes)}"
            )
        for stream, (size, length) in enumerate(zip(self.sizes, self.lengths, strict=True)):
            if not 0 < size < inf:
                raise QueryError(f"basic windows of stream {stream}: the window must be positive, got {size}")
            if not 0 < length <= size:
                raise QueryError(
                    f"basic windows of stream {stream}: a length above 0 and up to the window's "
                    f"{size:g}, got {length:g}"
                )

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Logical basic windows of each stream (n_i)."""
        return tuple(ceil(s / b - _WHOLE) for s, b in zip(self.sizes, self.lengths, strict=True))

    @classmethod
    def equal(cls, sizes: Sequence[float], count: int) -> BasicWindows:
        """The same number for each stream."""
        if count < 1:
            raise QueryError(f"basic windows: a number from 1, got {count}")
        return cls(tuple(sizes), tuple(size / count for size in sizes))


@dataclass(frozen=True)
class HarvestHop:
    """What one direction looks at in one window.

    Parameters
    ----------
    stream
        Whose window.
    ranking
        All its logical basic windows, from 0 for the youngest, best first (s_ij).
    used
        How many of them are looked at, from the first in the ranking; not whole if the last is used in part.
    found
        The part of the matches in the window that is expected there: the yield factor (P_ij).
    """

    stream: int
    ranking: tuple[int, ...]
    used: float
    found: float

    def __post_init__(self) -> None:
        if sorted(self.ranking) != list(range(len(self.ranking))) or not self.ranking:
            raise QueryError(
                f"harvest of stream {self.stream}: a ranking names each basic window once, got {self.ranking}"
            )
        if not 0 <= self.used <= len(self.ranking):
            raise QueryError(
                f"harvest of stream {self.stream}: 0 to {len(self.ranking)} basic windows, got {self.used}"
            )
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
    def looked_at(self) -> tuple[int, ...]:
        """The basic windows that are looked at, best first; the last perhaps in part."""
        return self.ranking[: ceil(self.used)]

    @cached_property
    def pieces(self) -> tuple[tuple[float, float], ...]:
        """Ages that are looked at, ascending and apart, in basic windows: (from, to].

        Of a basic window used in part it is the end beside its better neighbour: scores change
        gradually, so the better neighbour tells where inside it most is found.
        """
        taken: list[tuple[float, float]] = []
        part = self.used - int(self.used)
        for place, k in enumerate(self.looked_at):
            if part and place == int(self.used):
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
        """Ages that are looked at in the unit of the window, (from, to]; from -inf where the youngest are."""
        size, length = windows.sizes[self.stream], windows.lengths[self.stream]
        return tuple((low * length if low else -inf, min(high * length, size)) for low, high in self.pieces)

    def _rank(self, k: int) -> float:
        return self.ranking.index(k) if 0 <= k < len(self.ranking) else inf

    def picture(self) -> str:
        """A sign for each basic window, youngest first: ● looked at, ◐ in part, ○ not."""
        signs = ["○"] * len(self.ranking)
        for k in self.looked_at:
            signs[k] = "●"
        if self.used != int(self.used):
            signs[self.looked_at[-1]] = "◐"
        return "".join(signs)


@dataclass(frozen=True)
class HarvestDirection:
    """What arriving rows of one stream are compared with, window by window in their order."""

    arriving: int
    hops: tuple[HarvestHop, ...]
    cost: float = 0.0
    """Expected per second, in the unit of the model: rows compared, as a rule."""
    output: float = 0.0
    """Expected results per second."""

    @property
    def idle(self) -> bool:
        """Whether it finds nothing, because one of its windows is not looked at at all."""
        return any(hop.used == 0 for hop in self.hops)

    @property
    def whole(self) -> bool:
        return all(hop.whole for hop in self.hops)


@dataclass(frozen=True)
class Harvest:
    """For each direction and window, what is looked at; with what that is expected to cost and to find.

    Parameters
    ----------
    windows
        How they are cut.
    directions
        One for each stream, in the order of the streams.
    throttle
        The part of the full cost that may be spent (z).
    full_cost, full_output
        Expected per second if everything were looked at; 0 where not known.
    base
        Cost per second that no harvest avoids, part of `full_cost`.
    method
        How the harvest was found.
    """

    windows: BasicWindows
    directions: tuple[HarvestDirection, ...]
    throttle: float = 1.0
    full_cost: float = 0.0
    full_output: float = 0.0
    base: float = 0.0
    method: str = "everything"
    everything: bool = field(init=False)
    """Whether nothing is shed."""

    def __post_init__(self) -> None:
        for stream, direction in enumerate(self.directions):
            if direction.arriving != stream:
                raise QueryError(f"harvest: direction {stream} is of stream {direction.arriving}")
            for hop in direction.hops:
                if len(hop.ranking) != self.windows.counts[hop.stream]:
                    raise QueryError(
                        f"harvest: stream {hop.stream} has {self.windows.counts[hop.stream]} basic windows, "
                        f"direction {stream} ranks {len(hop.ranking)}"
                    )
        object.__setattr__(self, "everything", all(direction.whole for direction in self.directions))

    @classmethod
    def of_everything(cls, windows: BasicWindows, orders: Sequence[Sequence[int]]) -> Harvest:
        """Nothing shed; the orders name the windows of each direction, without its own stream."""
        directions = tuple(
            HarvestDirection(
                arriving,
                tuple(HarvestHop(s, tuple(range(n := windows.counts[s])), float(n), 1.0) for s in order),
            )
            for arriving, order in enumerate(orders)
        )
        return cls(windows, directions)

    @property
    def cost(self) -> float:
        """Expected per second."""
        return self.base + sum(direction.cost for direction in self.directions)

    @property
    def output(self) -> float:
        """Expected results per second."""
        return sum(direction.output for direction in self.directions)

    @property
    def recall(self) -> float:
        """The part of all results it is expected to find; 1 where no result is expected at all."""
        return self.output / self.full_output if self.full_output > 0 else 1.0

    def ages(self, arriving: int, hop: int) -> tuple[tuple[float, float], ...]:
        """Ages looked at in the hop's window, in its unit, as `HarvestHop.ages`."""
        return self.directions[arriving].hops[hop].ages(self.windows)

    def __str__(self) -> str:
        return self.text([f"S{stream + 1}" for stream in range(len(self.directions))])

    def text(self, aliases: Sequence[str]) -> str:
        """A line for each direction and window, as in GrubJoin's Figure 4, youngest rows at the left."""
        lines = [
            f"Harvest for a throttle of {self.throttle:.3g} ({self.method}): "
            f"{self.cost / self.full_cost if self.full_cost > 0 else 1.0:.1%} of the cost, "
            f"{self.recall:.1%} of the results expected"
        ]
        wide = max(len(alias) for alias in aliases)
        for direction in self.directions:
            told = "nothing is looked at" if direction.idle else f"{direction.output:.3g} results/s"
            lines.append(f"  when {aliases[direction.arriving]} arrives: {told}")
            lines.extend(
                f"    {aliases[hop.stream]:<{wide}} {hop.picture()}  z = {hop.fraction:.2f}, "
                f"{hop.found:.1%} of the matches"
                for hop in direction.hops
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON can hold."""
        return {
            "sizes": list(self.windows.sizes),
            "lengths": list(self.windows.lengths),
            "throttle": self.throttle,
            "full_cost": self.full_cost,
            "full_output": self.full_output,
            "base": self.base,
            "method": self.method,
            "directions": [
                {
                    "cost": direction.cost,
                    "output": direction.output,
                    "hops": [
                        {"stream": h.stream, "ranking": list(h.ranking), "used": h.used, "found": h.found}
                        for h in direction.hops
                    ],
                }
                for direction in self.directions
            ],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Harvest:
        """What `to_dict` gave."""
        directions = tuple(
            HarvestDirection(
                arriving,
                tuple(
                    HarvestHop(int(h["stream"]), tuple(h["ranking"]), float(h["used"]), float(h["found"]))
                    for h in each["hops"]
                ),
                float(each["cost"]),
                float(each["output"]),
            )
            for arriving, each in enumerate(plain["directions"])
        )
        windows = BasicWindows(tuple(plain["sizes"]), tuple(plain["lengths"]))
        told = {name: plain[name] for name in ("throttle", "full_cost", "full_output", "base", "method")}
        return cls(windows, directions, **told)
