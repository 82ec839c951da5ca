"""64-bit hashes of bytes, the same on every machine and in every run.

The hash multiplies and rotates eight bytes at a time into its state, as in the xxHash family. The tail of a
string is one more word, the length is mixed in, and a final avalanche spreads every input bit over all output
bits. It does not resist an adversary, but the join verifies matches on the values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: its multiples are spread evenly over all 64-bit numbers."""
_MIX1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX2 = np.uint64(0xC4CEB9FE1A85EC53)
_R33 = np.uint64(33)
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_R31 = np.uint64(31)
_R8 = np.uint64(8)
_R16 = np.uint64(16)
_R32 = np.uint64(32)


@njit(cache=True, inline="always")
def avalanche(h: np.uint64) -> np.uint64:
    """The final mixing, in which every bit of the input affects every bit of the output."""
    h ^= h >> _R33
    h *= _MIX1
    h ^= h >> _R33
    h *= _MIX2
    h ^= h >> _R33
    return h


@njit(cache=True, inline="always")
def _absorb(h: np.uint64, word: np.uint64) -> np.uint64:
    h ^= word * _P2
    h = (h << _R31) | (h >> _R33)
    return h * _P1 + _P3


def _load(bits: int) -> Any:
    """An intrinsic that reads 32 or 64 bits of a uint8 array in one unaligned load, which numba cannot
    express."""

    @intrinsic
    def load(typing_context: Any, data: Any, position: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            address = builder.gep(array.data, [arguments[1]])
            word = builder.load(builder.bitcast(address, ir.IntType(bits).as_pointer()), align=1)
            return builder.zext(word, ir.IntType(64)) if bits < 64 else word

        return types.uint64(data, types.int64), generate

    return load


word_at = _load(64)
half_at = _load(32)


@njit(cache=True, inline="always")
def _hash_range(data: np.ndarray, start: int, stop: int) -> np.uint64:
    length = stop - start
    h = _P3 ^ (np.uint64(length) * _P1)
    position = start
    # Invariant: all bytes before `position` are absorbed.
    while position + 8 <= stop:
        h = _absorb(h, word_at(data, position))
        position += 8
    # The tail is read in words that may overlap bytes already absorbed: harmless, and one load instead of a
    # loop.
    if position < stop:
        if length >= 8:
            tail = word_at(data, stop - 8)
        elif length >= 4:
            tail = half_at(data, start) | (half_at(data, stop - 4) << _R32)
        else:
            tail = np.uint64(data[start]) | (np.uint64(data[start + length // 2]) << _R8)
            tail |= np.uint64(data[stop - 1]) << _R16
        h = _absorb(h, tail)
    return avalanche(h)


@njit(cache=True, nogil=True)
def hash_bytes(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """One hash per string: string i is data[offsets[i]:offsets[i + 1]]."""
    count = len(offsets) - 1
    out = np.empty(max(count, 0), np.int64)
    for i in range(count):
        out[i] = np.int64(_hash_range(data, np.int64(offsets[i]), np.int64(offsets[i + 1])))
    return out


@njit(cache=True, nogil=True)
def hash_fixed(data: np.ndarray, width: int) -> np.ndarray:
    """One hash per value of `width` bytes, equal to that of `hash_bytes` for the same bytes."""
    count = len(data) // width
    out = np.empty(count, np.int64)
    for i in range(count):
        out[i] = np.int64(_hash_range(data, i * width, (i + 1) * width))
    return out


@njit(cache=True, nogil=True)
def combine(h: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Combines two numbers per row into one. The order of the arguments matters."""
    out = np.empty(len(h), np.int64)
    for i in range(len(h)):
        state = _absorb(_absorb(_P3, np.uint64(h[i])), np.uint64(other[i]))
        out[i] = np.int64(avalanche(state))
    return out
