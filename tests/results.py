"""Output of the engine: whose rows it is made of, and that they came through unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pyarrow as pa


def ids(output: pa.Table) -> Counter[tuple]:
    """The engine's output as a multiset of id tuples, in the order of its columns."""
    if output.num_rows == 0:  # until every schema is known, the columns of the others have no type
        return Counter()
    columns = [_struct(output.column(name)).field("id").to_pylist() for name in output.column_names]
    return Counter(zip(*columns, strict=True))


def _struct(column: pa.ChunkedArray) -> pa.StructArray:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    return array


def assert_payload(output: pa.Table, inputs: Mapping[str, pa.Table]) -> None:
    """Every struct of the output is, bit for bit, the input row with its id."""
    assert output.column_names == list(inputs)
    for alias, source in inputs.items():
        column = output.column(alias)
        assert column.null_count == 0
        assert column.type == pa.struct(list(source.schema)), f"{alias}: {column.type}"
        got = pa.Table.from_batches([pa.RecordBatch.from_struct_array(_struct(column))])
        position = {key: n for n, key in enumerate(source.column("id").to_pylist())}
        want = source.take(pa.array([position[key] for key in got.column("id").to_pylist()], pa.int64()))
        for name in source.column_names:
            assert _bits(got.column(name)).equals(_bits(want.column(name))), f"{alias}.{name}"


def _bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floats as their bits, so that NaN equals NaN."""
    if column.type == pa.float64():
        return pa.chunked_array([chunk.view(pa.int64()) for chunk in column.chunks], pa.int64())
    return column
