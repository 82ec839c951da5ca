"""Units: sets of rows that are admitted or dropped together when time is short.

In an equijoin a unit is a set of keys. Its rows match only each other, so a fraction x of the units costs a
fraction x of the work and keeps a fraction x of the results; dropping single rows would keep only x^m. In a
band join a unit is a set of cells much wider than the band, and only results that cross a cell border need
two units. In any other join a unit is a set of rows.

A row's unit is computed from its join columns or its time when needed; nothing is stored with the row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from windrow.kernels.admission_units import UNITS, cells_of, units_of
from windrow.model.predicate import Atom, Band, Class, JoinColumn
from windrow.window.hash_index import mix_columns
from windrow.window.window_store import WindowStore

Array = np.ndarray
BANDS_PER_CELL = 32
"""Cell width in bands; about one result in 32 crosses a cell border."""

__all__ = ["UNITS", "Units"]


class Units:
    """Maps rows to admission units.

    Parameters
    ----------
    names
        Per stream, the join columns of its key or of its cells. Empty for a stream without units, whose
        rows are always admitted.
    width
        Width of a cell; 0 if units are keys.
    """

    def __init__(self, names: Sequence[Sequence[str]], width: float = 0.0) -> None:
        self.names = names
        self._width = width
        self.by_row = not any(names)
        self.by_cell = width > 0
        self.by_key = not (self.by_row or self.by_cell)
        self.streams = [s for s, own in enumerate(names) if own or self.by_row]

    @classmethod
    def of_predicate(cls, streams: int, atoms: Sequence[Atom], classes: Sequence[Class]) -> Units:
        """Use keys that cover as many streams as possible; failing that cells, failing that rows."""
        firsts = [_first_columns(members) for members in classes]
        widest = max(firsts, key=len, default={})
        if len(widest) > 1:
            shared = [c for c in firsts if c.keys() >= widest.keys()]
            return cls([[c[s].name for c in shared] if s in widest else [] for s in range(streams)])
        linked, reach = _linked([a for a in atoms if isinstance(a, Band) and a.epsilon > 0])
        if len(linked) > 1:
            own = [[linked[s].name] if s in linked else [] for s in range(streams)]
            return cls(own, BANDS_PER_CELL * reach)
        return cls([[]] * streams)

    def of(self, stream: int, ts: Array, columns: Mapping[str, Array]) -> Array:
        """Unit of each row of a stream in `streams`; `columns` holds the join columns `names[stream]`."""
        if self.by_row:
            return units_of(ts * 8 + stream)
        own = [columns[name] for name in self.names[stream]]
        return cells_of(own[0], self._width) if self._width else units_of(mix_columns(own))

    def in_window(self, stream: int, window: WindowStore, rows: Array | slice) -> Array:
        """Unit of each row at these positions."""
        if self.by_row:
            return units_of(window.ts[rows] * 8 + stream)
        own = [window.column(name)[rows] for name in self.names[stream]]
        return cells_of(own[0], self._width) if self._width else units_of(mix_columns(own))


def _first_columns(members: Sequence[JoinColumn]) -> dict[int, JoinColumn]:
    """One join column per stream; the others of that stream are equal to it."""
    found: dict[int, JoinColumn] = {}
    for column in members:
        found.setdefault(column.stream, column)
    return found


def _linked(bands: Sequence[Band]) -> tuple[dict[int, JoinColumn], float]:
    """Largest set of streams whose columns are linked by bands, and the widest of these bands."""
    groups: list[tuple[set[JoinColumn], float]] = []
    for band in bands:
        columns, reach = set(band.columns), float(band.epsilon)
        apart = []
        for others, wide in groups:
            if columns & others:
                columns, reach = columns | others, max(reach, wide)
            else:
                apart.append((others, wide))
        groups = [*apart, (columns, reach)]
    found: tuple[dict[int, JoinColumn], float] = {}, 0.0
    for columns, reach in groups:
        first = _first_columns(sorted(columns, key=lambda w: (w.stream, w.sql)))
        if len(first) == len(columns) > len(found[0]):
            found = first, reach
    return found
