"""Finds hot keys, which slow down their partition because of their many rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from windrow.expr.join_columns import column_values
from windrow.expr.parse import references
from windrow.model.predicate import JoinColumn
from windrow.model.query import Query

SAMPLE = 1024


def hottest(
    query: Query, keys: Sequence[JoinColumn | None], arrived: Mapping[int, pa.RecordBatch]
) -> tuple[str | None, float]:
    """The most frequent key in a sample of any stream's rows, and its share of the sample. `keys` are the
    join columns that partition the rows."""
    best: tuple[str | None, float] = (None, 0.0)
    for stream, rows in arrived.items():
        key = keys[stream]
        if key is None or rows.num_rows == 0:
            continue
        # Evenly spaced and without randomness, so that a repeated micro-batch reports the same key.
        chosen = np.linspace(0, rows.num_rows - 1, min(SAMPLE, rows.num_rows)).astype(np.int64)
        columns = {name: rows.column(name[1]).take(pa.array(chosen)) for name in references(key.node)}
        values = column_values(key, columns, len(chosen), query.calls).drop_null()
        if len(values) == 0:
            continue
        counts = values.value_counts()
        most = int(np.argmax(counts.field("counts").to_numpy()))
        share = counts.field("counts")[most].as_py() / len(chosen)
        if share > best[1]:
            best = (str(counts.field("values")[most].as_py()), share)
    return best
