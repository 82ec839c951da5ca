"""Every partition commits every batch; a batch that is incomplete is noticed by the next. Each run of a query
has a timeline of its own: what an earlier run left of a batch that is formed again is void."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyarrow import fs

import stored
import windrow as wr
from stored import log, store
from windrow.engine.operator import runner_of
from windrow.engine.query_changes import fingerprint
from windrow.engine.state import State, capture
from windrow.state import CommitLog, QueryRun, StateStore, Version
from windrow.state import store as state_store
from windrow.state.commit_markers import CommitMarker, CommitMarkers
from windrow.state.inspect import show, verify
from windrow.state.storage import ArrowStorage, open_storage
from windrow_bench.state_requests import CountedObjects

NOTHING = capture(runner_of(wr.Operator(stored.QUERY, stored.schemas())))
PARTITIONS = 3
FIRST, SECOND, THIRD = ("1" * 32, "2" * 32, "3" * 32)
LOCAL, OBJECTS = "local directory", "object store"


@pytest.fixture(params=[LOCAL, OBJECTS])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    if request.param == LOCAL:
        return str(tmp_path / "states")
    return ArrowStorage("mock://bucket/states", fs._MockFileSystem(), "bucket/states")


def begun(root: object) -> CommitLog:
    shared = log(root, PARTITIONS)
    shared.check_metadata(fingerprint(stored.QUERY), first=True)
    return shared


def task(
    shared: CommitLog, batch: int, partition: int, run: str = FIRST, state: State = NOTHING, time: int = 0
) -> None:
    """What a task does to the state, as `windrow.spark.task` does it."""
    start = shared.begin(run, batch)
    held = store(shared.storage, partition, PARTITIONS)
    if start.base is not None:
        held.load(held.manifest(start.base))
    held.commit(start.version, state, (time or batch, None))
    held.collect(start)


def run_batch(shared: CommitLog, batch: int, run: str = FIRST, time: int = 0) -> None:
    for partition in range(PARTITIONS):
        task(shared, batch, partition, run, time=time)


def lose(shared: CommitLog, *beginnings: str) -> None:
    for marker in shared.read_markers().committed:
        if marker.name.rpartition("/")[2].startswith(beginnings):
            shared.storage.delete(f"{shared.directory}/{marker.manifest}")


def test_batches_go_on_and_old_ones_go(root: object) -> None:
    shared = begun(root)
    for batch in range(20):
        run_batch(shared, batch)
    assert {m.version.batch for m in shared.read_markers().committed} == {16, 17, 18, 19}
    assert not verify(shared.storage).damage
    assert [p.partition for p in show(shared.storage)[0].stored] == [0, 1, 2]


def test_a_task_that_never_ran_is_noticed(root: object) -> None:
    shared = begun(root)
    run_batch(shared, 0)
    for partition in (0, 2):
        task(shared, 1, partition)
    with pytest.raises(wr.StateError, match=r"batch 1: commit markers are missing for 1 of 3.*put the state"):
        task(shared, 2, 0)


def test_a_task_that_ran_twice_does_not_stand_in_for_another(root: object) -> None:
    shared = begun(root)
    for _ in range(PARTITIONS):
        task(shared, 0, 0)
    with pytest.raises(wr.StateError, match="batch 0: commit markers are missing for 2 of 3"):
        task(shared, 1, 0)


def test_nothing_ran_at_all(root: object) -> None:
    shared = begun(root)
    run_batch(shared, 0)
    with pytest.raises(wr.StateError, match="batch 1: commit markers are missing for 3 of 3"):
        run_batch(shared, 2)


def test_a_partition_lost_with_its_markers_is_noticed(root: object) -> None:
    shared = begun(root)
    run_batch(shared, 0)
    run_batch(shared, 1)
    lose(shared, "p1.")
    with pytest.raises(wr.StateError, match=r"batch 1: commit markers are missing for 1 of 3.*put the state"):
        run_batch(shared, 2)


def test_verify_reports_a_batch_that_was_not_run_to_its_end(root: object) -> None:
    shared = begun(root)
    run_batch(shared, 0)
    for partition in (0, 2):
        task(shared, 1, partition)
    assert not verify(shared.storage).damage, "batch 1 may be under way"
    store(shared.storage, 0, PARTITIONS).commit(Version(2, FIRST), NOTHING, (2, None))
    (damage,) = verify(shared.storage).damage
    assert damage.path.endswith("query/join/commits")
    assert damage.how == "batch 1: commit markers are missing for 1 of 3 partitions"


# --- Runs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("back", [1, 2, 3])
def test_a_query_set_back_does_not_see_what_it_undid(root: object, back: int) -> None:
    shared = begun(root)
    for batch in range(6):
        run_batch(shared, batch, time=100 + batch)
    again = log(root, PARTITIONS)
    first = 6 - back
    start = again.begin(SECOND, first)
    assert start.base == Version(first - 1, FIRST)
    assert start.times == [100 + first - 1, None]
    for batch in range(first, 9):
        run_batch(again, batch, SECOND, time=50 + batch)
        assert again.begin(SECOND, batch + 1).times == [50 + batch, None]
    assert not verify(shared.storage).damage
    assert show(shared.storage)[0].stored[0].times == (58, None)
    runs = {m.version.run for m in again.read_markers().committed}
    assert runs == {SECOND}, "what is void goes"


def test_a_batch_formed_again_counts_only_when_all_of_it_is_there(root: object) -> None:
    """The partition that has not run yet has a version of that batch, of the run before."""
    shared = begun(root)
    for batch in range(4):
        run_batch(shared, batch)
    again = log(root, PARTITIONS)
    for partition in (0, 2):
        task(again, 3, partition, SECOND)
    with pytest.raises(wr.StateError, match="batch 3: commit markers are missing for 1 of 3"):
        again.begin(SECOND, 4)


def test_a_query_set_back_too_far_is_refused_and_loses_nothing(root: object) -> None:
    shared = begun(root)
    for batch in range(9):
        run_batch(shared, batch)
    with pytest.raises(wr.StateError, match="set back further than state is kept"):
        log(root, PARTITIONS).begin(SECOND, 3)
    assert len([m for m in shared.read_markers().committed if m.version.batch == 8]) == PARTITIONS


def test_a_start_that_is_refused_leaves_the_state_usable(root: object) -> None:
    """The checkpoint was put back too far by mistake, and then rightly."""
    shared = begun(root)
    for batch in range(12):
        run_batch(shared, batch)
    with pytest.raises(wr.StateError, match="set back further than state is kept"):
        begun(root).begin(SECOND, 4)
    assert begun(root).begin(THIRD, 12).base == Version(11, FIRST)


def test_a_copy_without_the_record_of_a_run_is_refused(root: object) -> None:
    """Or else the version that the run has replaced would be continued."""
    shared = begun(root)
    for batch in range(4):
        run_batch(shared, batch)
    run_batch(begun(root), 3, SECOND)
    shared.storage.delete(f"{shared.directory}/commits/run.{SECOND}")
    with pytest.raises(wr.StateError, match="is missing, and batch 4 needs it"):
        begun(root).begin(THIRD, 4)


def test_a_task_left_over_from_an_earlier_run_does_no_harm(root: object) -> None:
    """It had begun before the new run did, and commits after it."""
    shared = begun(root)
    for batch in range(4):
        run_batch(shared, batch, time=100 + batch)
    zombie = shared.begin(FIRST, 4)
    again = log(root, PARTITIONS)
    run_batch(again, 3, SECOND, time=7)
    run_batch(again, 4, SECOND, time=8)
    held = store(shared.storage, 1, PARTITIONS)
    held.commit(zombie.version, NOTHING, (104, None))
    held.collect(zombie)
    assert again.begin(SECOND, 5).times == [8, None]
    run_batch(again, 5, SECOND, time=9)
    assert not verify(shared.storage).damage


def test_of_two_runs_at_once_one_is_refused(root: object) -> None:
    shared, copy = begun(root), log(root, PARTITIONS)
    run_batch(shared, 0)
    run_batch(shared, 1)
    run_batch(copy, 1, SECOND)
    with pytest.raises(wr.StateError, match=r"another run of this query \(2+, from batch 1 on\).*`state`"):
        task(shared, 2, 0)
    run_batch(copy, 2, SECOND)


@pytest.mark.parametrize(("mine", "other"), [(FIRST, SECOND), (SECOND, FIRST)])
def test_of_two_runs_that_begin_together_one_is_refused(root: object, mine: str, other: str) -> None:
    shared = begun(root)
    for run in (mine, other):
        made = QueryRun(1, run, 0)
        shared.storage.create(f"{shared.directory}/commits/{made.name}", made.to_bytes(), "a run")
    with pytest.raises(wr.StateError, match="another run"):
        log(root, PARTITIONS).begin(FIRST, 0)
    log(root, PARTITIONS).begin(SECOND, 0)


def test_runs_that_own_nothing_go(root: object) -> None:
    begun(root)
    for number, run in enumerate((FIRST, SECOND, THIRD)):
        again = log(root, PARTITIONS)
        for batch in range(5 * number, 5 * number + 5):
            run_batch(again, batch, run)
    runs = {run.id for run in again.read_markers().runs}
    assert runs == {THIRD}


def test_a_damaged_record_of_a_run_is_told(root: object) -> None:
    shared = begun(root)
    run_batch(shared, 0)
    path = f"{shared.directory}/commits/run.{FIRST}"
    shared.storage.delete(path)
    shared.storage.create(path, b"torn", "a run")
    with pytest.raises(wr.StateError, match="does not describe a run"):
        log(root, PARTITIONS).begin(FIRST, 1)
    assert any("does not describe a run" in d.how for d in verify(shared.storage).damage)


def test_names_say_all() -> None:
    marker = CommitMarker(3, Version(17, FIRST), (5, None, -7), 40, "c0")
    for each in (marker, replace(marker, demand=None)):
        assert CommitMarker.parse(each.name) == each
    found = CommitMarkers([marker.name, ".aside-1", "notes.txt", f"run.{FIRST}"], [QueryRun(1, FIRST, 0)])
    assert (found.committed, found.newest) == ([marker], 17)
    assert CommitMarkers([], []).newest == -1


def test_a_commit_is_refused_like_any_other_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    shared = log(open_storage(str(tmp_path / "file")), PARTITIONS)
    with pytest.raises(wr.StateError, match="cannot write the record of run"):
        shared.begin(FIRST, 0)


@pytest.mark.parametrize("proposed", ["by the attempt itself", "by a task of the next batch"])
def test_tasks_agree_on_the_attempt_that_was_proposed_first(
    root: object, proposed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a deadline. The attempt that commits later comes first by name."""

    def base() -> list[str | None]:
        held = store(root)
        found = held.base(Version(0, FIRST), held.log.begin(FIRST, 1).markers, agreed=True)
        return [marker.content for marker in found]

    def commit(content: str) -> StateStore:
        monkeypatch.setattr(state_store, "uuid4", lambda: SimpleNamespace(hex=content))
        held = store(root)
        held.log.check_metadata(fingerprint(stored.QUERY), first=True)
        held.commit(held.log.begin(FIRST, 0).version, NOTHING, (0, None))
        return held

    first, later = "f" * 32, "0" * 32
    attempt = commit(first)
    if proposed == "by the attempt itself":
        attempt.propose_base()
    assert base() == [first]
    commit(later).propose_base()
    assert base() == [first]


def test_a_proposed_attempt_takes_no_request_if_it_is_the_only_one() -> None:
    root = CountedObjects()
    held = store(root)
    held.log.check_metadata(fingerprint(stored.QUERY), first=True)
    held.commit(held.log.begin(FIRST, 0).version, NOTHING, (0, None))
    held.propose_base()
    markers = store(root).log.begin(FIRST, 1).markers
    root.requests.clear()
    assert store(root).base(Version(0, FIRST), markers, agreed=True) == markers.committed
    assert not root.requests.total()
