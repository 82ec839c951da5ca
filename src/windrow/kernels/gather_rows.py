"""Copies rows out of the Arrow buffers of several segments.

Arrow's `take` on a chunked column first concatenates the chunks, which costs as much as the whole window.
These kernels read each row in place. A buffer is passed as its address; result row r is row `row[r]` of
segment `seg[r]`.
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


@njit(cache=True, nogil=True)
def locate(positions: Any, starts: Any, seg: Any, row: Any) -> None:
    """Segment and row of each position. `starts` ascends and ends with the end of the last segment.

    A table holds the segment of every 256th position, from which the search goes on.
    """
    base = starts[0]
    blocks = np.empty(((starts[len(starts) - 1] - base) >> 8) + 1, np.int32)
    s = 0
    for b in range(len(blocks)):
        while starts[s + 1] <= base + (b << 8) and s < len(starts) - 2:
            s += 1
        blocks[b] = s
    for r in range(len(positions)):
        p = positions[r]
        s = blocks[(p - base) >> 8]
        while p >= starts[s + 1]:
            s += 1
        seg[r] = s
        row[r] = p - starts[s]


@njit(cache=True, inline="always")
def _gather_as(sources: Any, seg: Any, row: Any, target: int, width: Any) -> None:
    out = carray(_pointer(target), (len(seg),), width)
    for r in range(len(seg)):
        out[r] = carray(_pointer(sources[seg[r]]), (_HUGE,), width)[row[r]]


@njit(cache=True, nogil=True)
def gather_narrow(sources: Any, targets: Any, seg: Any, row: Any) -> None:
    """Several columns of values of 1, 2, 4 or 8 bytes. `sources` holds the address of each column in each
    segment, `targets` the address of each column of the result, and its width."""
    for k in range(len(sources)):
        target, width = targets[0, k], targets[1, k]
        if width == 8:
            _gather_as(sources[k], seg, row, target, np.uint64)
        elif width == 4:
            _gather_as(sources[k], seg, row, target, np.uint32)
        elif width == 2:
            _gather_as(sources[k], seg, row, target, np.uint16)
        else:
            _gather_as(sources[k], seg, row, target, np.uint8)


@njit(cache=True, nogil=True)
def gather_wide(addresses: Any, seg: Any, row: Any, out: Any) -> None:
    """Values of a multiple of 8 bytes, as rows of `out`."""
    words = out.shape[1]
    for r in range(len(out)):
        source = carray(_pointer(addresses[seg[r]]), (_HUGE,), np.uint64)
        for k in range(words):
            out[r, k] = source[row[r] * words + k]


@njit(cache=True, nogil=True)
def gather_bits(addresses: Any, offsets: Any, seg: Any, row: Any, out: Any) -> None:
    """Bits (booleans, validity) as bytes of 0 and 1; address 0 means that all are 1."""
    for r in range(len(out)):
        s = seg[r]
        if addresses[s] == 0:
            out[r] = 1
        else:
            bit = offsets[s] + row[r]
            out[r] = (carray(_pointer(addresses[s]), (_HUGE,), np.uint8)[bit >> 3] >> (bit & 7)) & 1


@njit(cache=True, nogil=True)
def find_strings(
    offset_addresses: Any, data_addresses: Any, seg: Any, row: Any, narrow: Any, found: Any, ends: Any
) -> Any:
    """The address of each string (`found`) and its end in the result (`ends`); returns the total length.

    `narrow` is an array of the type of the source's offsets.
    """
    total = np.int64(0)
    ends[0] = 0
    for r in range(len(seg)):
        s = seg[r]
        offsets = carray(_pointer(offset_addresses[s]), (_HUGE,), narrow.dtype)
        begin = np.int64(offsets[row[r]])
        total += np.int64(offsets[row[r] + 1]) - begin
        found[r] = data_addresses[s] + begin
        ends[r + 1] = total
    return total


@njit(cache=True, inline="always")
def _copy(source: Any, target: Any, width: Any) -> None:
    """One value of this width, at any address."""
    carray(_pointer(target), (1,), width)[0] = carray(_pointer(source), (1,), width)[0]


@njit(cache=True, inline="always")
def _copy_bytes(source: Any, target: Any, length: Any) -> None:
    """Copies eight bytes at a time. The last eight may overlap those before."""
    if length >= 8:
        for k in range(0, length - 8, 8):
            _copy(source + k, target + k, np.uint64)
        _copy(source + length - 8, target + length - 8, np.uint64)
    elif length >= 4:
        _copy(source, target, np.uint32)
        _copy(source + length - 4, target + length - 4, np.uint32)
    else:
        for k in range(length):
            _copy(source + k, target + k, np.uint8)


@njit(cache=True, nogil=True)
def gather_bytes(found: Any, ends: Any, out: Any) -> None:
    """Copies the bytes of the strings that `find_strings` found."""
    base = out.ctypes.data
    for r in range(len(found)):
        length = np.int64(ends[r + 1]) - np.int64(ends[r])
        _copy_bytes(found[r], base + np.int64(ends[r]), length)


@njit(cache=True, nogil=True)
def pick_fixed(address: int, rows: Any, first: int, out: Any) -> None:
    """Values of 1, 2, 4 or 8 bytes of one buffer; value 0 belongs to row `first`."""
    source = carray(_pointer(address), (_HUGE,), out.dtype)
    for r in range(len(rows)):
        out[r] = source[rows[r] - first]


@njit(cache=True, nogil=True)
def pick_lengths(address: int, rows: Any, first: int, total: int, ends: Any) -> int:
    """The ends of the strings of these rows after `total` bytes; returns the end of the last."""
    offsets = carray(_pointer(address), (_HUGE,), ends.dtype)
    upto = np.int64(total)
    for r in range(len(rows)):
        at = rows[r] - first
        upto += np.int64(offsets[at + 1]) - np.int64(offsets[at])
        ends[r] = upto
    return int(upto)


@njit(cache=True, nogil=True)
def pick_bytes(
    offset_address: int, data_address: int, rows: Any, first: int, begin: int, ends: Any, out: Any
) -> None:
    """Copies the strings of these rows to `out`, from `begin` on, one by one. To find neighbours and copy
    them at once takes longer, because the processor mispredicts how many there are."""
    offsets = carray(_pointer(offset_address), (_HUGE,), ends.dtype)
    base, before = out.ctypes.data, np.int64(begin)
    for r in range(len(rows)):
        source = data_address + np.int64(offsets[rows[r] - first])
        end = np.int64(ends[r])
        _copy_bytes(source, base + before, end - before)
        before = end
