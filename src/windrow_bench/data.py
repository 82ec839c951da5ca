"""Generated streams for benchmarks: uniform keys and times, a payload text of 20 characters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

SECOND = 1_000_000
_TEXTS = 100_000


def streams(rows: int, keys: int, count: int, seconds: int, seed: int = 0) -> dict[str, pa.Table]:
    """`count` streams a, b, c, ... of `rows` rows altogether, in order of time: key `k` and text `p`."""
    random = np.random.default_rng(seed)
    texts = pa.array([f"payload-{i:012d}" for i in range(_TEXTS)])
    found = {}
    for stream in range(count):
        size = rows // count
        times = np.sort(random.integers(0, seconds * SECOND, size))
        found["abcdefgh"[stream]] = pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us")),
                "k": random.integers(0, keys, size),
                "p": texts.take(pa.array(random.integers(0, _TEXTS, size))),
            }
        ).combine_chunks()
    return found


def with_numbers(tables: dict[str, pa.Table], highest: float, seed: int = 1) -> dict[str, pa.Table]:
    """The same streams with a float column `x`, uniform below `highest`."""
    random = np.random.default_rng(seed)
    return {
        alias: t.append_column("x", pa.array(random.random(t.num_rows) * highest))
        for alias, t in tables.items()
    }


def times_of(table: pa.Table) -> np.ndarray:
    return table["ts"].combine_chunks().view(pa.int64()).to_numpy()


def batches(tables: dict[str, pa.Table], size: int, seconds: int) -> list[dict[str, pa.Table]]:
    """The streams cut at the same times, about `size` rows a batch, each batch in memory of its own."""
    total = sum(t.num_rows for t in tables.values())
    edges = np.linspace(0, seconds * SECOND, max(2, total // size + 1))
    cuts = {alias: np.searchsorted(times_of(t), edges) for alias, t in tables.items()}
    return list(_cut(tables, cuts, len(edges) - 1))


def _cut(
    tables: dict[str, pa.Table], cuts: dict[str, np.ndarray], count: int
) -> Iterator[dict[str, pa.Table]]:
    for k in range(count):
        yield {
            alias: pa.concat_tables([t.slice(a, b - a), t.slice(0, 0)]).combine_chunks()
            for alias, t in tables.items()
            for a, b in [(cuts[alias][k], cuts[alias][k + 1])]
        }
