"""States that earlier versions of Windrow wrote are still read.

`tests/states/format-*` are states of `QUERY` after its first three calls, in two partitions, as the versions
with these formats left them.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import windrow as wr
from partition_runs import PartitionedJoin
from results import ids
from windrow.state.inspect import show, verify
from windrow.state.layout import StoredLayout, StoredSkew

STATES = sorted((Path(__file__).parent / "states").iterdir())
SECOND = 1_000_000
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us")), ("k", pa.int64()), ("note", pa.string())])
QUERY = wr.Query({a: wr.Stream("ts", "5 seconds") for a in "ab"}, "a.k = b.k", late="1 second")


def calls() -> list[dict[str, pa.Table]]:
    """Two seconds of event time per call."""
    rng = Random(6)
    found = []
    for number in range(6):
        call = {}
        for alias in "ab":
            times = [rng.randrange(2 * number * SECOND, 2 * (number + 1) * SECOND) for _ in range(8)]
            keys, notes = [rng.choice([None, 1, 2, 3]) for _ in times], [f"row {t}" for t in times]
            rows = ([number * 8 + k for k in range(8)], times, keys, notes)
            columns = [pa.array(v, kind) for v, kind in zip(rows, SCHEMA.types, strict=True)]
            call[alias] = pa.table(columns, schema=SCHEMA)
        found.append(call)
    return found


def results(batches: Iterable[pa.RecordBatch]) -> Counter[tuple]:
    return sum((ids(pa.Table.from_batches([b.select(["a", "b"])])) for b in batches), Counter())


@pytest.mark.parametrize("partitions", [1, 2, 5])
@pytest.mark.parametrize("stored", STATES, ids=lambda path: path.name)
def test_earlier_formats_are_read(stored: Path, partitions: int, tmp_path: Path) -> None:
    shutil.copytree(stored, tmp_path / "state")
    whole = wr.Operator(QUERY, dict.fromkeys("ab", SCHEMA))
    want: Counter[tuple] = Counter()
    for number, call in enumerate(calls()):
        want += ids(out) if (out := whole.process(call)).num_rows and number >= 3 else Counter()
    join = PartitionedJoin(QUERY, dict.fromkeys("ab", SCHEMA), str(tmp_path / "state"), partitions)
    found = [join.process(3 + number, call) for number, call in enumerate(calls()[3:])]
    assert sum(map(results, found), Counter()) == want
    assert want.total() > 20


@pytest.mark.parametrize("stored", STATES, ids=lambda path: path.name)
def test_what_is_on_disk_includes_parts_in_manifests(stored: Path) -> None:
    (shown,) = show(str(stored))
    assert all(0 < held.live_bytes < held.disk_bytes for held in shown.stored)
    assert verify(str(stored)).bytes >= sum(held.live_bytes for held in shown.stored)


def test_layouts_of_earlier_formats_keep_their_meaning() -> None:
    """A query that goes on with the same options must not move its rows."""
    shared = {
        "routing": "a by value of a.k as int64, b by everywhere, a divided",
        "hashing": "version 2: by Spark",
    }
    shared["partitioning"] = "4 by key a.k"
    spread = {"spread": "values [1] over 2 partitions", "spread values": "x"}
    skewed = {"skewed_keys": "values [1] over 2 partitions"}
    read = StoredLayout.from_words(4, shared | spread)
    assert read == StoredLayout.from_words(4, shared | skewed)
    assert read.dimensions[0].skewed == StoredSkew("[1]", 2) and read.dimensions[0].split == (0,)
    one = {"spread": "none", "routing": "none", "hashing": "version 2"}
    assert StoredLayout.from_words(4, one | {"partitioning": "one"}) == StoredLayout(4, (), 2)
