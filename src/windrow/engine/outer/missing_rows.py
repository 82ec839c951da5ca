"""Missing rows: combinations hold `MISSING` in place of a row's position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windrow.window.window_store import WindowStore

Array = np.ndarray
MISSING = -1


def gather_or_null(window: WindowStore, positions: Array, names: Sequence[str]) -> list[pa.Array]:
    """Payload columns of the rows at `positions`, null where a row is missing."""
    there = positions != MISSING
    if there.all():
        return window.gather(positions, names)
    if not there.any():
        return [pa.nulls(len(positions), window.schema.field(name).type) for name in names]
    index = pa.array(np.cumsum(there) - 1, mask=~there)
    return [column.take(index) for column in window.gather(positions[there], names)]


def values_or(column: Array, positions: Array, default: int) -> Array:
    """Values of the rows at `positions`, `default` where a row is missing."""
    there = positions != MISSING
    if there.all():
        return column[positions]
    found = np.full(len(positions), default, column.dtype)
    found[there] = column[positions[there]]
    return found


def structs(window: WindowStore, positions: Array, kind: pa.StructType) -> pa.Array:
    """Whole rows as structs, null where a row is missing."""
    there = positions != MISSING
    whole = bool(there.all())
    if not whole and not there.any():
        return pa.nulls(len(positions), kind)
    columns = window.gather(positions if whole else positions[there])
    found = (
        pa.StructArray.from_arrays(columns, fields=list(kind))
        if columns
        else pa.array([{}] * int(there.sum()), kind)
    )
    return found if whole else found.take(pa.array(np.cumsum(there) - 1, mask=~there))
