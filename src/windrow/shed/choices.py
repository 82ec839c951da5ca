"""Which choices ghosts hang on: of each ghost its slot, and its unit, one of its own or that of its key.

Keys have places on a circle of length 1. A span of the circle begins at the turn it has made so far; a key in
the span is chosen, and the rows of it that are given up then become ghosts each with a chance of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from windrow.kernels import haunting

Array = np.ndarray
NOBODY = -1.0
NONE = np.empty(0, np.int64)


class Choices:
    def __init__(self) -> None:
        self.turn = 0.0
        """How far the circle has turned."""
        self._slots: dict[str, Array] = {
            "alone": np.ones(0), "begin": np.ones(0), "end": np.ones(0), "place": np.ones(0), "unit": NONE,
        }  # fmt: skip
        """By slot, see `haunting.weigh`; the place of the key, and the number of the unit."""
        self._free = NONE
        self._key = np.empty(0)
        """By unit, the place of the key whose ghosts share it; `NOBODY`: a ghost of its own, or none."""
        self._until = np.empty(0)
        """By unit, the turn at which the visit of its key is over."""
        self._spare = NONE
        """Units that nobody uses."""

    @property
    def count(self) -> int:
        """Ghosts at present."""
        return len(self._slots["unit"]) - len(self._free)

    @property
    def units(self) -> int:
        """Numbers of units are below this."""
        return len(self._key)

    def inside(self, place: Array, span: Array) -> Array:
        """Whether keys at these places are chosen, by spans of this length."""
        return (place - self.turn) % 1.0 < span

    def chances(self, slots: Array) -> Array:
        """Of the choices that ghosts hang on."""
        end = self._slots["end"][slots]
        span = np.where(end < np.inf, end - self._slots["begin"][slots], 1.0)
        return span / self._slots["alone"][slots]

    def units_of(self, slots: Array) -> Array:
        return self._slots["unit"][slots]

    def weigh(self, which: Array, slots: Array, results: int) -> tuple[Array, Array, Array]:
        """Of each result its weight and depth; of each of its ghosts whether it is counted."""
        weights, depth, counts = np.ones(results), np.zeros(results, np.int64), np.empty(len(which), bool)
        if len(which):
            s = self._slots
            haunting.weigh(which, slots, s["alone"], s["begin"], s["end"], weights, depth, counts)
        return weights, depth, counts

    # -- coming and going ---------------------------------------------------------------------------

    def enter(self, alone: Array, span: Array, place: Array) -> tuple[Array, Array]:
        """New ghosts: of each the chance by itself, the span of its key (1: it has none) and the key's place.
        Returns their slots, and the units that are new."""
        if len(alone) > len(self._free):
            size = len(self._slots["unit"])
            more = max(64, size, len(alone))
            self._slots = {name: _grown(each, more) for name, each in self._slots.items()}
            self._free = np.concatenate([self._free, np.arange(size, size + more)])
        slots, self._free = self._free[: len(alone)], self._free[len(alone) :]
        with_key = span < 1
        units, fresh = self._units(np.where(with_key, place, NOBODY), self.turn + span)
        new = {
            "alone": 1 / alone,
            "begin": np.full(len(alone), self.turn),
            "end": np.where(with_key, self.turn + span, np.inf),
            "place": self.turn + (place - self.turn) % 1.0,
            "unit": units,
        }
        for name, values in new.items():
            self._slots[name][slots] = values
        return slots, fresh

    def halve(self, slots: Array, rng: np.random.Generator) -> Array:
        """Each of these ghosts stays with chance 1/2, with its key or by itself, and then counts double;
        returns which do."""
        s = self._slots
        with_key = s["end"][slots] < np.inf
        middle = (s["begin"][slots] + s["end"][slots]) / 2
        stays: Array = np.where(with_key, s["place"][slots] < middle, rng.random(len(slots)) < 0.5)
        s["end"][slots] = np.where(with_key, middle, np.inf)
        s["alone"][slots] *= np.where(with_key, 1.0, 2.0)
        self._free = np.concatenate([self._free, slots[~stays]])
        return stays

    def tidy(self, held: Array) -> None:
        """Only these slots are held: others are free again, and so are units whose visit is over."""
        free = np.ones(len(self._slots["unit"]), bool)
        free[held] = False
        self._free = np.flatnonzero(free)
        used = self._until > self.turn
        used[self._slots["unit"][held]] = True
        self._key[~used] = self._until[~used] = NOBODY
        self._spare = np.flatnonzero(~used)

    def _units(self, keys: Array, until: Array) -> tuple[Array, Array]:
        """The unit of each new ghost, that of its key as long as its visit lasts or one of its own; and which
        units are new."""
        with_key = keys != NOBODY
        if not with_key.any():
            alone = self._take(len(keys))
            return alone, alone
        names, of = np.unique(keys[with_key], return_inverse=True)
        order = np.argsort(self._key)
        known = self._key[order]
        at = np.searchsorted(known, names)
        old = at < len(known)
        old[old] = known[at[old]] == names[old]
        units = np.empty(len(names), np.int64)
        units[old] = order[at[old]]
        single = len(keys) - len(of)
        fresh = self._take(single + len(names) - int(old.sum()))
        alone, units[~old] = fresh[:single], fresh[single:]
        self._key[units] = names
        np.maximum.at(self._until, units[of], until[with_key])
        found = np.empty(len(keys), np.int64)
        found[with_key], found[~with_key] = units[of], alone
        return found, fresh

    def _take(self, count: int) -> Array:
        """So many units that nobody uses."""
        if count > len(self._spare):
            size = len(self._key)
            more = max(64, size, count)
            self._key, self._until = _grown(self._key, more, NOBODY), _grown(self._until, more, NOBODY)
            self._spare = np.concatenate([self._spare, np.arange(size, size + more)])
        taken, self._spare = self._spare[:count], self._spare[count:]
        return taken

    # -- over a restart -----------------------------------------------------------------------------

    def save(self) -> tuple[float, list[pa.RecordBatch]]:
        slots = pa.record_batch({**self._slots, "free": _mask(self._free, len(self._slots["unit"]))})
        spare = _mask(self._spare, len(self._key))
        return self.turn, [slots, pa.record_batch({"key": self._key, "until": self._until, "free": spare})]

    def load(self, turn: float, slots: pa.RecordBatch, units: pa.RecordBatch) -> None:
        self.turn = turn
        self._slots = {name: slots.column(name).to_numpy().copy() for name in self._slots}
        self._key, self._until = (units.column(name).to_numpy().copy() for name in ("key", "until"))
        # Were the free ones taken for used, there would be as many again after each restart.
        free = [part.column("free").to_numpy(zero_copy_only=False) for part in (slots, units)]
        self._free, self._spare = (np.flatnonzero(each) for each in free)


def _mask(places: Array, size: int) -> Array:
    mask = np.zeros(size, bool)
    mask[places] = True
    return mask


def _grown(values: Array, more: int, by: Any = 0) -> Array:
    return np.concatenate([values, np.full(more, by, values.dtype)])
