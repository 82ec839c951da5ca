"""Rows with event times, counted in seconds from one fixed instant, and how they are handed over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.model.units import SECOND
from windrow.testing.auctions import START, instants

Array = np.ndarray
_OFFSET = int(START.timestamp()) * SECOND


def timed(times: Array, name: str = "ts", **columns: Any) -> pa.Table:
    """Rows at these seconds, in their order."""
    return pa.table({name: instants((np.asarray(times) * SECOND).round().astype(np.int64)), **columns})


def since_start(ts: pa.ChunkedArray | pa.Array) -> Array:
    """Timestamps as seconds."""
    return (ts.cast(pa.int64()).to_numpy() - _OFFSET) / SECOND


def seconds(rows: pa.Table, name: str = "ts") -> Array:
    return since_start(rows[name])


def handed_over(
    tables: Mapping[str, pa.Table], bounds: Sequence[float] | Array, names: Mapping[str, str] | None = None
) -> Iterator[dict[str, pa.Table]]:
    """The rows between each two bounds, in seconds: the first included, the second not. `names` are the time
    columns, by alias; "ts" otherwise."""
    micros = (np.asarray(bounds) * SECOND).round().astype(np.int64) + _OFFSET
    cuts = {
        alias: np.searchsorted(table[(names or {}).get(alias, "ts")].cast(pa.int64()).to_numpy(), micros)
        for alias, table in tables.items()
    }
    for k in range(len(micros) - 1):
        yield {a: tables[a].slice(int(at[k]), int(at[k + 1] - at[k])) for a, at in cuts.items()}
