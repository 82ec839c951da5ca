"""Files that this machine has written since it started, and that nobody has changed since.

A checksum guards against damage on the way and at rest. To verify all of a large window takes longer than
anything else in a restart, and most restarts are in another worker of the machine that wrote the files. So
the writer leaves a note with the file, as an extended attribute; it holds for this start of the machine and
for this size and time of modification. Where notes cannot be kept, every file is verified.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

_NOTE = "user.windrow.written"


def trust(path: str) -> None:
    """Notes that a file is as this machine wrote it."""
    if (note := _note(path)) is not None:
        with suppress(OSError):
            os.setxattr(path, _NOTE, note)


def is_trusted(path: str) -> bool:
    try:
        return (note := _note(path)) is not None and os.getxattr(path, _NOTE) == note
    except OSError:
        return False


def _note(path: str) -> bytes | None:
    start = _start_of_machine()
    if start is None:
        return None
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return f"{start} {found.st_ino} {found.st_size} {found.st_mtime_ns}".encode()


@cache
def _start_of_machine() -> str | None:
    """A name for the time since the machine started; None where there is none, or no extended attributes."""
    if not hasattr(os, "setxattr"):
        return None
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
