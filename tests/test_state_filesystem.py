"""States that are not in a plain local directory, and the copies of them on this machine."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import fs

import stored
import windrow as wr
from stored import batches, collect, commit, newest, run, store, uninterrupted
from windrow.state import StateStore
from windrow.state.inspect import show, verify
from windrow.state.local_storage import LocalStorage
from windrow.state.part_cache import PartCache
from windrow.state.storage import ArrowStorage, Storage, open_storage

CALLS = batches(12, 100)


def _mock(path: Path) -> Storage:
    """An object store as pyarrow's own tests have it: in memory, behind the same interface as any other."""
    return ArrowStorage("mock://bucket/states", fs._MockFileSystem(), "bucket/states")


def _subtree(path: Path) -> Storage:
    return ArrowStorage("sub://states", fs.SubTreeFileSystem(str(path), fs.LocalFileSystem()), "states")


def _fsspec(path: Path) -> Storage:
    pytest.importorskip("fsspec")
    return open_storage(f"memory://{path.name}")


ROOTS: list[Callable[[Path], object]] = [
    lambda path: f"file://{path}",
    lambda path: f"file:{path}",
    _mock,
    _subtree,
    _fsspec,
]


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("root", ROOTS, ids=["file url", "spark's file url", "mock", "subtree", "fsspec"])
def test_any_place_will_do(tmp_path: Path, root: Callable[[Path], object], cached: bool) -> None:
    place, cache = root(tmp_path / "states"), tmp_path / "cache" if cached else None
    answer = run(
        lambda: store(place, cache=cache),
        CALLS,
        reload=lambda batch: batch % 3 == 0,
        committed=lambda held, batch: collect(held, batch - 1),
    )
    assert answer == uninterrupted(CALLS)
    verdict = verify(place)
    assert (verdict.joins, verdict.damage) == (1, ())
    (state,) = show(place)
    assert state.stored[0].batches == (8, 9, 10, 11)
    assert bool(cached and stored.files(tmp_path / "cache")) == (cached and not open_storage(place).local)


def test_paths_and_urls() -> None:
    for path in ("/data/a b", "file:///data/a%20b", "file:/data/a%20b"):
        root = open_storage(path)
        assert isinstance(root, LocalStorage) and root.directory == Path("/data/a b")
    assert open_storage("relative").directory == Path.cwd() / "relative"


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(wr.StateError, match=r"cannot open the state path 'nonsense://x'"):
        open_storage("nonsense://x")


class _Full(stored.Wrapped):
    """A filesystem that refuses to take any file."""

    def open_output_stream(self, path: str) -> None:
        raise OSError(28, "No space left on device", path)


def test_a_refused_write_elsewhere_loses_nothing() -> None:
    inner = fs._MockFileSystem()
    root = ArrowStorage("mock://states", inner, "states")
    run(lambda: store(root), CALLS[:3])
    full = store(ArrowStorage("mock://states", _Full(inner), "states"))
    state = full.load(newest(full, 3))
    with pytest.raises(wr.StateError, match=r"cannot write the state of batch 3.*mock://states.*free some"):
        commit(full, 3, state, ())
    assert newest(store(root), 10).batch == 2
    assert verify(root).damage == ()


# --- The cache ------------------------------------------------------------------------------------------


def _remote_with_cache(tmp_path: Path) -> tuple[Storage, Callable[[], StateStore]]:
    root = _mock(tmp_path)
    run(lambda: store(root), CALLS[:4], reload=lambda _: False)
    return root, lambda: store(root, cache=tmp_path / "cache")


def test_copies_are_made_once_and_mapped(tmp_path: Path) -> None:
    _, opened = _remote_with_cache(tmp_path)
    first = opened().load(newest(opened(), 4))
    copies = {file: file.stat().st_ino for file in stored.files(tmp_path / "cache", "*.arrows")}
    assert {file.name for file in copies} == set(newest(opened(), 4).files)
    before = pa.total_allocated_bytes()
    second = opened().load(newest(opened(), 4))
    assert pa.total_allocated_bytes() - before < 4096 * len(second.parts)
    assert all(a.equals(b) for a, b in zip(first.parts, second.parts, strict=True))
    again = {file: file.stat().st_ino for file in stored.files(tmp_path / "cache", "*.arrows")}
    assert again == copies


def test_what_is_published_is_in_the_cache_at_once(tmp_path: Path) -> None:
    root = _mock(tmp_path)
    run(lambda: store(root, cache=tmp_path / "cache"), CALLS[:2], reload=lambda _: False)
    assert set(newest(store(root), 2).files) <= {file.name for file in stored.files(tmp_path / "cache")}


def test_a_damaged_copy_is_fetched_again(tmp_path: Path) -> None:
    _, opened = _remote_with_cache(tmp_path)
    whole = opened().load(newest(opened(), 4))
    rng = Random(0)
    for spoil in (lambda d: d[:-1], lambda d: b"", lambda d: _flip(d, rng)):
        for file in stored.files(tmp_path / "cache"):
            file.write_bytes(spoil(file.read_bytes()))
        again = opened().load(newest(opened(), 4))
        assert all(a.equals(b) for a, b in zip(whole.parts, again.parts, strict=True))


def _flip(data: bytes, rng: Random) -> bytes:
    spoiled = bytearray(data)
    for place in range(100, len(data), 50):
        spoiled[place] ^= 1 << rng.randrange(8)
    return bytes(spoiled)


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    root, _ = _remote_with_cache(tmp_path)
    (tmp_path / "file").write_text("")
    held = store(root, cache=tmp_path / "file")
    assert held.load(newest(held, 4)).parts
    collect(held, 3)


def test_copies_nobody_uses_go(tmp_path: Path) -> None:
    now = [time.time()]
    cache = PartCache(tmp_path, lambda: now[0], unused=60)
    data = pa.py_buffer(b"contents")
    for name in ("used", "unused"):
        cache.put(name, data)
    now[0] += 50
    mapped = cache.get("used", data.size, lambda: pytest.fail("there is a copy"))
    now[0] += 50
    cache.trim()
    assert [file.name for file in stored.files(tmp_path)] == ["used"]
    now[0] += 100
    cache.trim()
    assert stored.files(tmp_path) == []
    assert mapped.buffer.to_pybytes() == b"contents"  # whoever has mapped a copy keeps it


def test_the_least_recently_used_copies_make_room(tmp_path: Path) -> None:
    now = [time.time()]
    cache = PartCache(tmp_path, lambda: now[0], largest=30)
    for name in ("a", "b", "c"):
        cache.put(name, pa.py_buffer(bytes(10)))
        os.utime(tmp_path / name, (now[0], now[0]))
        now[0] += 1
    cache.get("a", 10, lambda: pytest.fail("there is a copy"))
    now[0] += 1
    cache.put("d", pa.py_buffer(bytes(15)))
    assert {file.name for file in stored.files(tmp_path)} == {"a", "d"}
    assert cache.get("large", 31, lambda: pa.py_buffer(bytes(31))).path is None
    assert {file.name for file in stored.files(tmp_path)} == {"a", "d"}


def test_a_disk_that_is_nearly_full_gets_no_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = SimpleNamespace(total=1000, used=880, free=120)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    root, opened = _remote_with_cache(tmp_path)
    found = opened().load(newest(opened(), 4))
    assert stored.files(tmp_path / "cache") == []
    whole = store(root).load(newest(store(root), 4))
    assert all(a.equals(b) for a, b in zip(found.parts, whole.parts, strict=True))
    PartCache(tmp_path / "small", time.time).put("part", pa.py_buffer(bytes(20)))
    assert [file.name for file in stored.files(tmp_path / "small")] == ["part"]
