"""A left outer join whose driver is killed while rows wait for their match: each comes once, with it or
without."""

from __future__ import annotations

import os
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from driver import Drivers
from outer_oracle import Question
from places import FILES, ON, ROWS, SECOND, START, Place, differences
from windrow.state.inspect import verify
from windrow.testing.oracle import Row, Term

pytestmark = pytest.mark.faults

WITHIN = 3
"""Seconds: so short that many rows have no match."""
ENDS = 2
"""Batches that only move time on, so that all is decided: the second shows every partition the first."""
EQUAL = Term(ON, ("a", "b"), lambda rows: rows["a"]["k"] == rows["b"]["k"])


def end(at: Place) -> Place:
    """Rows far ahead in either stream, which match nothing."""
    for number in range(ENDS):
        for key, stream in enumerate("ab", 1):
            file = at / stream / f"{FILES + number:03d}.parquet"
            time = pa.array([1000 * (number + 1) * SECOND], pa.timestamp("us", "UTC"))
            pq.write_table(
                pa.table({"id": [FILES * ROWS + number], "ts": time, "k": [-key], "note": ["end"]}), file
            )
            os.utime(file, (START + FILES + number,) * 2)
    return at


def rows(at: Place, stream: str) -> list[Row]:
    tables = [pq.read_table(file) for file in sorted((at / stream).glob("*.parquet"))]
    table = pa.concat_tables(tables).set_column(1, "ts", pa.concat_tables(tables)["ts"].cast(pa.int64()))
    return [row for row in table.to_pylist() if row["note"] != "end"]


def expected(at: Place) -> Counter[tuple]:
    windows = dict.fromkeys("ab", WITHIN * SECOND)
    return Question({stream: rows(at, stream) for stream in "ab"}, windows, [EQUAL], "left").answer()


def test_kill_9_while_rows_wait_for_a_match(drivers: Drivers, at: Place) -> None:
    settings = {"how": "left", "within": f"{WITHIN} seconds"}
    end(at.arrive())
    for batch, point in ((1, "reading"), (2, "mark"), (3, "results"), (FILES, "manifest")):
        drivers.die_at(point, batch, "pairs", at, **settings)
    drivers.driver.run("pairs", at, **settings)
    found = Counter({row: n for row, n in at.found().items() if row[0] < FILES * ROWS})
    assert any(b is None for _, b in found) and any(b is not None for _, b in found)
    assert not differences(found, expected(at))
    assert not verify(str(at / "state")).damage
