"""What no restart can need goes; what one may need stays."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import pyarrow as pa

import stored
import windrow as wr
from stored import (
    QUERY,
    batches,
    collect,
    commit,
    newest,
    publish,
    required,
    revived,
    run,
    started,
    store,
    uninterrupted,
)
from windrow.engine.state import State
from windrow.state import StateStore
from windrow.state.inspect import verify
from windrow.state.local_storage import ASIDE

LATER = 10_000


def test_three_committed_versions_and_all_later_ones_stay(tmp_path: Path) -> None:
    held = started(tmp_path, 10)
    collect(held, 7)
    for batch in range(5, 10):
        fresh = store(tmp_path)
        assert required(fresh, batch + 1).batch == batch
        fresh.load(newest(fresh, batch + 1))
    assert newest(store(tmp_path), 5) is None
    assert len(stored.files(tmp_path / "query" / "join" / "commits", "p*.json")) == 5
    needed = {file for batch in range(5, 10) for file in newest(store(tmp_path), batch + 1).files}
    assert {p.name for p in stored.files(tmp_path, "*.arrows")} == needed


def test_size_stays_bounded(tmp_path: Path) -> None:
    """200 batches, taken up by another store now and then: the disk holds about twice the live state."""
    sizes, rng = [], Random(3)

    def committed(held: StateStore, batch: int) -> None:
        collect(held, batch - 1)
        live = newest(held, batch + 1).live_bytes
        sizes.append((live, sum(f.stat().st_size for f in stored.files(tmp_path, "*.arrows"))))

    calls = batches(200, 40)
    answer = run(lambda: store(tmp_path), calls, reload=lambda _: rng.random() < 0.2, committed=committed)
    assert answer == uninterrupted(calls)
    live = max(live for live, _ in sizes[20:])
    assert max(disk for _, disk in sizes[20:]) < 4 * live
    assert len(stored.files(tmp_path, "p0.*.json")) <= 5
    assert not verify(str(tmp_path)).damage


def test_dead_parts_do_not_pile_up_behind_a_living_one(tmp_path: Path) -> None:
    """A part that never dies lies in a file with parts that do."""
    held, keep = store(tmp_path), []
    for batch in range(30):
        keep.append(pa.record_batch({"x": [batch] * 100}))
        passing = pa.record_batch({"x": list(range(100_000))})
        manifest = commit(held, batch, State({}, (*keep, passing)), ())
        collect(held, batch)
    disk = sum(f.stat().st_size for f in stored.files(tmp_path, "*.arrows"))
    assert disk < 6 * manifest.live_bytes
    loaded = store(tmp_path).load(manifest).parts
    assert all(a.equals(b) for a, b in zip(loaded, (*keep, passing), strict=True))


def test_what_nobody_names_goes_only_when_it_is_old(tmp_path: Path) -> None:
    """It might belong to a publication under way."""
    held = started(tmp_path, 3)
    directory = tmp_path / "query" / "join" / "p0"
    orphan = directory / f"parts-{'0' * 32}.arrows"
    asides = [directory / f"{ASIDE}1", directory.parent / "commits" / f"{ASIDE}2"]
    foreign = directory / "notes.txt"
    for file in (orphan, *asides, foreign):
        file.write_text("")
    collect(held, 2)
    assert all(file.exists() for file in (orphan, *asides, foreign))
    for file in (orphan, *asides, foreign):
        os.utime(file, (1, 1))
    collect(held, 2)
    assert [file.exists() for file in (orphan, *asides, foreign)] == [False, False, False, True]
    assert not verify(str(tmp_path)).damage


def test_the_content_of_a_replaced_attempt_goes_when_it_is_old(tmp_path: Path) -> None:
    started(tmp_path, 3)
    call = batches(4, 300)[3]
    for _ in range(2):
        held = store(tmp_path)
        op = revived(QUERY, held.load(newest(held, 3)))
        op.process(call)
        publish(held, 3, op)
    replaced = set(stored.files(tmp_path, "*.arrows"))
    for batch in range(4, 8):
        op.process(batches(8, 300)[batch])
        publish(held, batch, op)
        replaced -= {tmp_path / "query" / "join" / "p0" / file for file in newest(held, batch).files}
    late = store(tmp_path, clock=lambda: time.time() + LATER)
    collect(late, 4)
    assert replaced <= set(stored.files(tmp_path)), "a task that is running may hold its parts"
    collect(late, 7)
    assert not replaced & set(stored.files(tmp_path))
    assert not verify(str(tmp_path)).damage


def test_nothing_goes_while_a_manifest_cannot_be_read(tmp_path: Path) -> None:
    started(tmp_path, 10)
    stored.files(tmp_path, "batch-*9/p0.*.json")[0].write_text("torn")
    before = stored.files(tmp_path)
    collect(store(tmp_path), 9)
    assert stored.files(tmp_path) == before


def test_partitions_collect_their_own_parts_and_the_first_old_batches(tmp_path: Path) -> None:
    stores = [store(tmp_path, partition, 2) for partition in range(2)]
    for held in stores:
        op = wr.Operator(QUERY)
        for batch, call in enumerate(batches(12, 300)):
            op.process(call)
            publish(held, batch, op)
    parts = tmp_path / "query" / "join" / "p1"
    before = stored.files(parts)
    collect(stores[0], 11)
    assert stored.files(parts) == before
    for held in stores:
        assert newest(held, 9) is None
        for batch in (9, 10, 11):
            held.load(newest(held, batch + 1))
    collect(stores[1], 11)
    needed = {file for batch in (9, 10, 11) for file in newest(stores[1], batch + 1).files}
    assert {path.name for path in stored.files(parts)} == needed < {path.name for path in before}
