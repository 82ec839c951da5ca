"""Lost, damaged and refused files: a clear error, the version before stands, and `verify` finds each."""

from __future__ import annotations

import json
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

import stored
import windrow as wr
from stored import QUERY, batches, newest, publish, required, revived, started, store
from windrow.cli.state import app
from windrow.engine.query_changes import fingerprint
from windrow.state import manifest
from windrow.state.inspect import show, verify
from windrow.state.join_metadata import FORMAT
from windrow.state.local_storage import ASIDE, LocalStorage
from windrow.state.manifest import sealed, unsealed
from windrow.state.storage import Entry


def _manifest(root: Path, batch: int) -> Path:
    return stored.files(root, f"batch-*{batch}/p0.*.json")[0]


def _go_on(root: Path) -> None:
    held = store(root)
    held.log.check_metadata(fingerprint(QUERY), first=False)
    held.load(required(held, 3))


def _newest_parts(root: Path) -> Path:
    manifest = newest(store(root), 3)
    return next(p for p in stored.files(root, "*.arrows") if manifest.content in p.name)


# --- Damage ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 0.5, -1])
def test_a_truncated_part_file_is_noticed(tmp_path: Path, size: float) -> None:
    started(tmp_path)
    file = _newest_parts(tmp_path)
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * size) if 0 < size < 1 else int(size)])
    with pytest.raises(wr.StateError, match=rf"{file} is damaged: it has .* bytes.*new checkpoint"):
        _go_on(tmp_path)
    assert [d.path for d in verify(str(tmp_path)).damage] == [str(file)]


def test_a_part_file_with_something_after_it_is_noticed(tmp_path: Path) -> None:
    started(tmp_path)
    file = _newest_parts(tmp_path)
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(wr.StateError, match="damaged"):
        _go_on(tmp_path)


def test_a_deleted_part_file_is_noticed(tmp_path: Path) -> None:
    started(tmp_path)
    file = _newest_parts(tmp_path)
    file.unlink()
    with pytest.raises(wr.StateError, match=rf"{file} is damaged: it is missing, and batch 2 needs it"):
        _go_on(tmp_path)
    assert [d.path for d in verify(str(tmp_path)).damage] == [str(file)]


def test_any_flipped_bit_of_a_part_is_noticed(tmp_path: Path) -> None:
    started(tmp_path)
    file, rng = _newest_parts(tmp_path), Random(0)
    data = file.read_bytes()
    for part in [p for p in newest(store(tmp_path), 3).parts if p.file == file.name]:
        for place in (0, part.bytes - 1, *(rng.randrange(part.bytes) for _ in range(20))):
            flipped = bytearray(data)
            flipped[part.offset + place] ^= 1 << rng.randrange(8)
            file.write_bytes(flipped)
            with pytest.raises(wr.StateError, match="checksum"):
                _go_on(tmp_path)
    assert [d.path for d in verify(str(tmp_path)).damage] == [str(file)]


class _ListedBackwards(LocalStorage):
    def entries(self, path: str, below: bool = False) -> list[Entry]:
        return sorted(super().entries(path, below), key=lambda entry: entry.name, reverse=True)


def test_parts_that_only_an_older_version_names_are_verified(tmp_path: Path) -> None:
    """Versions share files. A newer one names some parts of a file, an older one more of them."""
    started(tmp_path, 4, 4000)
    named = {
        (tmp_path / path.parents[2].relative_to(tmp_path) / "p0" / part.file, part)
        for path in stored.files(tmp_path, "batch-*/p0.*.json")
        for part in manifest.Manifest.from_bytes(path.read_bytes(), "").parts
    }
    in_files = [(file, part) for file, part in named if file.exists()]
    assert in_files
    for file, part in in_files:
        data = bytearray(before := file.read_bytes())
        data[part.offset + part.bytes // 2] ^= 1
        file.write_bytes(data)
        assert verify(_ListedBackwards(tmp_path)).damage, part
        file.write_bytes(before)


@pytest.mark.parametrize("name", ["batch-*2/p0.*.json", "join.json"])
def test_any_damage_of_a_manifest_or_description_is_noticed(tmp_path: Path, name: str) -> None:
    started(tmp_path)
    (file,), rng = stored.files(tmp_path, name), Random(0)
    data = file.read_bytes()
    cut = [data[:size] for size in (0, 1, 20, len(data) // 2, len(data) - 1)]
    flipped = [bytearray(data) for _ in range(60)]
    for place, copy in enumerate(flipped):
        copy[place if place < 40 else rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    for damaged in (*cut, *flipped, data + b"\n", b"{}", b"\xff\xfe"):
        file.write_bytes(damaged)
        with pytest.raises(wr.StateError, match=f"{file} is damaged"):
            _go_on(tmp_path)
        assert [d.path for d in verify(str(tmp_path)).damage] == [str(file)]


def test_a_deleted_manifest_is_no_way_back_to_an_older_version(tmp_path: Path) -> None:
    started(tmp_path)
    _manifest(tmp_path, 2).unlink()
    with pytest.raises(wr.StateError, match="batch 2: commit markers are missing for 1 of 1 partitions"):
        _go_on(tmp_path)


def test_a_deleted_partition_is_no_empty_one(tmp_path: Path) -> None:
    started(tmp_path)
    files = stored.files(tmp_path / "query" / "join" / "p0")
    for file in files:
        file.unlink()
    (tmp_path / "query" / "join" / "p0").rmdir()
    with pytest.raises(wr.StateError, match="it is missing, and batch 2 needs it"):
        _go_on(tmp_path)
    assert {d.path for d in verify(str(tmp_path)).damage} == set(map(str, files))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", f'{{"format": {FORMAT}}}', f'{{"format": {FORMAT}, "other": 2}}']
)
@pytest.mark.parametrize("checksum", [False, True])
def test_a_damaged_description_is_noticed(tmp_path: Path, text: str, checksum: bool) -> None:
    started(tmp_path)
    file = tmp_path / "query" / "join" / "join.json"
    file.write_bytes(sealed("join", text.encode()) if checksum else text.encode())
    with pytest.raises(wr.StateError, match=f"{file} is damaged"):
        _go_on(tmp_path)
    assert [d.path for d in verify(str(tmp_path)).damage] == [str(file)]


def test_another_format_is_refused(tmp_path: Path) -> None:
    started(tmp_path)
    file = tmp_path / "query" / "join" / "join.json"
    body = unsealed("join", file.read_bytes(), "")
    later = body.replace(b'"format": %d' % FORMAT, b'"format": 99').replace(b'"windrow": "', b'"windrow": "9')
    file.write_bytes(sealed("join", later))
    wrote, reads = (
        f"format 99, written by Windrow 9{wr.__version__}",
        f"which reads formats 6, 7, 8, 9, {FORMAT}",
    )
    with pytest.raises(wr.StateError, match=f"{wrote}; this is Windrow {wr.__version__}, {reads}"):
        _go_on(tmp_path)
    (found,) = verify(str(tmp_path)).damage
    assert found.path == str(file) and wrote in found.how


def test_a_manifest_of_another_format_is_refused(tmp_path: Path) -> None:
    started(tmp_path)
    for file in stored.files(tmp_path, "p0.*.json"):
        body = unsealed("manifest", file.read_bytes(), "")
        saved = json.loads(body)
        saved |= {"format": 1, "windrow": "0.0.1"}
        file.write_bytes(sealed("manifest", json.dumps(saved).encode()))
    wrote, reads = "format 1, written by Windrow 0.0.1", f"which reads formats 6, 7, 8, 9, {manifest.FORMAT}"
    with pytest.raises(wr.StateError, match=f"{wrote}; this is Windrow {wr.__version__}, {reads}"):
        _go_on(tmp_path)


# --- Refused writes -------------------------------------------------------------------------------------


@contextmanager
def _small_files(most: int) -> Iterator[None]:
    """No file of this process may grow beyond `most` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def _small_disk(directory: Path) -> Iterator[None]:
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(directory)]
    try:
        refused = subprocess.run(mount, capture_output=True, check=False).returncode
    except FileNotFoundError:
        refused = 1
    if refused:
        pytest.skip("mounting a small disk is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def _refused_then_taken(root: Path, held: stored.StateStore, told: str) -> None:
    """A publication fails; the version before it stands, nothing half-written is left, and once there is
    room the same store goes on."""
    before = stored.files(root)
    large = wr.Operator(QUERY)
    large.process(batches(1, 20_000)[0])
    with pytest.raises(wr.StateError, match=rf"cannot write the state of batch 3.*{told}.*free some space"):
        publish(held, 3, large)
    assert stored.files(root) == before
    assert not verify(str(root)).damage
    _go_on(root)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    with _small_disk(root):
        held = started(root, rows=100)
        _refused_then_taken(root, held, "No space left")
        op = revived(QUERY, held.load(newest(held, 3)))
        op.process(batches(4, 100)[3])
        assert publish(held, 3, op).batch == 3
        assert not verify(str(root)).damage


@pytest.mark.parametrize("most", [100, 5_000, 100_000])
def test_a_file_that_may_not_grow_loses_nothing(tmp_path: Path, most: int) -> None:
    held = started(tmp_path, rows=100)
    with _small_files(most):
        _refused_then_taken(tmp_path, held, "File too large")
    op = revived(QUERY, held.load(newest(held, 3)))
    op.process(batches(4, 100)[3])
    assert publish(held, 3, op).batch == 3
    assert not [f for f in stored.files(tmp_path) if f.name.startswith(ASIDE)]


def test_a_root_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(wr.StateError, match=r"cannot write .*Nothing is lost"):
        store(tmp_path / "file").log.check_metadata(fingerprint(QUERY), first=True)


# --- The command line -----------------------------------------------------------------------------------


def _windrow_state(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    return done.exit_code, done.output


def test_show_tells_what_is_stored(tmp_path: Path) -> None:
    held = started(tmp_path, rows=300)
    (state,) = show(str(tmp_path))
    (partition,) = state.stored
    manifest = newest(held, 3)
    assert (state.query, state.join, state.partitions, state.on) == ("query", "join", 1, "a.k = b.k")
    assert partition.batches == (0, 1, 2)
    assert partition.rows == manifest.rows() and sum(partition.rows.values()) > 300
    assert partition.live_bytes <= partition.disk_bytes
    code, text = _windrow_state("show", tmp_path)
    assert code == 0
    for shown in ("rows of a", "rows of b", "0 to 2", "join join of query query"):
        assert shown in text
    code, text = _windrow_state("show", tmp_path, "--json")
    assert json.loads(text)[0]["stored"][0]["rows"] == partition.rows


def test_verify_tells_sound_from_damaged(tmp_path: Path) -> None:
    started(tmp_path)
    code, text = _windrow_state("verify", tmp_path)
    assert (code, "sound: 3 manifests" in text) == (0, True)
    _newest_parts(tmp_path).write_bytes(b"")
    _manifest(tmp_path, 0).write_bytes(b"")
    code, text = _windrow_state("verify", tmp_path)
    assert (code, "damaged: 2" in text) == (1, True)
    code, text = _windrow_state("verify", tmp_path, "--json")
    assert (code, len(json.loads(text)["damage"])) == (1, 2)


@pytest.mark.parametrize("command", ["show", "verify"])
def test_nothing_there_has_its_own_exit_code(tmp_path: Path, command: str) -> None:
    assert _windrow_state(command, tmp_path)[0] == 2
    assert _windrow_state(command, tmp_path / "nowhere")[0] == 2
