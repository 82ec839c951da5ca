"""Notices about slow starts: kernels are compiled on first use and cached on disk."""

from __future__ import annotations

import logging
from pathlib import Path

from windrow.kernels import probe_index

_log = logging.getLogger("windrow")
_announced = False


def is_compiled() -> bool:
    """Whether compiled kernels are cached on disk, for this join or another."""
    folder = Path(probe_index.probe_hash._cache.cache_path)
    return folder.is_dir() and any(folder.glob("*.nbi"))


def announce_compilation() -> None:
    """Announce, once per process, that first use is about to compile."""
    global _announced
    if not _announced and not is_compiled():
        _log.warning("compiling kernels for this machine: some seconds on first use, then kept on disk")
    _announced = True


def announce_first_batch() -> None:
    """Say why the first micro-batch of a query takes longest: as a warning if its workers must compile."""
    _log.log(logging.INFO if is_compiled() else logging.WARNING, first_batch_notice())


def first_batch_notice() -> str:
    """Why the first micro-batch of a streaming query takes longest."""
    return f"the first batch takes longest: workers {'load' if is_compiled() else 'compile'} the join"
