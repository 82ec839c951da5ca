"""Copying rows out of Arrow buffers that lie in several segments.

Arrow's own `take` on a chunked column first joins the chunks, at a cost of the whole window; these
kernels read each row where it lies. A buffer is passed as its address; `seg[r]`, `row[r]` say where
result row r is found.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_HUGE = 1 << 40


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:
    """An address as a pointer that `carray` takes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


@njit(cache=True)
def locate(positions: Any, starts: Any, seg: Any, row: Any) -> None:
    """Segment and row in it for each position; `starts` ascending, with the end of the last appended.

    Neighbouring positions mostly share a segment, so the last one found is tried first.
    """
    s = 0
    for r in range(len(positions)):
        p = positions[r]
        if p < starts[s] or p >= starts[s + 1]:
            lo, hi = 0, len(starts) - 1
            while lo < hi - 1:
                mid = (lo + hi) >> 1
                if starts[mid] <= p:
                    lo = mid
                else:
                    hi = mid
            s = lo
        seg[r] = s
        row[r] = p - starts[s]


@njit(cache=True)
def gather_fixed(addresses: Any, seg: Any, row: Any, out: Any) -> None:
    """Values of 1, 2, 4 or 8 bytes; `out` says how wide."""
    for r in range(len(out)):
        out[r] = carray(_pointer(addresses[seg[r]]), (_HUGE,), out.dtype)[row[r]]


@njit(cache=True)
def gather_wide(addresses: Any, seg: Any, row: Any, out: Any) -> None:
    """Values of a multiple of 8 bytes, as rows of `out`."""
    words = out.shape[1]
    for r in range(len(out)):
        source = carray(_pointer(addresses[seg[r]]), (_HUGE,), np.uint64)
        for k in range(words):
            out[r, k] = source[row[r] * words + k]


@njit(cache=True)
def gather_bits(addresses: Any, offsets: Any, seg: Any, row: Any, out: Any) -> None:
    """Bits (booleans, validity) as bytes of 0 and 1; address 0 means that all are 1."""
    for r in range(len(out)):
        s = seg[r]
        if addresses[s] == 0:
            out[r] = 1
        else:
            bit = offsets[s] + row[r]
            out[r] = (carray(_pointer(addresses[s]), (_HUGE,), np.uint8)[bit >> 3] >> (bit & 7)) & 1


@njit(cache=True)
def gather_lengths(addresses: Any, seg: Any, row: Any, out_offsets: Any, narrow: Any) -> int:
    """Offsets of the gathered strings; returns their total length. `narrow` is of the source's offset type."""
    total = np.int64(0)
    out_offsets[0] = 0
    for r in range(len(seg)):
        offsets = carray(_pointer(addresses[seg[r]]), (_HUGE,), narrow.dtype)
        total += np.int64(offsets[row[r] + 1]) - np.int64(offsets[row[r]])
        out_offsets[r + 1] = total
    return total


@njit(cache=True)
def gather_bytes(
    offset_addresses: Any, data_addresses: Any, seg: Any, row: Any, out_offsets: Any, out: Any, narrow: Any
) -> None:
    """The strings' bytes, eight at a time."""
    for r in range(len(seg)):
        s = seg[r]
        begin = np.int64(carray(_pointer(offset_addresses[s]), (_HUGE,), narrow.dtype)[row[r]])
        at = np.int64(out_offsets[r])
        length = np.int64(out_offsets[r + 1]) - at
        source = data_addresses[s] + begin
        target = out.ctypes.data + at
        k = 0
        while k + 8 <= length:
            carray(_pointer(target + k), (1,), np.uint64)[0] = carray(_pointer(source + k), (1,), np.uint64)[
                0
            ]
            k += 8
        while k < length:
            out[at + k] = carray(_pointer(source + k), (1,), np.uint8)[0]
            k += 1
