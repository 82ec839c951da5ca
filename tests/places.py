"""Streams in files that arrive one by one, what a sink holds of their join, and the exact answer."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SECOND = 1_000_000
ON = "a.k = b.k"
FILES, ROWS, KEYS = 4, 200, 60
"""Files per stream, each ten seconds of event time; rows in each; values of the key."""
START = int(time.time())


class Place:
    """A directory with everything of one query: its streams, sink, checkpoint and state."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.arrived = 0

    def __truediv__(self, name: str) -> Path:
        return self.directory / name

    def write(self, streams: str = "ab", files: int = FILES, rows: int = ROWS) -> Place:
        """Writes files that have yet to arrive. Rows are out of order by up to three seconds."""
        rng = np.random.default_rng(len(streams))
        for stream in streams:
            (self / stream).mkdir()
            (self / f"{stream}.later").mkdir()
            for file in range(files):
                times = rng.integers((10 * file - 3) * SECOND, 10 * (file + 1) * SECOND, rows)
                table = pa.table(
                    {
                        "id": file * rows + np.arange(rows),
                        "ts": pa.array(times, pa.timestamp("us", "UTC")),
                        "k": rng.integers(0, KEYS, rows),
                        "note": [f"{stream} {n}".ljust(60, ".") for n in range(rows)],
                    }
                )
                pq.write_table(table, self / f"{stream}.later" / f"{file:03d}.parquet")
        return self

    def arrive(self, files: int | None = None) -> Place:
        """The next files of each stream, or all."""
        for stream in "abc":
            for file in sorted((self / f"{stream}.later").glob("*"))[:files]:
                # Spark takes files in the order of their times of modification, in milliseconds.
                os.utime(file, (START + int(file.stem),) * 2)
                file.rename(self / stream / file.name)
        return self

    def expected(self, within: int = 15) -> Counter[tuple]:
        """What a join of all files that arrived gives."""
        return _answer(
            f"select a.id, b.id from '{self / 'a'}/*.parquet' a join '{self / 'b'}/*.parquet' b on {ON} "
            f"where abs(epoch_us(a.ts) - epoch_us(b.ts)) <= {within * SECOND}"
        )

    def expected_of_three(self) -> Counter[tuple]:
        """a with b, each result as new as the newer of the two, and these with c."""
        return _answer(
            f"with ab as (select a.id as a, b.id as b, a.k, greatest(a.ts, b.ts) as ts "
            f"from '{self / 'a'}/*.parquet' a join '{self / 'b'}/*.parquet' b on {ON} "
            f"where abs(epoch_us(a.ts) - epoch_us(b.ts)) <= {2 * SECOND}) "
            f"select ab.a, ab.b, c.id from ab join '{self / 'c'}/*.parquet' c on ab.k = c.k "
            f"where abs(epoch_us(ab.ts) - epoch_us(c.ts)) <= {4 * SECOND}"
        )

    def found(self, sink: str = "out") -> Counter[tuple]:
        """All rows of a sink. A streaming file sink is read as Spark does: what its log has committed."""
        log = self / sink / "_spark_metadata"
        files = {str(path) for path in (self / sink).rglob("*.parquet")}
        if log.exists():
            entries = [file for file in log.iterdir() if not file.name.startswith(".")]
            lines = {line for file in entries for line in file.read_text().splitlines()[1:]}
            files = {json.loads(line)["path"].removeprefix("file://") for line in lines}
        tables = [pq.read_table(file, partitioning=None) for file in files]
        return Counter(row for t in tables for row in zip(*(c.to_pylist() for c in t.columns), strict=True))

    def state_files(self, pattern: str) -> list[Path]:
        return sorted((self / "state").rglob(pattern))


def _answer(sql: str) -> Counter[tuple]:
    return Counter(duckdb.sql(sql).fetchall())


def last_batch(pair: tuple) -> int:
    """The batch that completes a result, if every batch takes a file of each stream."""
    return max(number // ROWS for number in pair)


def differences(found: Counter[tuple], expected: Counter[tuple]) -> str:
    """Nothing if the results are exact; else what is wrong with them, in a few words."""
    assert expected, "the test's data has no results"
    missing, extra = expected - found, found - expected
    if not missing and not extra:
        return ""
    return f"{missing.total()} missing, {extra.total()} too many of {expected.total()}: {missing or extra}"[
        :300
    ]
