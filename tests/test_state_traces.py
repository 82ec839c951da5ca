"""Every partition leaves a trace in every batch; a batch that left too few is noticed by the next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import fs

import stored
import windrow as wr
from stored import ledger, store
from windrow.engine.state import capture, fingerprint
from windrow.state import Ledger
from windrow.state.filesystem import ArrowRoot, open_root
from windrow.state.inspect import show, verify
from windrow.state.marks import EmptyMark, Mark, Marks

NOTHING = capture(wr.Operator(stored.QUERY, stored.schemas()))
PARTITIONS = 3
LOCAL, OBJECTS = "local directory", "object store"


@pytest.fixture(params=[LOCAL, OBJECTS])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    if request.param == LOCAL:
        return str(tmp_path / "states")
    return ArrowRoot("mock://bucket/states", fs._MockFileSystem(), "bucket/states")


def begun(root: object) -> Ledger:
    shared = ledger(root, PARTITIONS)
    shared.pin(fingerprint(stored.QUERY), stored.schemas(), first=True)
    return shared


def task(shared: Ledger, batch: int, partition: int, rows: bool, attempt: str = "1") -> None:
    """What a task does to the marks, as `windrow.spark.task` does it."""
    marks = shared.look()
    shared.check(batch, marks)
    if rows:
        held = store(shared.root, partition, PARTITIONS)
        held.publish(batch, NOTHING, (batch, None))
        held.collect(batch - 1, marks)
    else:
        shared.leave_empty(batch, marks, partition, f"{attempt}{partition}")
        shared.collect(batch - 1, marks)


def run(shared: Ledger, batch: int, rows: Callable[[int], bool] = lambda partition: True) -> None:
    for partition in range(PARTITIONS):
        task(shared, batch, partition, rows(partition))


def lose(shared: Ledger, *beginnings: str) -> None:
    directory = f"{shared.directory}/frontier"
    for name in shared.root.names(directory):
        if name.startswith(beginnings):
            shared.root.delete(f"{directory}/{name}")


def test_batches_with_and_without_rows_go_on(root: object) -> None:
    shared = begun(root)
    for batch in range(20):
        run(shared, batch, lambda partition, batch=batch: (batch + partition) % 4 == 0)
    assert {m.batch for m in shared.look().empty} == {16, 17, 18, 19}
    assert not verify(shared.root).damage
    assert [p.partition for p in show(shared.root)[0].stored] == [0, 1, 2]


def test_a_join_that_never_gets_rows(root: object) -> None:
    shared = begun(root)
    for batch in range(8):
        run(shared, batch, lambda partition: False)
    assert len(shared.look().names) == 4 * PARTITIONS
    assert verify(shared.root).joins == 1
    assert not verify(shared.root).damage
    assert show(shared.root)[0].stored == ()


@pytest.mark.parametrize("rows", [True, False])
def test_a_task_that_never_ran_is_noticed(root: object, rows: bool) -> None:
    shared = begun(root)
    run(shared, 0)
    for partition in (0, 2):
        task(shared, 1, partition, rows)
    with pytest.raises(wr.StateError, match=r"batch 1 left no trace in 1 of 3 partitions.*foreachBatch"):
        task(shared, 2, 0, rows)


def test_a_task_that_ran_twice_does_not_stand_in_for_another(root: object) -> None:
    shared = begun(root)
    for attempt in "123":
        task(shared, 0, 0, rows=False, attempt=attempt)
    with pytest.raises(wr.StateError, match="batch 0 left no trace in 2 of 3"):
        task(shared, 1, 0, rows=False)


def test_partitions_that_run_in_one_task_all_count(root: object) -> None:
    shared = begun(root)
    for _ in range(PARTITIONS):
        shared.leave_empty(0, shared.look(), 0, "1")
    task(shared, 1, 0, rows=True)


def test_nothing_ran_at_all(root: object) -> None:
    shared = begun(root)
    run(shared, 0)
    with pytest.raises(wr.StateError, match="batch 1 left no trace in 3 of 3"):
        run(shared, 2)


def test_a_partition_lost_with_its_marks_is_noticed(root: object) -> None:
    shared = begun(root)
    run(shared, 0)
    run(shared, 1)
    lose(shared, "p1.")
    with pytest.raises(wr.StateError, match=r"batch 1 left no trace in 1 of 3.*put it back"):
        run(shared, 2)


def test_a_lost_partition_is_noticed_though_it_had_no_rows_last(root: object) -> None:
    """The mark of its last task is anonymous, and still there."""
    shared = begun(root)
    run(shared, 0)
    run(shared, 1)
    run(shared, 2, lambda partition: partition != 1)
    task(shared, 3, 0, rows=True)
    lose(shared, "p1.")
    with pytest.raises(wr.StateError, match=r"earlier batches published was there in batch 2.*put it back"):
        task(shared, 3, 1, rows=True)


def test_a_lost_version_is_noticed_though_an_older_one_is_there(root: object) -> None:
    shared = begun(root)
    run(shared, 0)
    run(shared, 1)
    run(shared, 2, lambda partition: partition != 1)
    lose(shared, "p1.b1.")
    with pytest.raises(wr.StateError, match="is not any more"):
        run(shared, 3)


def test_verify_tells_of_a_batch_that_was_not_run_to_its_end(root: object) -> None:
    shared = begun(root)
    run(shared, 0)
    for partition in (0, 2):
        task(shared, 1, partition, rows=True)
    assert not verify(shared.root).damage, "batch 1 may be under way"
    store(shared.root, 0, PARTITIONS).publish(2, NOTHING, (2, None))
    (damage,) = verify(shared.root).damage
    assert damage.path.endswith("query/join/frontier")
    assert damage.how == "batch 1 left no trace in 1 of 3 partitions"


def test_names_say_all() -> None:
    mark, empty = Mark(3, 17, (5, None, -7)), EmptyMark(2, 17, 40, "ab-12", "0f")
    assert Mark.parse(mark.name) == mark
    assert EmptyMark.parse(empty.name) == empty
    found = Marks([mark.name, empty.name, ".aside-1", "notes.txt"])
    assert (found.published, found.empty, found.newest) == ([mark], [empty], 17)
    assert Marks([]).newest == -1


def test_a_mark_is_refused_like_any_other_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    shared = ledger(open_root(str(tmp_path / "file")), PARTITIONS)
    with pytest.raises(wr.StateError, match="cannot write a mark of batch 0"):
        shared.leave_empty(0, Marks([]), 0, "1")
