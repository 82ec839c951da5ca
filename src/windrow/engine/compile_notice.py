"""Notices about slow starts: kernels are compiled on first use and cached on disk."""

from __future__ import annotations

import logging
from collections.abc import Callable
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


def announce_first_batch(show: Callable[[str], object] | None = None) -> None:
    """Report why the first micro-batch of a query takes longest, and warn if its workers must compile. A
    command may `show` it; if there is a warning, that is enough."""
    compiled = is_compiled()
    notice = f"the first batch takes longest: workers {'load' if compiled else 'compile'} the join"
    if show is None:
        _log.log(logging.INFO if compiled else logging.WARNING, notice)
    elif compiled:
        show(notice)
