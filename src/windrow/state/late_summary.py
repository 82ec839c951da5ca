"""Summarises a directory of late rows, so that a user can choose `late`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from windrow.engine.late_rows import LATE, NEEDED, REASON, STREAM
from windrow.errors import StateError
from windrow.redaction import cause
from windrow.state.paths import plain
from windrow.state.storage import Storage, open_storage

STEPS = (
    0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800,
    604_800, 2_592_000,
)  # fmt: skip
"""Seconds that a person would choose for `late`."""


@dataclass(frozen=True)
class StreamSummary:
    stream: str
    late: int
    ahead: int
    latest_seconds: float | None
    """The `late` that would have kept all late rows; None if there are none."""
    kept: tuple[tuple[float, int], ...]
    """(`late` in seconds, how many late rows it would have kept), the same seconds for all streams."""


@dataclass(frozen=True)
class LateSummary:
    join: str
    files: int
    streams: tuple[StreamSummary, ...]


def summarise(
    root: str | Storage, progress: Callable[[int, int], None] = lambda done, of: None
) -> list[LateSummary]:
    """The late rows under `root`: the directory given as `late_rows`, or that of one join in it.

    Parameters
    ----------
    progress
        Called with the number of files read, and of all files.
    """
    storage = open_storage(root)
    joins = {e.name: e.name for e in storage.entries("") if e.is_directory}
    joins[""] = storage.url.rstrip("/").rpartition("/")[2]
    files = {d: [n for n in storage.names(d) if n.endswith(".parquet")] for d in joins}
    whole, done, found = sum(map(len, files.values())), 0, []
    for directory, names in sorted(files.items()):
        tables = []
        for name in names:
            table = _read(storage, f"{directory}/{name}".lstrip("/"))
            done += 1
            progress(done, whole)
            if table is not None:
                tables.append(table)
        if tables:
            found.append(
                LateSummary(plain(joins[directory]), len(tables), _streams(pa.concat_tables(tables)))
            )
    return found


def _read(storage: Storage, path: str) -> pa.Table | None:
    """The columns a summary needs; None if the query has removed the file meanwhile."""
    try:
        return pq.read_table(pa.BufferReader(storage.read(path)), columns=[STREAM, REASON, NEEDED])
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError) as error:
        raise StateError(
            f"{storage.at(path)} does not hold late rows as late_rows= writes them ({error}); give a "
            "directory of late rows"
        ) from cause(error)


def _streams(rows: pa.Table) -> tuple[StreamSummary, ...]:
    late = rows.filter(pc.equal(rows.column(REASON), LATE))
    steps = _steps(late.column(NEEDED).drop_null().to_numpy())
    found = []
    for stream in sorted(pc.unique(rows.column(STREAM)).to_pylist()):
        own = late.filter(pc.equal(late.column(STREAM), stream))
        needed = own.column(NEEDED).drop_null().to_numpy()
        of_stream = pc.sum(pc.equal(rows.column(STREAM), stream)).as_py()
        found.append(
            StreamSummary(
                stream,
                own.num_rows,
                of_stream - own.num_rows,
                float(needed.max()) if len(needed) else None,
                tuple((step, int((needed <= step).sum())) for step in steps),
            )
        )
    return tuple(found)


def _steps(needed: np.ndarray) -> tuple[float, ...]:
    """The part of the steps that tells rows apart: from the first step that keeps any to the first that
    keeps all."""
    if not len(needed):
        return ()
    first, last = np.searchsorted(STEPS, [needed.min(), needed.max()])
    return STEPS[first : last + 1]
