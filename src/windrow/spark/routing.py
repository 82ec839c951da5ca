"""A layout as Spark expressions: for each stream, the partitions its rows go to.

Values that must be equal in a result must go to the same place. Both sides of an equality are therefore cast
to the type they are compared as, then hashed in the same way. That way is chosen per dimension: if Spark and
Windrow agree on every value of every stream's join column, Spark itself casts and hashes plain columns;
otherwise Windrow evaluates all join columns in an Arrow function.

Cells are computed in double precision. Rounding does no harm: the mapping from values to cells is monotonic,
and reaches are widened by more than a rounding error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
from pyarrow import types as pt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from sqlglot import exp

from windrow.expr.encoding import encode
from windrow.expr.join_columns import encoded_column
from windrow.expr.parse import references
from windrow.model.predicate import JoinColumn
from windrow.model.source import quoted
from windrow.planning.bound_query import BoundQuery
from windrow.spark.files.places import PlaceFinder
from windrow.spark.frames import Frame, StreamTypes
from windrow.spark.grid import ROUNDING, GridDimension, GridPlacement
from windrow.spark.partitioning import PartitionLayout

_HASHED = (
    st.BooleanType, st.ByteType, st.ShortType, st.IntegerType, st.LongType, st.DecimalType, st.BinaryType,
    st.DateType, st.TimestampType, st.TimestampNTZType, st.DayTimeIntervalType,
)  # fmt: skip
Way = Callable[[StreamTypes, JoinColumn], Callable[[Column], Column] | None]
"""How Spark itself computes a join column from a column of the frame; None if it cannot."""
_FURTHEST_CELL = 4e18


def in_spark(layout: PartitionLayout, frames: Sequence[StreamTypes]) -> PartitionLayout:
    """The layout, in which Spark itself computes the places on a dimension if it can for all streams."""
    cuts = (replace(cut, native=_is_native(cut, frames)) for cut in layout.dimensions)
    return replace(layout, dimensions=tuple(cuts))


def _is_native(cut: GridDimension, frames: Sequence[StreamTypes]) -> bool:
    if cut.skewed and any(not _is_literal(p.column.type) for p in cut.placements if p.column is not None):
        return False
    plain = _plain_number if cut.kind == "range" else _plain_value
    keys = [
        (frame, p.column) for frame, p in zip(frames, cut.placements, strict=True) if p.column is not None
    ]
    return all(plain(frame, key) is not None for frame, key in keys)


def place_finder(join: BoundQuery, layout: PartitionLayout, frame: StreamTypes, stream: int) -> PlaceFinder:
    """Finds the places of a stream's rows."""
    hashable = tuple(f.name for f in frame.fields if is_hashed(f.dataType))
    return PlaceFinder(layout.dimensions, stream, hashable, join.functions)


class Router:
    """Routes one stream's rows.

    Parameters
    ----------
    copied
        Whether the layout copies rows of any stream.
    """

    def __init__(self, finder: PlaceFinder, frame: Frame, copied: bool) -> None:
        self._finder = finder
        self._frame = frame
        self._copied = copied
        keys = {cut.placements[finder.stream].column: None for cut in finder.dimensions if not cut.native}
        self._names = {key: f"windrow key {n}" for n, key in enumerate(keys) if key is not None}
        """Columns that hold computed join columns."""

    def rows(self) -> DataFrame:
        """The stream's rows with the join columns that routes need, each computed once."""
        if not self._names:
            return self._data
        computed = [self._computed(key).alias(name) for key, name in self._names.items()]
        return self._data.select("*", *computed)

    @property
    def _data(self) -> DataFrame:
        assert isinstance(self._frame.data, DataFrame), "files are routed by files/places.py"
        return self._frame.data

    def partitions(self) -> Column:
        """The row's partition; or an array of distinct ones, if the layout makes copies."""
        at: Column = sf.lit(0)
        many = False
        for cut in self._finder.dimensions:
            places, several = self._places(cut)
            if not many and not several:
                at = at * cut.parts + places
            else:
                at = _every(at if many else sf.array(at), places if several else sf.array(places), cut.parts)
                many = True
        if self._copied:
            return at.cast("array<int>") if many else sf.array(at).cast("array<int>")
        return at.cast("int")

    def content(self) -> Column:
        """A hash of the whole row, the same in every reading of it."""
        return sf.xxhash64(*(sf.col(quoted(name)) for name in self._finder.hashable))

    def _places(self, cut: GridDimension) -> tuple[Column, bool]:
        """The row's place on one dimension, and whether that is an array."""
        place = cut.placements[self._finder.stream]
        if place.how == "everywhere":
            return sf.array(*(sf.lit(k) for k in range(cut.parts))), True
        if place.how == "content":
            return _modulo(self.content(), cut.parts), False
        assert place.column is not None
        if place.how == "value":
            return self._by_value(cut, place.column)
        return self._by_cell(cut, place)

    def _by_value(self, cut: GridDimension, key: JoinColumn) -> tuple[Column, bool]:
        value = self._plain(_plain_value, key) if cut.native else self._key(key)
        # A row without a value is in no result. It may have any place, but one place for all would be skewed.
        home = _modulo(sf.when(value.isNull(), self.content()).otherwise(sf.xxhash64(value)), cut.parts)
        if cut.skewed is None:
            return home, False
        strips = cut.strips(self._finder.stream)
        first = home + _modulo(self.content(), strips.count) * strips.step if strips.step else home
        spread = sf.array(*((first + k * strips.copy_step) % cut.parts for k in range(strips.copies)))
        return sf.when(self._is_any(value, cut, key), spread).otherwise(sf.array(home)), True

    def _by_cell(self, cut: GridDimension, place: GridPlacement) -> tuple[Column, bool]:
        key = place.column
        assert key is not None
        number = self._plain(_plain_number, key) if cut.native else self._key(key)
        number = number.cast("double")
        lost = _modulo(self.content(), cut.parts)
        known = number.isNotNull() & ~sf.isnan(number)
        near = sf.when(number > 1e300, sf.lit(1e300)).when(number < -1e300, sf.lit(-1e300)).otherwise(number)
        own = _modulo(sf.xxhash64(_cell(near, cut.width)), cut.parts)
        if place.how == "cell":
            return sf.when(known, own).otherwise(lost), False
        reach = place.reach * (1 + 1e-9) + sf.abs(near) * ROUNDING
        low, high = _cell(near - reach, cut.width), _cell(near + reach, cut.width)
        # More cells than partitions would reach no further partition, except through hash collisions.
        cells = sf.transform(sf.sequence(low, high), lambda c: _modulo(sf.xxhash64(c), cut.parts))
        everywhere = sf.array(*(sf.lit(k) for k in range(cut.parts)))
        copied = sf.when(high - low < 16 * cut.parts, cells).otherwise(everywhere)
        return sf.when(known, sf.array_distinct(sf.concat(sf.array(own), copied))).otherwise(
            sf.array(lost)
        ), True

    # -- join columns -----------------------------------------------------------------------------------

    def _plain(self, way: Way, key: JoinColumn) -> Column:
        """The join column as Spark computes it."""
        computed = way(self._frame, key)
        assert computed is not None and isinstance(key.node, exp.Column)
        return computed(sf.col(quoted(key.node.name)))

    def _key(self, key: JoinColumn) -> Column:
        """The computed join column: equal where Windrow finds values equal; null for null."""
        return sf.col(quoted(self._names[key]))

    def _computed(self, key: JoinColumn) -> Column:
        columns = sorted(references(key.node))
        types = [self._frame.arrow.field(name).type for _, name in columns]
        functions = dict(self._finder.functions)

        def numbers(*arrays: pa.Array) -> pa.Array:
            # Only time zone names and offset widths can differ from the planned types.
            cast = [a if a.type == kind else a.cast(kind) for a, kind in zip(arrays, types, strict=True)]
            given = dict(zip(columns, cast, strict=True))
            values, valid = encoded_column(key, given, len(arrays[0]), functions)
            return pa.array(values, mask=None if valid is None else ~valid)

        kind = "double" if key.kind == "float" else "bigint"
        return sf.arrow_udf(numbers, kind)(*(sf.col(quoted(name)) for _, name in columns))

    def _is_any(self, value: Column, cut: GridDimension, key: JoinColumn) -> Column:
        """Whether the row's value is one of the skewed keys."""
        assert cut.skewed is not None
        if cut.native:
            return value.isin(list(cut.skewed.values))
        numbers, _ = encode(pa.array(cut.skewed.values, key.type), key.kind == "ordered")
        return value.isin(numbers.tolist())


def _plain_value(frame: StreamTypes, key: JoinColumn) -> Callable[[Column], Column] | None:
    """Casts a column to the join column's type, if Spark's hash then separates values as Windrow does."""
    if not isinstance(key.node, exp.Column):
        return None
    kind, wanted = frame.type_of(key.node.name), key.type
    if pt.is_float64(wanted) and _is_binary_number(kind):
        return lambda column: column.cast("double") + sf.lit(0.0)  # -0.0 + 0.0 is 0.0
    if pt.is_int64(wanted) and isinstance(kind, st.IntegralType):
        return lambda column: column.cast("bigint")
    if pt.is_decimal128(wanted) and isinstance(kind, st.IntegralType | st.DecimalType):
        return lambda column: column.cast(st.DecimalType(wanted.precision, wanted.scale))
    same = frame.arrow.field(key.node.name).type.equals(wanted)
    return _unchanged if same and (isinstance(kind, _HASHED) or _is_binary_text(kind)) else None


def _plain_number(frame: StreamTypes, key: JoinColumn) -> Callable[[Column], Column] | None:
    """Turns a column into the join column's number, in double precision."""
    if not isinstance(key.node, exp.Column):
        return None
    kind, wanted = frame.type_of(key.node.name), key.type
    if pt.is_decimal(wanted) and isinstance(kind, st.IntegralType | st.DecimalType):
        return lambda column: column.cast("double") * float(10**wanted.scale)
    if _is_binary_number(kind) and (pt.is_floating(wanted) or pt.is_integer(wanted)):
        return lambda column: column.cast("double")
    if isinstance(kind, st.TimestampType) and pt.is_timestamp(wanted) and wanted.unit == "us":
        return lambda column: sf.unix_micros(column).cast("double")
    if isinstance(kind, st.DateType) and pt.is_date32(wanted):
        return lambda column: sf.unix_date(column).cast("double")
    return None


def _unchanged(column: Column) -> Column:
    return column


def _modulo(number: Column, ways: int) -> Column:
    return sf.pmod(number, sf.lit(ways)).cast("int")


def _cell(number: Column, width: float) -> Column:
    # Clamp to the integer range before the cast: Spark raises an error otherwise.
    cell = sf.greatest(sf.least(number / width, sf.lit(_FURTHEST_CELL)), sf.lit(-_FURTHEST_CELL))
    return sf.floor(cell)


def _every(left: Column, right: Column, ways: int) -> Column:
    """Combine every place on the dimensions so far with every place on the next."""
    # Pass both as one argument: they may come from a Python function, which Spark refuses inside a lambda.
    both = sf.array(sf.struct(left.alias("left"), right.alias("right")))
    return sf.flatten(
        sf.flatten(
            sf.transform(
                both,
                lambda b: sf.transform(b["left"], lambda x: sf.transform(b["right"], lambda y: x * ways + y)),
            )
        )
    )


def _is_binary_number(kind: st.DataType) -> bool:
    return isinstance(kind, st.NumericType) and not isinstance(kind, st.DecimalType)


def _is_literal(kind: pa.DataType) -> bool:
    """Types whose Python values Spark reads as Windrow does, under any session settings."""
    return pt.is_int64(kind) or pt.is_string(kind)


def _is_binary_text(kind: st.DataType) -> bool:
    """Text that is equal exactly if its bytes are."""
    return isinstance(kind, st.StringType) and kind.collation == "UTF8_BINARY"


def is_hashed(kind: st.DataType) -> bool:
    """Whether a column of this type is part of the row's content."""
    return isinstance(kind, (*_HASHED, st.FloatType, st.DoubleType)) or _is_binary_text(kind)
