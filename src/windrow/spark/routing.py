"""A layout as Spark expressions: for each stream, the partitions its rows go to.

What must be equal in a result must go to one place, so both sides of an equality are first brought to the
type they are compared as. Plain columns are cast and hashed by Spark itself where Spark and Windrow agree on
every value; any other word is computed by Windrow's own evaluation, in an Arrow function.

Cells are found in double precision. Rounding does no harm: the way from a value to its cell never turns the
order of two values round, and reaches are widened by more than a rounding error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import pyarrow as pa
from pyarrow import types as pt
from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from sqlglot import exp

from windrow.expr.casts import cast
from windrow.expr.encode import encode
from windrow.expr.parse import references
from windrow.expr.words import word_values
from windrow.model.predicate import Word
from windrow.model.query import Function
from windrow.spark.frames import Frame, quoted
from windrow.spark.partitioning import Cut, Layout, Place

_HASHED = (
    st.BooleanType, st.ByteType, st.ShortType, st.IntegerType, st.LongType, st.DecimalType, st.BinaryType,
    st.DateType, st.TimestampType, st.TimestampNTZType, st.DayTimeIntervalType,
)  # fmt: skip
_FURTHEST_CELL = 4e18
_ROUNDING = 1e-15


class Router:
    """Knows one stream's columns."""

    def __init__(self, frame: Frame, functions: Mapping[str, Function]) -> None:
        self._frame = frame
        self._functions = functions

    def partitions(self, layout: Layout, stream: int) -> Column:
        """The row's partition; or an array of them, each once, if the layout makes copies."""
        at: Column = sf.lit(0)
        many = False
        for cut in layout.cuts:
            places, several = self._places(cut, stream)
            if not many and not several:
                at = at * cut.ways + places
            else:
                at = _every(at if many else sf.array(at), places if several else sf.array(places), cut.ways)
                many = True
        if layout.replicates:
            return at.cast("array<int>") if many else sf.array(at).cast("array<int>")
        return at.cast("int")

    def content(self) -> Column:
        """A hash of the whole row: the same wherever and however often the row is read."""
        return sf.xxhash64(*(sf.col(quoted(f.name)) for f in self._frame.fields if _hashable(f.dataType)))

    def _places(self, cut: Cut, stream: int) -> tuple[Column, bool]:
        """Where the row stands on one dimension; whether that is an array."""
        place = cut.places[stream]
        if place.how == "everywhere":
            return sf.array(*(sf.lit(k) for k in range(cut.ways))), True
        if place.how == "content":
            return _modulo(self.content(), cut.ways), False
        assert place.word is not None
        if place.how == "value":
            return self._by_value(cut, stream, place.word)
        return self._by_cell(cut, place)

    def _by_value(self, cut: Cut, stream: int, word: Word) -> tuple[Column, bool]:
        value = self._value(word)
        # A row without a value is in no result; it may go anywhere, but not all such rows to one place.
        home = _modulo(sf.when(value.isNull(), self.content()).otherwise(sf.xxhash64(value)), cut.ways)
        if cut.spread is None:
            return home, False
        rows = math.isqrt(cut.spread.ways) if len(cut.split) > 1 else cut.spread.ways
        columns = cut.spread.ways // rows
        mine = _modulo(self.content(), rows if stream == cut.split[0] else columns)
        if stream == cut.split[0]:
            inside = [mine * columns + k for k in range(columns)]
        elif stream in cut.split:
            inside = [mine + k * columns for k in range(rows)]
        else:
            inside = [sf.lit(k) for k in range(rows * columns)]
        spread = sf.array(*((home + k) % cut.ways for k in inside))
        return sf.when(self._is_any(value, word, cut.spread.values), spread).otherwise(sf.array(home)), True

    def _by_cell(self, cut: Cut, place: Place) -> tuple[Column, bool]:
        assert place.word is not None
        number = self._number(place.word)
        lost = _modulo(self.content(), cut.ways)
        known = number.isNotNull() & ~sf.isnan(number)
        near = sf.when(number > 1e300, sf.lit(1e300)).when(number < -1e300, sf.lit(-1e300)).otherwise(number)
        own = _modulo(sf.xxhash64(_cell(near, cut.width)), cut.ways)
        if place.how == "cell":
            return sf.when(known, own).otherwise(lost), False
        reach = place.reach * (1 + 1e-9) + sf.abs(near) * _ROUNDING
        low, high = _cell(near - reach, cut.width), _cell(near + reach, cut.width)
        # Cells past the number of partitions would reach no partition that others do not, hashes aside.
        cells = sf.transform(sf.sequence(low, high), lambda c: _modulo(sf.xxhash64(c), cut.ways))
        everywhere = sf.array(*(sf.lit(k) for k in range(cut.ways)))
        copied = sf.when(high - low < 16 * cut.ways, cells).otherwise(everywhere)
        return sf.when(known, sf.array_distinct(sf.concat(sf.array(own), copied))).otherwise(
            sf.array(lost)
        ), True

    # -- words ------------------------------------------------------------------------------------------

    def _value(self, word: Word) -> Column:
        """Equal wherever Windrow finds the words equal; null where they are null."""
        plain = self._plain_value(word)
        return self._computed(word) if plain is None else plain

    def _plain_value(self, word: Word) -> Column | None:
        column = self._plain(word)
        if column is not None:
            kind, wanted = self._frame.type_of(word.node.name), word.type
            if (
                pt.is_float64(wanted)
                and isinstance(kind, st.NumericType)
                and not isinstance(kind, st.DecimalType)
            ):
                return column.cast("double") + sf.lit(0.0)  # -0.0 + 0.0 is 0.0
            if pt.is_int64(wanted) and isinstance(kind, st.IntegralType):
                return column.cast("bigint")
            if pt.is_decimal128(wanted) and isinstance(kind, st.IntegralType | st.DecimalType):
                return column.cast(st.DecimalType(wanted.precision, wanted.scale))
            same = self._frame.arrow.field(word.node.name).type.equals(wanted)
            if same and (isinstance(kind, _HASHED) or _is_binary_text(kind)):
                return column
        return None

    def _number(self, word: Word) -> Column:
        """The word's number, as a double."""
        column = self._plain(word)
        if column is not None:
            kind, wanted = self._frame.type_of(word.node.name), word.type
            if pt.is_decimal(wanted) and isinstance(kind, st.IntegralType | st.DecimalType):
                return column.cast("double") * float(10**wanted.scale)
            if isinstance(kind, st.NumericType) and (pt.is_floating(wanted) or pt.is_integer(wanted)):
                return column.cast("double")
            if isinstance(kind, st.TimestampType) and pt.is_timestamp(wanted) and wanted.unit == "us":
                return sf.unix_micros(column).cast("double")
            if isinstance(kind, st.DateType) and pt.is_date32(wanted):
                return sf.unix_date(column).cast("double")
        return self._computed(word).cast("double")

    def _plain(self, word: Word) -> Column | None:
        return sf.col(quoted(word.node.name)) if isinstance(word.node, exp.Column) else None

    def _computed(self, word: Word) -> Column:
        columns = sorted(references(word.node))
        functions = dict(self._functions)

        def numbers(*arrays: pa.Array) -> pa.Array:
            values, valid = word_values(
                word, dict(zip(columns, arrays, strict=True)), len(arrays[0]), functions
            )
            return pa.array(values, mask=None if valid is None else ~valid)

        kind = "double" if word.kind == "float" else "bigint"
        return sf.arrow_udf(numbers, kind)(*(sf.col(quoted(name)) for _, name in columns))

    def _is_any(self, value: Column, word: Word, values: tuple[object, ...]) -> Column:
        """Whether the row's value is one of those the user named."""
        if self._plain_value(word) is None:
            numbers, _ = encode(cast(pa.array(list(values)), word.type))
            return value.isin(numbers.tolist())
        return value.isin(list(values))


def _modulo(number: Column, ways: int) -> Column:
    return sf.pmod(number, sf.lit(ways)).cast("int")


def _cell(number: Column, width: float) -> Column:
    # Held inside the integers before it becomes one: Spark raises an error otherwise.
    cell = sf.greatest(sf.least(number / width, sf.lit(_FURTHEST_CELL)), sf.lit(-_FURTHEST_CELL))
    return sf.floor(cell)


def _every(left: Column, right: Column, ways: int) -> Column:
    """Every place on the dimensions so far with every place on the next."""
    return sf.flatten(sf.transform(left, lambda x: sf.transform(right, lambda y: x * ways + y)))


def _is_binary_text(kind: st.DataType) -> bool:
    """Text that is equal when its bytes are."""
    return isinstance(kind, st.StringType) and kind.collation == "UTF8_BINARY"


def _hashable(kind: st.DataType) -> bool:
    return isinstance(kind, (*_HASHED, st.FloatType, st.DoubleType)) or _is_binary_text(kind)
