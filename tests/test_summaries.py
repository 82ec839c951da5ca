"""Where workers are many, a task lists its group of partitions and a summary; it learns the same as from all
markers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import stored
import windrow as wr
from partition_runs import PartitionedJoin
from results import ids
from windrow.engine.query_changes import fingerprint
from windrow.engine.state import State
from windrow.state import CommitLog, Start, StateStore
from windrow.state import paths as state_paths
from windrow.state.inspect import verify
from windrow.state.paths import GROUP
from windrow.state.storage import Storage, open_storage
from windrow_bench.state_requests import CountedObjects

RUN, NEXT = "1" * 32, "2" * 32
MANY = 2 * GROUP + 6
NOTHING = State({"streams": [], "query": {"streams": {}}}, ())


def log(root: Storage, partitions: int = MANY, sums_up: bool = True) -> CommitLog:
    return CommitLog(root, stored.SCOPE, partitions, sums_up=sums_up)


def task(root: Storage, batch: int, partition: int, rng: Random, partitions: int = MANY) -> Start:
    """What a task does to the state, in a worker of its own."""
    shared = log(root, partitions)
    start = shared.begin(RUN, batch, partition)
    times = (rng.choice([None, rng.randrange(1000)]), batch)
    demand = rng.choice([0, rng.randrange(1, 1000)])
    StateStore(shared, partition).commit(start.version, NOTHING, times, demand)
    shared.summaries.leave(start.version, partition, tracked=False)
    return start


def run_batches(root: Storage, count: int, partitions: int = MANY) -> None:
    rng = Random(count)
    log(root, partitions).check_metadata(fingerprint(stored.QUERY), first=True)
    for batch in range(count):
        for partition in rng.sample(range(partitions), partitions):
            task(root, batch, partition, rng, partitions)


@pytest.mark.parametrize("partitions", [1, GROUP, GROUP + 1, MANY])
def test_a_summary_says_what_all_markers_say(partitions: int) -> None:
    root = CountedObjects()
    run_batches(root, 3, partitions)
    for partition in range(partitions):
        summed = log(root, partitions).begin(RUN, 3, partition)
        listed = log(root, partitions, sums_up=False).begin(RUN, 3, partition)
        assert (summed.markers.summary is None, listed.markers.summary) == (False, None)
        assert (summed.base, summed.times, summed.layout) == (listed.base, listed.times, listed.layout)
        assert summed.demands(partition) == listed.demands(partition)
        assert summed.markers.attempts(summed.base, partition) == listed.markers.attempts(
            listed.base, partition
        )
    assert not verify(root).damage


def test_what_a_task_lists_does_not_grow_with_partitions() -> None:
    for partitions in (GROUP, 4 * GROUP, 8 * GROUP):
        root = CountedObjects()
        run_batches(root, 3, partitions)
        root.requests.clear()
        root.names_listed = 0
        log(root, partitions).begin(RUN, 3, partitions - 1)
        assert root.requests["list"] == 1
        assert root.names_listed <= GROUP + 2


@pytest.mark.parametrize("lost", ["all.", "group"])
def test_without_a_summary_markers_are_listed(tmp_path: Path, lost: str) -> None:
    """A task that was killed has left none."""
    root, rng = open_storage(str(tmp_path)), Random(0)
    run_batches(root, 2)
    for file in stored.files(tmp_path, f"{lost}*"):
        file.unlink()
    assert log(root).begin(RUN, 2, MANY - 1).times == log(root, sums_up=False).begin(RUN, 2).times
    for partition in range(MANY):
        task(root, 2, partition, rng)
    assert log(root).begin(RUN, 3, 0).markers.summary is not None
    assert not verify(root).damage


def test_a_summary_does_not_stand_in_for_markers_that_a_copy_lacks(tmp_path: Path) -> None:
    root = open_storage(str(tmp_path))
    run_batches(root, 2)
    stored.files(tmp_path, "batch-*1/g1/p40.*")[0].unlink()
    with pytest.raises(wr.StateError, match=f"batch 1: commit markers are missing for 1 of {MANY}"):
        log(root).begin(NEXT, 2, 0)


def test_a_later_run_is_noticed_by_the_first_group(tmp_path: Path) -> None:
    root = open_storage(str(tmp_path))
    run_batches(root, 2)
    log(root).begin(NEXT, 2, MANY - 1)
    with pytest.raises(wr.StateError, match="another run of this query"):
        log(root).begin(RUN, 2, 0)


def test_a_state_with_all_markers_in_one_directory_is_continued(tmp_path: Path) -> None:
    """As they were before there were groups."""
    root = open_storage(str(tmp_path))
    run_batches(root, 2)
    for file in stored.files(tmp_path, "p*.json"):
        if file.parent.name.startswith("g"):
            file.rename(file.parent.parent / file.name)
    for file in (*stored.files(tmp_path, "all.*"), *stored.files(tmp_path, "group*")):
        file.unlink()
    start = log(root).begin(NEXT, 2, MANY - 1)
    assert start.base is not None and start.base.run == RUN
    store = StateStore(log(root), MANY - 1)
    assert store.manifest(start.base, store.base(start.base, start.markers)).partition == MANY - 1


# --- Source partitions -----------------------------------------------------------------------------------

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us")), ("k", pa.int64()), ("p", pa.string())])


def calls(count: int) -> list[dict[str, pa.Table]]:
    """Source partitions that advance unevenly."""
    rng, found = Random(3), []
    for number in range(count):
        call = {}
        for alias in "ab":
            of = [rng.choice([None, "x", "y"]) for _ in range(12)]
            seconds = [number * 2 + rng.random() - (3 if p == "y" else 0) for p in of]
            columns = (
                range(12 * number, 12 * number + 12),
                [int(s * 1e6) for s in seconds],
                [rng.randrange(6) for _ in of],
                of,
            )
            arrays = [pa.array(list(c), f.type) for c, f in zip(columns, SCHEMA, strict=True)]
            call[alias] = pa.table(arrays, schema=SCHEMA)
        found.append(call)
    return found


@pytest.mark.parametrize("group", [2, GROUP])
def test_event_times_of_source_partitions_are_read_from_one_file(
    group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_paths, "GROUP", group)
    streams = {alias: wr.Stream("ts", "4 seconds", source_partition="p") for alias in "ab"}
    query = wr.Query(streams, "a.k = b.k", late="1 second")
    root, found, alone = CountedObjects(), Counter(), Counter()
    join = PartitionedJoin(query, dict.fromkeys("ab", SCHEMA), root, 5)
    one = PartitionedJoin(query, dict.fromkeys("ab", SCHEMA), CountedObjects(), 1)
    for batch, call in enumerate(calls(6)):
        for partition in range(5):
            root.requests.clear()
            out = []
            for rows in join.partition(batch, partition, call):
                out.append(rows)
                read = root.requests["get"]
            found += sum((ids(pa.Table.from_batches([r.select(["a", "b"])])) for r in out), Counter())
            if batch > 1 and out:
                assert read == (partition == 0), "the worker's first task reads the summary"
        alone += sum(
            (ids(pa.Table.from_batches([r.select(["a", "b"])])) for r in one.process(batch, call)), Counter()
        )
    assert found == alone != Counter()
