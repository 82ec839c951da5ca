"""What is joined by whom, and the files of it: a folder per stream, a file per batch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from windrow_bench.data import streams
from windrow_bench.peers.joins import JOINS, PeerJoin
from windrow_bench.peers.nexmark import nexmark

BATCHES, WARM_UP = 22, 16
"""How many batches there are, and how many of them do not count, since the JVM is still compiling."""
BATCH_SECONDS = 20
TWO = ("duckdb", "spark", "spark-rocksdb", "flink", "windrow", "windrow-files")
THREE = ("duckdb", "spark", "spark-rocksdb", "flink", "flink-multi", "windrow", "windrow-files")
SOURCES = {"q8": ("persons", "auctions"), "q9": ("auctions", "bids"), "q20": ("auctions", "bids")}


@dataclass(frozen=True)
class PeerCase:
    """
    Parameters
    ----------
    rows
        Of all streams in a batch; of Nexmark's, events.
    keys
        Values of each join column.
    seconds
        Event time in a batch.
    """

    name: str
    join: str
    rows: int
    keys: int = 0
    seconds: int = BATCH_SECONDS
    sides: tuple[str, ...] = TWO

    @property
    def described(self) -> PeerJoin:
        return JOINS[self.join]

    def batch(self, number: int) -> dict[str, pa.Table]:
        if self.join in SOURCES:
            made = nexmark(number * self.rows, self.rows, self.seconds, seed=0)
            a, b = (made[name] for name in SOURCES[self.join])
            if self.join == "q8":
                b = b.set_column(b.column_names.index("k"), "k", b["seller"])
            return {"a": a, "b": b}
        aliases = self.described.aliases
        made = streams(self.rows, self.keys, len(aliases), self.seconds, seed=number)
        random = np.random.default_rng([number, 1])
        return {alias: self._with_columns(made[alias], number, random) for alias in aliases}

    def _with_columns(self, table: pa.Table, number: int, random: np.random.Generator) -> pa.Table:
        us = table["ts"].cast(pa.int64()).to_numpy() // 1000 * 1000 + number * self.seconds * 1_000_000
        table = table.set_column(0, "ts", pa.array(us, pa.timestamp("us", "UTC")))
        for name in "ij" if self.join == "triangle" else "":
            table = table.append_column(name, pa.array(random.integers(0, self.keys, table.num_rows)))
        return table.append_column("us", pa.array(us))


def cases(rows: int) -> list[PeerCase]:
    """At the usual size a batch has 400,000 rows; the same streams in batches of six times as many cover six
    times the event time, so that windows hold the same rows."""
    batch = max(4_000, rows // 18)
    some, less = 3 * batch // 8, 9 * batch // 32
    return [
        PeerCase(f"2-way, few matches, {batch:,} rows a batch", "key", batch, 25 * batch),
        PeerCase(
            f"2-way, few matches, {6 * batch:,} rows a batch", "key", 6 * batch, 25 * batch, 6 * BATCH_SECONDS
        ),
        PeerCase(f"2-way, dense, {batch:,} rows a batch", "key", batch, max(1, 3 * batch // 8)),
        PeerCase(f"3-way, one key, {some:,} rows a batch", "three", some, max(1, batch // 4), sides=THREE),
        # Whatever two streams are joined first, their results are many and those of all three few.
        PeerCase(f"3-way, triangle, {less:,} rows a batch", "triangle", less, max(1, less // 20)),
        PeerCase(f"Nexmark q8, {batch:,} events a batch", "q8", batch),
        PeerCase(f"Nexmark q9, {batch:,} events a batch", "q9", batch),
        PeerCase(f"Nexmark q20, {batch:,} events a batch", "q20", batch),
    ]


def write(case: PeerCase, folder: Path) -> int:
    """Writes the files of the case; how many rows the batches that count have.

    Beside a file per batch, `whole` has one file per stream, for engines that would read many in any order,
    and `warm-up` the same without the batches that count.
    """
    aliases = case.described.aliases
    writers: dict[Path, pq.ParquetWriter] = {}
    counted = 0
    for alias in aliases:
        (folder / alias).mkdir(parents=True)
    for number, batch in enumerate(_batches(case)):
        for alias, table in batch.items():
            pq.write_table(table, folder / alias / f"{number:04d}.parquet")
            time.sleep(0.01)  # files are taken in the order of their times
            for part in ("whole", "warm-up") if number < WARM_UP else ("whole",):
                path = folder / part / alias / "all.parquet"
                if path not in writers:
                    path.parent.mkdir(parents=True)
                    writers[path] = pq.ParquetWriter(path, table.schema)
                writers[path].write_table(table)
            counted += table.num_rows if number >= WARM_UP else 0
    for writer in writers.values():
        writer.close()
    return counted


def _batches(case: PeerCase) -> Iterator[dict[str, pa.Table]]:
    for number in range(BATCHES):
        batch = case.batch(number)
        yield {alias: table.select(case.described.used(alias)) for alias, table in batch.items()}
