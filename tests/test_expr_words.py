"""Words of every type, sliced and not, and the hashes behind them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

from windrow.expr.encoding import encode, encoding_of
from windrow.expr.join_columns import encoded_column
from windrow.kernels.hashing import combine, hash_bytes, hash_fixed
from windrow.model.predicate import JoinColumn


def words(array: pa.Array, kind: pa.DataType | None = None) -> tuple[np.ndarray, np.ndarray | None]:
    kind = kind or array.type
    how = encoding_of(kind)
    assert how is not None
    word = JoinColumn(0, "a.v", kind, how, exp.column("v", table="a"))
    return encoded_column(word, {("a", "v"): array}, len(array), {})


INTEGERS = [
    (pa.array([5, None, -7]), pa.int64(), [5, None, -7]),
    (pa.array([5, None, -7], pa.int8()), pa.int64(), [5, None, -7]),
    (pa.array([0, None, 2**64 - 1], pa.uint64()), pa.uint64(), [-(2**63), None, 2**63 - 1]),
    (pa.array([True, None, False]), pa.bool_(), [1, None, 0]),
    (pa.array([dt.date(1970, 1, 3), None, dt.date(1969, 12, 31)]), pa.date32(), [2, None, -1]),
    (pa.array([1, None, -1], pa.timestamp("ms")), pa.timestamp("us"), [1000, None, -1000]),
    (pa.array([1, None, -1], pa.date32()), pa.timestamp("us"), [86_400_000_000, None, -86_400_000_000]),
    (pa.array([1, None, -1], pa.date32()), pa.timestamp("s", "Asia/Tokyo"), [54_000, None, -118_800]),
    (pa.array([1, None, -1], pa.duration("s")), pa.duration("ms"), [1000, None, -1000]),
    (pa.array([1, None, 2], pa.time32("s")), pa.time64("us"), [10**6, None, 2 * 10**6]),
    (
        pa.array([Decimal("1.25"), None, Decimal("-7.10")], pa.decimal128(9, 2)),
        pa.decimal128(12, 3),
        [1250, None, -7100],
    ),
    (pa.array([3, None, -4], pa.int32()), pa.decimal128(12, 2), [300, None, -400]),
    (pa.array([3, None, 3], pa.int64()).dictionary_encode(), pa.int64(), [3, None, 3]),
]


@pytest.mark.parametrize(("array", "kind", "expected"), INTEGERS)
def test_integer_words(array: pa.Array, kind: pa.DataType, expected: list) -> None:
    for part, wanted in (
        (array, expected),
        (array.slice(1), expected[1:]),
        (array.slice(2, 1), expected[2:]),
    ):
        numbers, valid = words(part, kind)
        assert numbers.dtype == np.int64
        assert [
            n if v else None
            for n, v in zip(numbers.tolist(), valid if valid is not None else [True] * len(part), strict=True)
        ] == wanted
        assert (valid is None) == (None not in wanted)


def test_floats_in_order() -> None:
    values = [-np.inf, -2.5, -1e-300, -0.0, 0.0, 1e-300, 3.0, np.inf, np.nan, -np.nan, None]
    numbers, valid = encode(pa.array(values, from_pandas=False), ordered=True)
    assert valid is not None and valid.tolist() == [True] * 10 + [False]
    assert numbers.dtype == np.int64
    steps = np.sign(np.diff(numbers[:10])).tolist()
    assert steps == [1, 1, 1, 0, 1, 1, 1, 1, 0]


def test_float_words() -> None:
    numbers, valid = words(pa.array([1.5, None, np.nan, -0.0]))
    assert valid is not None and valid.tolist() == [True, False, False, True]
    assert numbers[0] == 1.5 and not np.signbit(numbers[3])
    numbers, valid = words(pa.array([1, 2], pa.float32()), pa.float64())
    assert numbers.dtype == np.float64 and valid is None
    assert words(pa.array([2**62 + 1, 3]), pa.float64())[0].tolist() == [float(2**62), 3.0]


@pytest.mark.parametrize(
    "array", [pa.array([1, 2, 3]), pa.array([1.0, 2.0, 3.0]), pa.array([1, 2, 3], pa.timestamp("us"))]
)
def test_plain_columns_are_not_copied(array: pa.Array) -> None:
    numbers, valid = words(array.slice(1))
    assert valid is None
    assert numbers.ctypes.data == array.buffers()[1].address + 8
    assert not numbers.flags.writeable


TEXTS = ["", "a", "abcdefg", "abcdefgh", "abcdefghi", "ü" * 40, None, "a\0", "a"]


def test_every_layout_of_text_gives_the_same_hash() -> None:
    base, _ = words(pa.array(TEXTS))
    layouts = [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
    for array in [pa.array(TEXTS).cast(layout) for layout in layouts]:
        for start in (0, 3, 7):
            part = array.slice(start)
            for kind in (pa.string(), pa.large_string()):
                numbers, valid = words(part, kind)
                assert valid is None or valid.tolist() == [t is not None for t in TEXTS[start:]]
                present = [i for i, t in enumerate(TEXTS[start:]) if t is not None]
                assert numbers[present].tolist() == base[start:][present].tolist()
    binary = pa.array([None if t is None else t.encode() for t in TEXTS])
    assert words(binary)[0].tolist() == base.tolist()
    assert len(set(base.tolist())) == 7  # null hashes as nothing, "a" comes twice


def test_hashes_of_wide_decimals() -> None:
    values = [Decimal("1.5"), None, Decimal("-1.5"), Decimal("1.50")]
    for kind in (pa.decimal128(38, 10), pa.decimal256(60, 10)):
        narrow = pa.array(values, pa.decimal128(10, 2))
        numbers, valid = words(narrow.slice(2), kind)
        full, _ = words(pa.array(values, kind), kind)
        assert valid is None and numbers.tolist() == full[2:].tolist()
        assert full[0] == full[3] != full[2]
    assert (
        words(pa.array([b"ab", b"cd"], pa.binary(2)))[0].tolist()
        == words(pa.array([b"ab", b"cd"]))[0].tolist()
    )


def test_empty_columns() -> None:
    for kind in (
        pa.int64(),
        pa.float64(),
        pa.string(),
        pa.decimal128(30, 2),
        pa.bool_(),
        pa.date32(),
        pa.uint64(),
    ):
        numbers, valid = encode(pa.array([], kind))
        assert len(numbers) == 0 and valid is None
    assert len(encode(pa.array([None, None], pa.string()))[0]) == 2


def test_a_million_strings_do_not_collide() -> None:
    numbers = np.arange(1_000_000)
    array = pa.array(numbers).cast(pa.string())
    hashes, _ = encode(array)
    assert len(np.unique(hashes)) == len(numbers)
    # The low and the high bits each serve as bucket numbers: as many distinct as chance gives, 63.2 %.
    for bits in (hashes & 0xFFFFF, (hashes >> 44) & 0xFFFFF):
        assert abs(len(np.unique(bits)) / 2**20 - (1 - np.exp(-1e6 / 2**20))) < 0.003


def test_kernels_agree_and_take_read_only_arrays() -> None:
    data = np.random.default_rng(0).integers(0, 256, 160).astype(np.uint8)
    frozen = data.copy()
    frozen.flags.writeable = False
    fixed = hash_fixed(data, 16)
    assert fixed.tolist() == hash_fixed(frozen, 16).tolist()
    for offsets in (np.arange(0, 161, 16, dtype=np.int32), np.arange(0, 161, 16, dtype=np.int64)):
        assert hash_bytes(offsets, frozen).tolist() == fixed.tolist()
    swapped = combine(fixed[:5], fixed[5:])
    assert swapped.tolist() != combine(fixed[5:], fixed[:5]).tolist()
    grid = np.arange(1000, dtype=np.int64)
    assert len(np.unique(combine(np.repeat(grid, 1000), np.tile(grid, 1000)))) == 10**6
