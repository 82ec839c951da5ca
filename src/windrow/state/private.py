"""Directories of this user alone, for what is mapped or run without asking where it came from.

Temporary directories belong to everybody: whoever comes first may make a directory of any name there, and put
into it what another user's process will later find.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def private_directory(path: Path) -> Path | None:
    """The directory, made if there is none; None if somebody else could have put something into it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        if not is_private(path):
            return None
        path.chmod(0o700)  # others may have been able to read it
    except OSError:
        return None
    return path


def is_private(path: Path) -> bool:
    """Whether it is a directory and no link, of this user, that nobody else can write to or replace."""
    try:
        found, parent = path.lstat(), path.parent.stat()
    except OSError:
        return False
    replaceable = parent.st_mode & stat.S_IWOTH and not parent.st_mode & stat.S_ISVTX
    return stat.S_ISDIR(found.st_mode) and _own(found) and not replaceable


def is_own_file(path: Path, contents: bytes) -> bool:
    """Whether this is a file, no link, that only this user can write, and holds just this."""
    try:
        return stat.S_ISREG(path.lstat().st_mode) and _own(path.lstat()) and path.read_bytes() == contents
    except OSError:
        return False


def _own(found: os.stat_result) -> bool:
    """This user's, and not for others to write."""
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
