"""Units of rows that are admitted or dropped together when there is not time for all.

Where streams are joined by equality a unit is a set of keys, so that what is dropped on one stream would have
found nothing on the others: a part x of the units costs a part x of the work and keeps a part x of the
results, while rows dropped one by one keep x^m. In a band join a unit is a set of cells, much wider than the
band: only results across the border of two cells need both. Elsewhere it is a set of rows.

A row's unit is computed from its words or its time, whenever it is asked for, so nothing is kept with rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from windrow.kernels.admission_units import UNITS, cells_of, units_of
from windrow.model.predicate import Band, JoinColumn
from windrow.window.hash_index import mix_columns

if TYPE_CHECKING:
    from windrow.engine.join import Join

Array = np.ndarray
BANDS_PER_CELL = 32
"""About one result in so many lies across a border."""
_STEP = 0x9E3779B9

__all__ = ["UNITS", "Units"]


class Units:
    """
    Parameters
    ----------
    names
        Per stream the join columns that make up its key, or that its cells are of; nothing for streams that
        have none, whose rows are always admitted.
    width
        Of a cell; 0 where units are keys.
    """

    def __init__(self, names: Sequence[Sequence[str]], width: float = 0.0) -> None:
        self.names = names
        self._width = width
        self.by_row = not any(names)
        self.by_cell = width > 0
        self.by_key = not (self.by_row or self.by_cell)
        self.streams = [s for s, own in enumerate(names) if own or self.by_row]

    @classmethod
    def of_join(cls, join: Join) -> Units:
        """Keys of as many streams as possible; else cells; else rows."""
        count = len(join.windows)
        classes = [_first_words(members) for members in join.bound.classes]
        widest = max(classes, key=len, default={})
        if len(widest) > 1:
            shared = [c for c in classes if c.keys() >= widest.keys()]
            return cls([[c[s].name for c in shared] if s in widest else [] for s in range(count)])
        bands = [a for a in join.bound.predicate.atoms if isinstance(a, Band) and a.epsilon > 0]
        linked, reach = _linked(bands)
        if len(linked) > 1:
            own = [[linked[s].name] if s in linked else [] for s in range(count)]
            return cls(own, BANDS_PER_CELL * reach)
        return cls([[]] * count)

    def of(self, stream: int, ts: Array, columns: Mapping[str, Array]) -> Array:
        """The unit of each row of one of `streams`; `columns` has the join columns `names[stream]`."""
        if self.by_row:
            return units_of(ts * 8 + stream)
        own = [columns[name] for name in self.names[stream]]
        return cells_of(own[0], self._width) if self._width else units_of(mix_columns(own))


def _first_words(members: Sequence[JoinColumn]) -> dict[int, JoinColumn]:
    """A word of each stream; further words of a stream must be equal to it anyway."""
    found: dict[int, JoinColumn] = {}
    for word in members:
        found.setdefault(word.stream, word)
    return found


def _linked(bands: Sequence[Band]) -> tuple[dict[int, JoinColumn], float]:
    """The streams whose words lie in bands around each other, as many as possible, and the widest band."""
    groups: list[tuple[set[JoinColumn], float]] = []
    for band in bands:
        words, reach = set(band.words), float(band.epsilon)
        apart = []
        for others, wide in groups:
            if words & others:
                words, reach = words | others, max(reach, wide)
            else:
                apart.append((others, wide))
        groups = [*apart, (words, reach)]
    found: tuple[dict[int, JoinColumn], float] = {}, 0.0
    for words, reach in groups:
        first = _first_words(sorted(words, key=lambda w: (w.stream, w.sql)))
        if len(first) == len(words) > len(found[0]):
            found = first, reach
    return found
