"""The joins that `windrow bench deadline` puts under deadlines of parts and multiples of their exact time.

Two or three streams, a call for each second of them, windows of ten seconds. Streams do not lag behind each
other, but for the last case, where what matches lies five seconds apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.model.query import Query, Stream

Array = np.ndarray
SPAN = 10
"""Seconds of a window, and so calls until it is full."""
Columns = Callable[[np.random.Generator, Array, str, int], dict[str, Array]]


@dataclass(frozen=True)
class DeadlineCase:
    """
    Parameters
    ----------
    columns
        Draws the columns of rows at these times, of this stream, where windows hold so many rows.
    rows
        Of a call: a case with many results a row is tried with the first number only.
    """

    name: str
    aliases: str
    on: str
    columns: Columns
    rows: tuple[int, ...] = (2_500, 20_000)
    access: str | None = None
    lags: bool = False

    def query(self, **limits: Any) -> Query:
        streams = {alias: Stream("ts", f"{SPAN} s", self.access) for alias in self.aliases}
        return Query(streams, self.on, **limits)

    def calls(self, rows: int, count: int, seed: int) -> list[dict[str, pa.Table]]:
        random = np.random.default_rng(seed)
        per = rows // len(self.aliases)
        found: list[dict[str, pa.Table]] = [{} for _ in range(count)]
        for alias in self.aliases:
            for second, call in enumerate(found):
                times = np.sort(random.uniform(second, second + 1, per))
                ts = pa.array((times * 1e6).astype(np.int64), pa.timestamp("us"))
                columns = self.columns(random, times, alias, per * SPAN)
                call[alias] = pa.table({"ts": ts, **columns, "p": random.random(per)})
        return found


def _keys(part: float) -> Columns:
    """Uniform keys, as many as this multiple of the rows in a window."""
    return lambda random, times, alias, held: {"k": random.integers(0, max(1, int(part * held)), len(times))}


def _zipf(random: np.random.Generator, times: Array, alias: str, held: int) -> dict[str, Array]:
    return {"k": np.minimum(random.zipf(1.3, len(times)), 1_000_000)}


def _values(random: np.random.Generator, times: Array, alias: str, held: int) -> dict[str, Array]:
    """A row lies within 1 of two rows of the other window."""
    return {"v": random.uniform(0, held, len(times))}


def _pairs(random: np.random.Generator, times: Array, alias: str, held: int) -> dict[str, Array]:
    return {"v": random.random(len(times)), "w": random.random(len(times))}


def _rising(random: np.random.Generator, times: Array, alias: str, held: int) -> dict[str, Array]:
    """Values that rise with time, b's five seconds ahead: a row of a matches b's of five seconds ago."""
    ahead = 5.0 if alias == "b" else 0.0
    return {"v": (100 * (times + ahead) + 2 * random.standard_normal(len(times))) % 5000}


CASES = (
    DeadlineCase("equality, few matches", "ab", "a.k = b.k", _keys(10)),
    DeadlineCase("equality, many matches", "ab", "a.k = b.k", _keys(0.05)),
    DeadlineCase("Zipf keys", "ab", "a.k = b.k", _zipf, (2_500,)),
    DeadlineCase("3-way chain", "abc", "a.k = b.k and b.k = c.k", _keys(0.5)),
    DeadlineCase("band", "ab", "abs(a.v - b.v) <= 1", _values),
    DeadlineCase("theta", "ab", "a.v < b.v - 0.9 and a.w < b.w", _pairs, (2_500,)),
    DeadlineCase(
        "band by scan, lagging", "ab", "abs(a.v - b.v) <= 0.5", _rising, (2_500,), "scan", lags=True
    ),
)
