"""A state that was stored and taken up again goes on as if nothing had happened."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings

import stored
import windrow as wr
from queries import Case, cases
from results import ids
from stored import (
    QUERY,
    RUN,
    SCOPE,
    batches,
    collect,
    commit,
    log,
    newest,
    publish,
    required,
    revived,
    run,
    started,
    store,
    uninterrupted,
)
from windrow.engine.operator import runner_of
from windrow.engine.query_changes import fingerprint
from windrow.engine.state import State, capture
from windrow.state import CommitLog, JoinId, StateStore
from windrow.state import store as store_module
from windrow.state.inspect import show, verify
from windrow.state.layout import StoredDimension, StoredLayout, StoredSkew
from windrow.state.manifest import Manifest
from windrow.state.part_catalog import SLACK, worth_rewriting
from windrow.state.parts import StoredPart
from windrow.state.storage import FETCHING
from windrow.state.store import SMALLEST_FILE
from windrow.window.blocks import batch_of

SPAWN = multiprocessing.get_context("spawn")


# --- The same results -----------------------------------------------------------------------------------


@pytest.mark.parametrize("often", [0.0, 0.5, 1.0])
def test_results_are_those_of_an_uninterrupted_run(tmp_path: Path, often: float) -> None:
    calls, rng = batches(30, 100), Random(1)
    answer = run(lambda: store(tmp_path), calls, reload=lambda _: rng.random() < often, committed=collect)
    assert answer == uninterrupted(calls)
    assert len(answer) > 100


@settings(max_examples=6)
@given(cases(most_streams=3), cases(counted=True, most_streams=3))
def test_any_query_survives(timed: Case, counted: Case) -> None:
    for case, smallest in ((timed, 0), (counted, 0), (timed, SMALLEST_FILE)):
        short = replace(case, calls=case.calls[:8], snapshots=frozenset())
        with TemporaryDirectory() as root, patch.object(store_module, "SMALLEST_FILE", smallest):
            answer = run(lambda root=root: store(root), short.inputs(), short.query())
        assert answer == uninterrupted(short.inputs(), short.query())


# --- What is written ------------------------------------------------------------------------------------


def test_only_what_is_new_is_written(tmp_path: Path) -> None:
    held, op, written = store(tmp_path), wr.Operator(QUERY), []
    for batch, call in enumerate(batches(40, 300)):
        op.process(call)
        manifest = publish(held, batch, op)
        written.append(sum(size for file, size in manifest.files.items() if manifest.content in file))
    steady = written[20:]
    # Segments of like size are merged, so a row is written a few times over its life, and not every time.
    assert sum(steady) / len(steady) < manifest.live_bytes / 2
    assert min(steady) < manifest.live_bytes / 5


def test_an_unchanged_state_writes_no_parts(tmp_path: Path) -> None:
    held = started(tmp_path)
    before = stored.files(tmp_path, "*.arrows")
    for fresh in (held, store(tmp_path)):
        found = newest(fresh, 3)
        again = commit(fresh, 3, fresh.load(found), found.times)
        assert again.parts == found.parts
        assert again.content != found.content
    assert stored.files(tmp_path, "*.arrows") == before


def test_a_schema_is_stored_once(tmp_path: Path) -> None:
    """Captured states show schemas as batches without rows, made anew every time."""
    held, op = store(tmp_path), wr.Operator(QUERY, stored.schemas())
    op.process(batches(1, 500)[0])
    first = publish(held, 0, op)
    assert publish(held, 1, op).parts == first.parts
    assert len(first.files) == 1


def test_small_parts_are_in_the_manifest_until_they_are_worth_a_file(tmp_path: Path) -> None:
    held, op, inline, calls = store(tmp_path), wr.Operator(QUERY), [], batches(12, 60)
    for batch, call in enumerate(calls):
        op.process(call)
        manifest = publish(held, batch, op)
        inline.append(len(manifest.inline))
        whole = sum(part.bytes for part in set(manifest.parts) if part.file == manifest.inline_file)
        assert whole <= inline[-1] < 2 * SMALLEST_FILE
        assert set(manifest.files) == {part.file for part in manifest.parts} - {manifest.inline_file}
    assert sorted(inline) != inline, "some are in a file by now"
    assert 0 < len(manifest.files) <= len(calls) / 3
    loaded = store(tmp_path).load(manifest).parts
    assert all(a.equals(batch_of(b)) for a, b in zip(loaded, capture(runner_of(op)).parts, strict=True))


def test_a_start_has_few_small_files_to_fetch(tmp_path: Path) -> None:
    held, op = store(tmp_path), wr.Operator(QUERY)
    for batch, call in enumerate(batches(60, 150)):
        op.process(call)
        assert len(publish(held, batch, op).files) <= FETCHING + 1


def test_loaded_parts_are_mapped_and_taken_over(tmp_path: Path) -> None:
    started(tmp_path, rows=20_000)
    held = store(tmp_path)
    before = pa.total_allocated_bytes()
    state = held.load(newest(held, 3))
    assert pa.total_allocated_bytes() - before < sum(p.nbytes for p in state.parts) / 10
    again = held.load(newest(held, 3))
    assert all(a is b for a, b in zip(state.parts, again.parts, strict=True))


def test_files_of_mostly_dead_parts_are_rewritten() -> None:
    size = 10 * SLACK
    parts = {StoredPart("old", 0, size // 10, 0, 1), StoredPart("young", 0, size - 1000, 0, 1)}
    assert worth_rewriting(parts, {"old": size, "young": size}, new=0) == set()
    alone = {StoredPart("old", 0, size // 10, 0, 1)}
    assert worth_rewriting(alone, {"old": size}, new=0) == {"old"}
    assert worth_rewriting(alone, {"old": size}, new=size) == set()


def test_rewritten_parts_are_the_same(tmp_path: Path) -> None:
    """One part of a large file stays alive: its file is given up once most of it is dead."""
    held = store(tmp_path)
    small, large = (pa.record_batch({"x": list(range(n))}) for n in (1000, 500_000))
    head = {"streams": []}
    first = commit(held, 0, State(head, (small, large)), ())
    second = commit(held, 1, State(head, (small,)), ())
    assert set(first.files) != set(second.files)
    assert sum(second.files.values()) < SLACK
    assert store(tmp_path).load(second).parts[0].equals(small)
    third = commit(held, 2, State(head, (small,)), ())
    assert third.files == second.files


# --- Attempts -------------------------------------------------------------------------------------------


def test_a_retry_replaces_what_a_failed_attempt_published(tmp_path: Path) -> None:
    calls = batches(4, 200)
    started(tmp_path, 3, 200)
    contents = set()
    for _ in range(3):
        held = store(tmp_path)
        op = revived(QUERY, held.load(required(held, 3)))
        answer = ids(op.process(calls[3]))
        contents.add(publish(held, 3, op).content)
    assert len(contents) == 3
    assert newest(store(tmp_path), 4).content in contents
    straight = wr.Operator(QUERY)
    assert [ids(straight.process(call)) for call in calls][3] == answer
    assert not verify(str(tmp_path)).damage


def test_twins_may_publish_at_the_same_time(tmp_path: Path) -> None:
    started(tmp_path, 3, 300)
    twin = SPAWN.Process(target=stored.publish_again_and_again, args=(str(tmp_path), 3, 10))
    twin.start()
    seen = set()
    while twin.is_alive() or len(seen) < 2:
        stored.publish_again_and_again(str(tmp_path), 3, 1)
        reader = store(tmp_path)
        manifest = newest(reader, 4)
        reader.load(manifest)
        seen.add(manifest.content)
        time.sleep(0.02)
    assert twin.exitcode == 0
    assert not verify(str(tmp_path)).damage
    state = store(tmp_path).load(newest(store(tmp_path), 4))
    op = wr.Operator(QUERY)
    for call in batches(4, 300):
        op.process(call)
    again = revived(QUERY, state)
    assert again.metrics().window_rows == op.metrics().window_rows
    for batch, call in enumerate(batches(7, 300)[4:], 4):
        again.process(call)
        publish(reader, batch, again)
    collect(store(tmp_path, clock=lambda: time.time() + 10_000), 6)
    assert {p.name for p in stored.files(tmp_path, "*.arrows")} == {
        file for batch in (4, 5, 6) for file in newest(store(tmp_path), batch + 1).files
    }


def test_a_killed_process_leaves_whole_versions(tmp_path: Path) -> None:
    child = SPAWN.Process(target=stored.publish_until_killed, args=(str(tmp_path),))
    child.start()
    while child.is_alive() and newest(store(tmp_path), 1000) is None:
        time.sleep(0.01)
    time.sleep(0.2)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert not verify(str(tmp_path)).damage
    last = newest(store(tmp_path), 2001).batch
    held = store(tmp_path)
    op = revived(QUERY, held.load(newest(held, last + 1)))
    calls = batches(last + 5, 50)
    straight = wr.Operator(QUERY)
    for call in calls[: last + 1]:
        straight.process(call)
    for call in calls[last + 1 :]:
        assert ids(op.process(call)) == ids(straight.process(call))


# --- Event times ---------------------------------------------------------------------------------------


def test_event_times_are_the_newest_of_all_partitions(tmp_path: Path) -> None:
    state = State({"streams": []}, ())
    stores = [store(tmp_path, p, 2) for p in range(2)]
    for batch, times in enumerate([((10, None), (-7, None)), ((20, -5), (-7, None)), ((20, -5), (90, 1))]):
        for held, own in zip(stores, times, strict=True):
            commit(held, batch, state, own)
    shared = stores[0].log
    assert [shared.begin(RUN, batch).times for batch in range(4)] == [[], [10, None], [20, -5], [90, 1]]


def test_a_small_window_has_a_small_state(tmp_path: Path) -> None:
    """What a policy has learned about a few hundred rows takes about as much as the rows."""
    streams = {alias: wr.Stream("ts", "5 seconds") for alias in "abc"}
    asked = wr.Query(streams, "a.k = b.k and a.k = c.k", memory="48 KiB")
    held, op = store(tmp_path), wr.Operator(asked)
    held.log.check_metadata(fingerprint(asked), first=True)
    calls = [
        left | {"c": right["a"]} for left, right in zip(batches(30, 100), batches(30, 100, 1), strict=True)
    ]
    for batch, call in enumerate(calls):
        op.process(call)
        start = held.log.begin(RUN, batch)
        held.commit(start.version, capture(runner_of(op)), runner_of(op).watermarks.max_event_times)
        held.collect(start)
    (kept,) = show(str(tmp_path))[0].stored
    assert len(kept.batches) == 4
    assert kept.live_bytes < 4 * 48 * 1024
    assert kept.disk_bytes < 16 * 48 * 1024


# --- What is refused ------------------------------------------------------------------------------------


def test_state_that_must_be_there_and_is_not_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(wr.StateError, match=r"there is no state in .*new checkpoint"):
        store(tmp_path).log.check_metadata(fingerprint(QUERY), first=False)
    assert not stored.files(tmp_path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"on": "a.id = b.id"}, "on was 'a.k = b.k', now 'a.id = b.id'"),
        ({"how": "left"}, "how was 'inner', now 'left'. It is fixed, because it decides which rows are kept"),
        (
            {"streams": {alias: wr.Stream("id", "5 seconds") for alias in "ab"}},
            "stream 'a': time was 'ts', now 'id'",
        ),
        (
            {"streams": {alias: wr.Stream("ts", "6 rows") for alias in "ab"}},
            "stream 'a': within was '5 seconds', now '6 rows'",
        ),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_another_query_is_refused(tmp_path: Path, change: dict, told: str, first: bool) -> None:
    """At the first batch, it is another join of the same name."""
    started(tmp_path)
    with pytest.raises(wr.StateError, match=r"another join.*own name") as refused:
        store(tmp_path).log.check_metadata(fingerprint(replace(QUERY, **change)), first=first)
    assert told in str(refused.value)


KEY = StoredDimension(1, "key", "key a.k = b.k")
LAID = StoredLayout(1, (KEY,), 1)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"partitions": 2}, "1 partitions, now 2"),
        (
            {"dimensions": (replace(KEY, skewed=StoredSkew("[7]", 4)),)},
            "skewed_keys none, now values [7] over 4 partitions",
        ),
        ({"hashing": 2}, "hashing version 1: by Windrow, now version 2: by Windrow"),
    ],
)
def test_a_run_with_another_layout_is_told_so(tmp_path: Path, change: dict, told: str) -> None:
    before = log(tmp_path, 1, layout=LAID)
    before.begin(RUN, 0)
    StateStore(before, 0).commit(stored.at(0), State({}, ()), ())
    now = replace(LAID, **change)
    after = log(tmp_path, now.partitions, layout=now)
    with pytest.raises(wr.StateError, match=r"another layout: .*; if one query has two joins") as refused:
        after.begin(RUN, 1)
    assert told in str(refused.value)
    start = after.begin("b" * 32, 1)
    assert start.base == stored.at(0) and start.moved_to(before.layout) is None
    assert start.moved_to(after.layout) == before.layout
    assert before.layout.difference(after.layout) == told


def test_the_same_join_may_be_pinned_by_every_partition(tmp_path: Path) -> None:
    for first in (True, True, False):
        for partition in range(3):
            store(tmp_path, partition, 3).log.check_metadata(fingerprint(QUERY), first)
    assert len(stored.files(tmp_path)) == 1


def test_queries_and_joins_with_one_path_do_not_meet(tmp_path: Path) -> None:
    started(tmp_path)
    for scope in (JoinId("other", "join"), JoinId("query", "other"), JoinId("query", "../query/join")):
        held = StateStore(CommitLog(str(tmp_path), scope, 4), 0)
        held.log.check_metadata(fingerprint(replace(QUERY, on="a.id = b.id")), first=True)
        assert newest(held, 10) is None
        commit(held, 0, State({}, ()), ())
    assert newest(store(tmp_path), 10).batch == 2
    assert {p.name for p in tmp_path.iterdir()} == {"query", "other"}


@pytest.mark.parametrize("name", ["", "x" * 300])
def test_names_that_are_no_names_are_refused(name: str) -> None:
    with pytest.raises(wr.StateError, match="1 to 200"):
        JoinId("query", name)


def test_a_partition_out_of_range_is_refused(tmp_path: Path) -> None:
    with pytest.raises(wr.StateError, match="0 to 1, got 2"):
        StateStore(CommitLog(str(tmp_path), SCOPE, 2), 2)


def test_a_manifest_survives_being_written(tmp_path: Path) -> None:
    manifest = newest(started(tmp_path), 3)
    assert Manifest.from_bytes(manifest.to_bytes(), "here") == manifest
    assert manifest.rows() == dict(zip("ab", _window_rows(store(tmp_path), manifest), strict=True))


def _window_rows(held: StateStore, manifest: Manifest) -> list[int]:
    op = revived(QUERY, held.load(manifest))
    assert capture(runner_of(op)).metadata["streams"] == manifest.metadata["streams"]
    return [len(window) for window in runner_of(op).join.windows]
