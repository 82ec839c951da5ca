"""A join restored from stored columns and indexes goes on as if nothing had happened, and notices damage."""

from __future__ import annotations

import mmap
import os
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

import stored
import windrow as wr
from outer_cases import OuterCase, outer_cases, outer_ids
from queries import Case, cases, examples
from results import ids
from stored import newest, publish, store
from test_inverted import set_cases
from windrow.engine.operator import runner_of
from windrow.engine.query_changes import fingerprint
from windrow.engine.state import payload_parts, restore
from windrow.state import part_catalog, trusted_files
from windrow.state import store as state_store
from windrow.state.part_cache import PartCache
from windrow.state.storage import ArrowStorage
from windrow.state.trusted_files import is_trusted, trust
from windrow.window import blocks, mapped_arrays
from windrow.window.mapped_arrays import FilePlace, assembled

RESTARTS = st.frozensets(st.integers(0, 9), min_size=1)


@contextmanager
def small_blocks(rows: int = 4):
    """Blocks of few rows, so that small windows have some; and all parts in files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "GRAIN", rows)
        patch.setattr(state_store, "SMALLEST_FILE", 0)
        yield


def cold_run(case: Case, restarts: frozenset[int], **changes: Any) -> pa.Table:
    """All output, with the state stored after every call, and restored by a fresh store after some."""
    query = case.query(**changes)
    schemas = {alias: table.schema for alias, table in case.tables.items()}
    with small_blocks(), TemporaryDirectory() as root:
        held, op = store(root), wr.Operator(query, schemas=schemas)
        held.log.check_metadata(fingerprint(query), first=True)
        outputs = []
        for number, call in enumerate(case.inputs()):
            outputs.append(op.process(call))
            publish(held, number, op)
            if query.disk_limit is not None:
                runner_of(op).join.windows.replace_parts(held.map_written())
            if number in restarts:
                held = store(root)
                op = wr.Operator(query)
                restore(runner_of(op), held.load(newest(held, number + 1), lazy=True))
        return pa.concat_tables([*outputs, op.finish()])


def _short(case: Any) -> Any:
    return replace(case, calls=case.calls[:10], snapshots=frozenset())


@examples(25)
@given(cases(most_streams=3, spills=True), cases(counted=True, most_streams=3, spills=True), RESTARTS)
def test_any_join_goes_on(timed: Case, counted: Case, restarts: frozenset[int]) -> None:
    for case in map(_short, (timed, counted)):
        assert ids(cold_run(case, restarts)) == case.answer()


@examples(15)
@given(set_cases(), RESTARTS)
def test_set_joins_go_on(case: Case, restarts: frozenset[int]) -> None:
    case = _short(case)
    assert ids(cold_run(case, restarts)) == case.answer()


@examples(20)
@given(outer_cases(most_streams=3, spills=True), RESTARTS)
def test_outer_joins_go_on(case: OuterCase, restarts: frozenset[int]) -> None:
    case = _short(case)
    assert outer_ids(cold_run(case, restarts)) == case.answer()


@pytest.mark.parametrize("policy", ["auto", "random", "age"])
@examples(6)
@given(cases(most_streams=2, idle=False), st.sampled_from([20, 5000]), RESTARTS)
def test_joins_under_a_memory_limit_go_on(
    policy: str, case: Case, limit: int, restarts: frozenset[int]
) -> None:
    case = _short(case)
    found, answer = ids(cold_run(case, restarts, memory=f"{limit} rows", shed=policy)), case.answer()
    assert found == answer if limit == 5000 else not found - answer


# --- Real blocks ----------------------------------------------------------------------------------------

QUERIES = {
    "hash": "a.k = b.k",
    "hash of several": "a.k = b.k and a.note = b.note",
    "sorted": "abs(a.k - b.k) <= 1",
}


def _started(root: Path | ArrowStorage, on: str, count: int = 6, rows: int = 9000) -> wr.Query:
    query = replace(stored.QUERY, on=on)
    held, op = store(root), wr.Operator(query)
    held.log.check_metadata(fingerprint(query), first=True)
    for number, call in enumerate(stored.batches(count, rows)):
        op.process(call)
        publish(held, number, op)
    return query


def _restored(root: Path, query: wr.Query, lazy: bool = True) -> wr.Operator:
    held, op = store(root), wr.Operator(query)
    restore(runner_of(op), held.load(newest(held, 6), lazy=lazy))
    return op


@pytest.mark.parametrize("on", QUERIES.values(), ids=list(QUERIES))
def test_large_windows_are_mapped_and_the_same(tmp_path: Path, on: str) -> None:
    query = _started(tmp_path, on)
    straight = wr.Operator(query)
    for call in stored.batches(6, 9000):
        straight.process(call)
    op = _restored(tmp_path, query)
    for mine, other in zip(runner_of(op).join.windows, runner_of(straight).join.windows, strict=True):
        assert isinstance(mine.ts.base.obj, mmap.mmap)
        assert np.array_equal(mine.ts[mine.first : mine.end], other.ts[other.first : other.end])
    more = stored.batches(9, 9000)[6:]
    for call in more:
        assert ids(op.process(call)) == ids(straight.process(call)) != Counter()


def test_a_payload_is_read_when_a_result_needs_it(tmp_path: Path) -> None:
    query = _started(tmp_path, QUERIES["hash"])
    for file in stored.files(tmp_path, "*.arrows"):
        os.utime(file)  # as if another machine had written it
    op = _restored(tmp_path, query)
    segments = [s for window in runner_of(op).join.windows for s in window.segments]
    assert not all(s.is_read for s in segments)
    op.process(stored.batches(7, 9000)[6])
    assert any(s.is_read for s in segments)


@pytest.mark.parametrize("on", QUERIES.values(), ids=list(QUERIES))
def test_nothing_stored_is_written_again(tmp_path: Path, on: str) -> None:
    query = _started(tmp_path, on)
    held, op = store(tmp_path), wr.Operator(query)
    found = newest(held, 6)
    restore(runner_of(op), held.load(found, lazy=True))
    assert set(publish(held, 6, op).parts) == set(found.parts)


def test_any_flipped_bit_is_noticed_before_it_counts(tmp_path: Path) -> None:
    query, rng = _started(tmp_path, QUERIES["hash"]), Random(0)
    manifest = newest(store(tmp_path), 6)
    for part in sorted(set(manifest.parts)):
        file = next(f for f in stored.files(tmp_path, "*.arrows") if f.name == part.file)
        data = bytearray(file.read_bytes())
        for place in (0, part.bytes - 1, rng.randrange(part.bytes), rng.randrange(part.bytes)):
            flipped = data.copy()
            flipped[part.offset + place] ^= 1 << rng.randrange(8)
            file.write_bytes(flipped)
            with pytest.raises(wr.StateError, match=rf"{file} is damaged.*checkpoint"):
                for window in runner_of(_restored(tmp_path, query)).join.windows:
                    window.live_payload()
        file.write_bytes(data)
    _restored(tmp_path, query)


def test_damage_is_noticed_by_a_store_that_has_opened_the_part_before(tmp_path: Path, monkeypatch) -> None:
    """A micro-batch may run twice in a worker, and parts may move to another file unread."""
    query = _started(tmp_path, QUERIES["hash"])
    manifest = newest(store(tmp_path), 6)
    part = manifest.parts[min(payload_parts(manifest.metadata))]
    file = next(f for f in stored.files(tmp_path, "*.arrows") if f.name == part.file)
    data = bytearray(file.read_bytes())
    data[part.offset + part.bytes // 2] ^= 1
    file.write_bytes(data)

    held = store(tmp_path)
    held.load(manifest, lazy=True)
    op = wr.Operator(query)
    restore(runner_of(op), held.load(manifest, lazy=True))
    with pytest.raises(wr.StateError, match="is damaged"):
        for window in runner_of(op).join.windows:
            window.live_payload()
    with pytest.raises(wr.StateError, match="is damaged"):
        held.load(manifest)
    monkeypatch.setattr(part_catalog, "worth_rewriting", lambda *_: {part.file})
    with pytest.raises(wr.StateError, match="is damaged"):
        publish(held, 6, op)


def test_pieces_that_are_not_whole_pages_are_copied(tmp_path: Path) -> None:
    values = np.arange(8 * mapped_arrays.GRAIN)
    values.tofile(tmp_path / "values")
    contents = np.memmap(tmp_path / "values", values.dtype, "r")

    def place(address: int) -> FilePlace:
        return FilePlace(str(tmp_path / "values"), address - contents.ctypes.data)

    grain = mapped_arrays.GRAIN
    column = pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(contents)])
    stored = pa.record_batch({"n": column})
    pieces = {0: stored[:grain], grain: stored[3 * grain : 3 * grain + 7], grain + 7: stored[5:9]}
    found = assembled(4 * grain, pieces, place)["n"]
    expected = np.concatenate([values[:grain], values[3 * grain : 3 * grain + 7], values[5:9]])
    assert np.array_equal(found[: len(expected)], expected) and len(found) == 4 * grain
    found[:] = -1  # room for more, and the file stays as it is
    assert np.array_equal(contents, values)


# --- Trust ----------------------------------------------------------------------------------------------


def test_a_file_is_trusted_until_it_changes_or_the_machine_restarts(tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"contents")
    assert not is_trusted(str(file))
    trust(str(file))
    if not is_trusted(str(file)):
        pytest.skip("this filesystem keeps no notes with files")
    with monkeypatch.context() as restarted:
        restarted.setattr(trusted_files, "_start_of_machine", lambda: "another start")
        assert not is_trusted(str(file))
    assert is_trusted(str(file))
    file.write_bytes(b"CONTENTS")
    assert not is_trusted(str(file))
    assert not is_trusted(str(tmp_path / "none"))


def test_a_copy_that_is_used_stays_trusted(tmp_path: Path) -> None:
    cache = PartCache(tmp_path / "cache", lambda: 1e9)
    cache.put("file", pa.py_buffer(b"contents"))
    copy = str(cache.directory / "file")
    trust(copy)
    if not is_trusted(copy):
        pytest.skip("this filesystem keeps no notes with files")
    assert cache.get("file", 8, lambda: pytest.fail("it is there")).path == copy
    assert is_trusted(copy)


def test_where_no_notes_can_be_kept_files_are_verified(tmp_path: Path, monkeypatch) -> None:
    def refused(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "setxattr", refused)
    query = _started(tmp_path, QUERIES["hash"])
    state = store(tmp_path).load(newest(store(tmp_path), 6), lazy=True)
    assert len(state.checks) == sum(
        len(w.segments) for w in runner_of(_restored(tmp_path, query)).join.windows
    )


def test_a_damaged_copy_of_a_payload_is_fetched_again_when_it_is_read(tmp_path: Path) -> None:
    root = ArrowStorage("mock://bucket/states", fs._MockFileSystem(), "bucket/states")
    query = _started(root, QUERIES["hash"])

    def restored() -> wr.Operator:
        held, op = store(root, cache=tmp_path / "cache"), wr.Operator(query)
        restore(runner_of(op), held.load(newest(held, 6), lazy=True))
        return op

    whole = [window.live_payload() for window in runner_of(restored()).join.windows]
    manifest = newest(store(root), 6)
    for number in payload_parts(manifest.metadata):
        part = manifest.parts[number]
        copy = tmp_path / "cache" / part.file
        data = bytearray(copy.read_bytes())
        data[part.offset + part.bytes // 2] ^= 1
        copy.unlink()  # whoever has mapped it keeps it
        copy.write_bytes(data)
    again = [window.live_payload() for window in runner_of(restored()).join.windows]
    assert again == whole
