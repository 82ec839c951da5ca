"""Spark's `xxhash64`, so that a row read here goes to the partition that Spark would send it to.

The hash of several columns is a chain: the hash of one value is the seed of the next, and a null leaves it as
it is. The arrays `h` hold the seeds and receive the hashes. An empty `valid` means that no value is null.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.hashing import half_at, word_at

SEED = np.uint64(42)
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_FOUR = np.uint64(4)
_EIGHT = np.uint64(8)
_LOW = np.uint64(0xFFFFFFFF)
_R29 = np.uint64(29)
_R32 = np.uint64(32)
_R33 = np.uint64(33)
_R64 = np.uint64(64)
_BYTES = 16
"""Bytes of a wide decimal."""


@njit(cache=True, inline="always")
def _rotated(x: np.uint64, bits: int) -> np.uint64:
    left = np.uint64(bits)
    return (x << left) | (x >> (_R64 - left))


@njit(cache=True, inline="always")
def _mixed(h: np.uint64) -> np.uint64:
    h ^= h >> _R33
    h *= _P2
    h ^= h >> _R29
    h *= _P3
    return h ^ (h >> _R32)


@njit(cache=True, inline="always")
def hash_long(value: np.int64, seed: np.uint64) -> np.uint64:
    h = seed + _P5 + _EIGHT
    h ^= _rotated(np.uint64(value) * _P2, 31) * _P1
    return _mixed(_rotated(h, 27) * _P1 + _P4)


@njit(cache=True, nogil=True)
def fold_longs(values: Any, valid: Any, h: Any) -> None:
    for i in range(len(values)):
        if len(valid) == 0 or valid[i]:
            h[i] = hash_long(values[i], h[i])


@njit(cache=True, nogil=True)
def fold_ints(values: Any, valid: Any, h: Any) -> None:
    """Integers of 32 bits and less, given as int32."""
    for i in range(len(values)):
        if len(valid) == 0 or valid[i]:
            state = h[i] + _P5 + _FOUR
            state ^= (np.uint64(values[i]) & _LOW) * _P1
            h[i] = _mixed(_rotated(state, 23) * _P2 + _P3)


@njit(cache=True, inline="always")
def _lane(state: np.uint64, word: np.uint64) -> np.uint64:
    return _rotated(state + word * _P2, 31) * _P1


@njit(cache=True, inline="always")
def _merged(h: np.uint64, lane: np.uint64) -> np.uint64:
    return (h ^ (_rotated(lane * _P2, 31) * _P1)) * _P1 + _P4


@njit(cache=True)
def _hash_range(data: Any, start: int, stop: int, seed: np.uint64) -> np.uint64:
    at = start
    # Invariant: all bytes before `at` are absorbed.
    if stop - start >= 32:
        v1, v2, v3, v4 = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + 32 <= stop:
            v1 = _lane(v1, word_at(data, at))
            v2 = _lane(v2, word_at(data, at + 8))
            v3 = _lane(v3, word_at(data, at + 16))
            v4 = _lane(v4, word_at(data, at + 24))
            at += 32
        h = _rotated(v1, 1) + _rotated(v2, 7) + _rotated(v3, 12) + _rotated(v4, 18)
        h = _merged(_merged(_merged(_merged(h, v1), v2), v3), v4)
    else:
        h = seed + _P5
    h += np.uint64(stop - start)
    while at + 8 <= stop:
        h ^= _rotated(word_at(data, at) * _P2, 31) * _P1
        h = _rotated(h, 27) * _P1 + _P4
        at += 8
    if at + 4 <= stop:
        h ^= half_at(data, at) * _P1
        h = _rotated(h, 23) * _P2 + _P3
        at += 4
    while at < stop:
        h ^= np.uint64(data[at]) * _P5
        h = _rotated(h, 11) * _P1
        at += 1
    return _mixed(h)


@njit(cache=True, nogil=True)
def fold_bytes(offsets: Any, data: Any, valid: Any, h: Any) -> None:
    """Value i is data[offsets[i]:offsets[i + 1]]."""
    for i in range(len(h)):
        if len(valid) == 0 or valid[i]:
            h[i] = _hash_range(data, np.int64(offsets[i]), np.int64(offsets[i + 1]), h[i])


@njit(cache=True, nogil=True)
def fold_wide(data: Any, valid: Any, h: Any) -> None:
    """Decimals of more than 18 digits, 16 bytes each, little-endian. Spark hashes the fewest bytes that hold
    the number, big-endian."""
    number = np.empty(_BYTES, np.uint8)
    for i in range(len(h)):
        if len(valid) and not valid[i]:
            continue
        for k in range(_BYTES):
            number[k] = data[_BYTES * i + _BYTES - 1 - k]
        sign = np.uint8(0xFF) if number[0] & 0x80 else np.uint8(0)
        first = 0
        # A leading byte is left out if it is only sign and the next byte shows the same sign.
        while first < _BYTES - 1 and number[first] == sign and (number[first + 1] ^ sign) < 0x80:
            first += 1
        h[i] = _hash_range(number, first, _BYTES, h[i])
