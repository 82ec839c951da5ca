"""Windows larger than memory spill to files: the answer stays exact, and the limit holds."""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stored
import windrow as wr
from results import assert_payload, ids
from stored import newest, publish, store
from windrow.engine.operator import runner_of
from windrow.engine.query_changes import fingerprint
from windrow.engine.state import restore
from windrow.errors import QueryError, StateError
from windrow.sql_frontend.parser import parse_script
from windrow.window import spill_files

CALLS = stored.batches(12, 2_000)
JOINS = {
    "hash": "a.k = b.k",
    "hash of several": "a.k = b.k and a.note = b.note",
    "sorted": "abs(a.k - b.k) <= 1",
}


def query(on: str = "a.k = b.k", **limits: Any) -> wr.Query:
    return replace(stored.QUERY, on=on, **limits)


def spilling(on: str = "a.k = b.k", memory: str = "200 KiB", **limits: Any) -> wr.Query:
    return query(on, **{"memory": memory, "disk": "unlimited", **limits})


def run(op: wr.Operator, calls: list[stored.Call] = CALLS) -> Counter[tuple]:
    return sum((ids(op.process(call)) for call in calls), Counter())


@pytest.fixture(scope="module")
def exact() -> dict[str, tuple[Counter[tuple], Any]]:
    found = {}
    for name, on in JOINS.items():
        op = wr.Operator(query(on))
        found[name] = run(op), op.metrics()
    return found


@pytest.mark.parametrize("memory", ["200 KiB", "20 KiB"])
@pytest.mark.parametrize("name", JOINS)
def test_the_answer_is_exact_and_the_limit_holds(exact, tmp_path: Path, name: str, memory: str) -> None:
    """With 200 KiB payloads are in files, with 20 KiB also times, join columns and indexes."""
    answer, in_memory = exact[name]
    op = wr.Operator(spilling(JOINS[name], memory), spill_directory=str(tmp_path))
    found = Counter()
    for call in CALLS:
        output = op.process(call)
        assert_payload(output, {a: pa.concat_tables([c[a] for c in CALLS]) for a in "ab"})
        found += ids(output)
        measured = op.metrics()
        assert measured.memory_bytes <= op.query.memory_limit.size
    assert found == answer != Counter()
    assert measured.window_rows == in_memory.window_rows
    assert measured.spilled_bytes > 0 == in_memory.spilled_bytes
    assert measured.memory_bytes + measured.spilled_bytes < 2 * in_memory.memory_bytes
    assert measured.recall_low == 1 and measured.rows_evicted == 0
    assert f"on disk; {measured.comparisons:,} comparisons" in str(measured)
    assert not [*tmp_path.iterdir()]  # files without a name need no cleaning up


def test_what_fits_into_memory_does_not_spill(tmp_path: Path) -> None:
    op = wr.Operator(spilling(memory="1 GiB"), spill_directory=str(tmp_path / "does not exist"))
    run(op)
    assert op.metrics().spilled_bytes == 0 < op.metrics().memory_bytes


def test_rows_that_expire_free_their_files() -> None:
    op = wr.Operator(spilling())
    run(op)
    before = op.metrics().spilled_bytes
    later = {alias: stored.batches(100, 1)[-1][alias] for alias in "ab"}
    op.process(later)
    op.process(later)
    assert op.metrics().window_rows < 10
    assert op.metrics().spilled_bytes < before / 100


def test_rows_are_shed_past_the_limit_on_disk(exact) -> None:
    answer, in_memory = exact["hash"]
    op = wr.Operator(spilling(memory="100 KiB", disk="300 KiB", shed="age"))
    found = run(op)
    measured = op.metrics()
    assert found != answer and not found - answer
    assert measured.rows_evicted > 0 and measured.recall < 1
    assert measured.memory_bytes <= 100 << 10
    assert measured.memory_bytes + measured.spilled_bytes <= 400 << 10 < in_memory.memory_bytes
    wide = wr.Operator(spilling(memory="100 KiB", disk="100 MiB", shed="age"))
    assert run(wide) == answer and wide.metrics().rows_evicted == 0


def test_a_snapshot_goes_on_with_and_without_spilling(exact) -> None:
    answer, _ = exact["hash"]
    for before, after in ((spilling(), query()), (query(), spilling()), (spilling(), spilling())):
        op = wr.Operator(before)
        found = run(op, CALLS[:6])
        op = wr.Operator.restore(after, op.snapshot())
        assert (op.metrics().spilled_bytes > 0) == (after.disk_limit is not None)
        assert found + run(op, CALLS[6:]) == answer
        assert op.metrics().rows_evicted == 0


def test_stored_payloads_are_mapped_and_written_once(exact, tmp_path: Path) -> None:
    """On Spark the state has them: nothing is spilled that is stored, and stored parts stay recognised."""
    answer, _ = exact["sorted"]
    asked, states = spilling(JOINS["sorted"], "2 MiB"), tmp_path / "states"
    plain, held, op = store(tmp_path / "plain"), store(states), wr.Operator(asked)
    straight = wr.Operator(query(JOINS["sorted"]))
    for each, of in ((held, asked), (plain, straight.query)):
        each.log.check_metadata(fingerprint(of), first=True)
    found = Counter()
    for number, call in enumerate(CALLS):
        found += ids(op.process(call))
        straight.process(call)
        written, other = publish(held, number, op), publish(plain, number, straight)
        in_memory = op.metrics().memory_bytes
        runner_of(op).join.windows.replace_parts(held.map_written())
        assert op.metrics().memory_bytes < in_memory
        sizes = [sum(size for name, size in m.files.items() if m.content in name) for m in (written, other)]
        assert sizes[0] <= 1.1 * sizes[1] + 4096
        if number == 5:
            held = store(states)
            op = wr.Operator(asked)
            restore(runner_of(op), held.load(newest(held, 6), lazy=True))
            assert op.metrics().spilled_bytes > op.metrics().memory_bytes
    # The worker runs the last micro-batch again, from a version of which it has committed parts itself.
    again = wr.Operator(asked)
    restore(runner_of(again), held.load(newest(held, len(CALLS) - 1), lazy=True))
    assert again.metrics().spilled_bytes > again.metrics().memory_bytes
    assert found == answer


@pytest.mark.parametrize("memory", ["100 MiB", "1 MiB", "100 KiB"])
@pytest.mark.parametrize("within", ["5 seconds", "20000 rows", "2 rows per key"])
def test_a_cold_start_maps_stored_rows_and_spills_the_others(
    tmp_path: Path, within: str, memory: str
) -> None:
    """Arrays that a cold start maps are replaced, never written to, when rows move or are linked anew."""
    streams = {alias: wr.Stream("ts", within) for alias in "ab"}
    plain = query("a.k = b.k and a.k >= 0", streams=streams, late="0 seconds")
    asked = replace(plain, memory=memory, disk="unlimited")
    straight, held, op = wr.Operator(plain), store(tmp_path), wr.Operator(asked)
    held.log.check_metadata(fingerprint(asked), first=True)
    calls = stored.batches(12, 9_000)
    for number, call in enumerate(calls):
        assert ids(op.process(call)) == ids(straight.process(call))
        publish(held, number, op)
        if number == 5:
            held = store(tmp_path)
            op = wr.Operator(asked)
            restore(runner_of(op), held.load(newest(held, 6), lazy=True))
            if within == "5 seconds":
                assert op.metrics().memory_bytes < straight.metrics().memory_bytes / 2
        runner_of(op).join.windows.replace_parts(held.map_written())
        assert op.metrics().memory_bytes <= asked.memory_limit.size
    assert op.metrics().window_rows == straight.metrics().window_rows


# --- Failures -------------------------------------------------------------------------------------------


class FullDisk:
    """A file on a disk without room."""

    def __init__(self, *args: Any, **named: Any) -> None: ...

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *error: Any) -> None: ...

    closed = False

    def tell(self) -> int:
        return 0

    def flush(self) -> None: ...

    def fileno(self) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def write(self, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("memory", ["200 KiB", "20 KiB"])
def test_a_full_disk_is_an_error_and_a_snapshot_goes_on(exact, monkeypatch, memory: str) -> None:
    answer, _ = exact["hash"]
    op = wr.Operator(spilling(memory=memory))
    found = run(op, CALLS[:6])
    snapshot = op.snapshot()
    with monkeypatch.context() as full:
        full.setattr(spill_files.tempfile, "TemporaryFile", FullDisk)
        with pytest.raises(StateError, match=r"disk: cannot spill .* No space left .*Free space there"):
            run(op, CALLS[6:])
        with pytest.raises(StateError, match="failed halfway"):
            op.process(CALLS[6])
    op = wr.Operator.restore(op.query, snapshot)
    assert found + run(op, CALLS[6:]) == answer


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    op = wr.Operator(spilling(), spill_directory=str(tmp_path / "gone"))
    with pytest.raises(StateError, match=r"cannot spill .* to .*gone"):
        run(op)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"disk": "20 GiB"}, r"disk: 20 GiB on disk holds what does not fit into memory; pass memory="),
        ({"disk": "20 GiB", "memory": "9 rows"}, "memory: windows spill to disk by bytes, and 9 rows counts"),
        ({"disk": "20 rows", "memory": "1 MiB"}, r"disk: expected bytes such as '20 GiB', or 'unlimited'"),
        ({"disk": "much", "memory": "1 MiB"}, "disk: expected"),
        ({"disk": 0, "memory": "1 MiB"}, "disk: the limit must be positive, got 0"),
        ({"disk": "unlimited", "memory": "1 MiB", "shed": "cluster"}, "pass a limit on disk"),
    ],
)
def test_limits_that_do_not_fit_are_refused(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        query(**limits)


def test_shared_joins_do_not_spill() -> None:
    with pytest.raises(QueryError, match="takes no memory limit or deadline of its own"):
        wr.SharedOperator({"q": spilling()})


def test_queries_and_sql_say_what_spills() -> None:
    asked = spilling(memory="2 GiB", disk="20 GiB", shed="age")
    assert "memory=2 GiB, disk=20 GiB" in repr(asked)
    parsed = parse_script(
        """SELECT a.x FROM s a, t b WHERE a.k = b.k WINDOW 5 s
        WITH (time = 'at', memory = '2 GiB', disk = 'unlimited')"""
    )
    (statement,) = parsed.bind().statements
    assert statement.query.disk_limit.is_unlimited and statement.query.shed_limit is None
    assert "memory   2 GiB and unlimited on disk" in str(statement)
    explained = wr.explain(
        query(memory="1 MiB", disk="unlimited"), stored.schemas(), rates={"a": 50_000, "b": 50_000}
    )
    assert "of it at most 1 MiB in memory, " in str(explained)
    assert explained.spilled.size == explained.exact_memory.size - (1 << 20)
