"""What is known of a row's part in an outer join when it arrives, as bits of one number.

A row whose word is null or NaN can be in no inner result and is left out there. In an outer join it may still
be in a result that lacks a row of the other stream. So such rows are stored, and flags say which of their
words have a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from windrow.errors import QueryError
from windrow.model.predicate import JoinColumn

Array = np.ndarray
WHOLE = 1
"""The row can be in a result that has a row of every stream."""
PASSED = 2
"""The row fulfils the conditions on its stream alone."""
_FIRST_WORD = 2
MOST_WORDS = 60


def word_flags(words: Iterable[JoinColumn], numbers: Mapping[JoinColumn, int]) -> int:
    """The bits that say that these words have a value. Sets have none: that of a null is empty."""
    found = 0
    for word in words:
        if word.kind != "set":
            found |= 1 << (_FIRST_WORD + numbers[word])
    return found


def row_flags(count: int, passed: Array | None, valid: Sequence[Array | None], alike: Array | None) -> Array:
    """`alike` is a mask of the rows whose words that must be equal are; None stands for all rows."""
    if len(valid) > MOST_WORDS:
        raise QueryError(
            f"on: an outer join compares up to {MOST_WORDS} expressions of a stream, got {len(valid)}"
        )
    flags = np.full(count, WHOLE, np.int64)
    flags |= _bits(PASSED, passed)
    for mask in (passed, alike, *valid):
        if mask is not None:
            flags &= np.where(mask, -1, ~WHOLE)
    for k, mask in enumerate(valid):
        flags |= _bits(1 << (_FIRST_WORD + k), mask)
    return flags


def _bits(bit: int, mask: Array | None) -> Array | np.int64:
    return np.int64(bit) if mask is None else np.where(mask, np.int64(bit), np.int64(0))
