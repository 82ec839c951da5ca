"""Combinations of rows on which a condition over several streams fails.

A combination fails if every condition holds on it or fails, and at least one fails. Whether it does is known
only when all its rows are, so a probe follows it to the end and then judges it. So the number depends on the
rows alone, and not on the order in which streams are probed or rows arrive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock

import numpy as np
import pyarrow as pa

from windrow.expr.failures import Failure, error, failed_rows
from windrow.expr.parse import Reference
from windrow.model.stateful import Stateful


class FailedCombinations(Stateful):
    """Raises the error of a failed combination, or counts it."""

    saved = ("count",)

    def __init__(self, raises: bool) -> None:
        self._raises = raises
        self.count = 0
        self._lock = Lock()
        """Several threads may probe."""

    def add(self, failures: Sequence[Failure], columns: Mapping[Reference, pa.Array], length: int) -> None:
        if not failures:
            return
        rows = failed_rows(failures, length)
        if self._raises:
            raise error(failures, columns, int(rows.argmax()))
        with self._lock:
            self.count += int(np.count_nonzero(rows))
