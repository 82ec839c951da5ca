"""Directories that only this user can write, for files that are mapped or executed without further checks.

Anybody can write to the system's temporary directory. Another user may create a directory there under a name
that this user's process expects, and put files into it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def private_directory(path: Path) -> Path | None:
    """The directory, created if necessary; None if another user could have put files into it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        if not is_private(path):
            return None
        path.chmod(0o700)  # one that existed before may have been readable by others
    except OSError:
        return None
    return path


def is_private(path: Path) -> bool:
    """Whether the path is this user's directory, not a link, that nobody else can write to or replace."""
    try:
        found, parent = path.lstat(), path.parent.stat()
    except OSError:
        return False
    replaceable = parent.st_mode & stat.S_IWOTH and not parent.st_mode & stat.S_ISVTX
    return stat.S_ISDIR(found.st_mode) and _own(found) and not replaceable


def is_own_file(path: Path, contents: bytes) -> bool:
    """Whether the path is a file with these contents, not a link, that only this user can write."""
    try:
        return stat.S_ISREG(path.lstat().st_mode) and _own(path.lstat()) and path.read_bytes() == contents
    except OSError:
        return False


def _own(found: os.stat_result) -> bool:
    """Whether this user owns it and nobody else can write to it."""
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
