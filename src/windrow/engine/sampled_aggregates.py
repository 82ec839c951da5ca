"""Aggregates over a sample of join results, with confidence intervals.

A sampled result carries its `weight`, the inverse of its probability of being sampled, and its `cluster`. The
results of a cluster depend on one sampled row and are sampled together; clusters are drawn independently.
Weighted sums are therefore unbiased (Horvitz and Thompson), and the spread between clusters measures the
error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from windrow.engine.result_builder import CLUSTER, WEIGHT
from windrow.engine.rows import event_times
from windrow.errors import DataError, Option, QueryError, placed, unknown
from windrow.estimation.cluster_variance import cluster_variance
from windrow.expr.evaluate import evaluate
from windrow.expr.parse import Reference, parse, references, resolve
from windrow.expr.types import is_number
from windrow.expr.values import from_numpy, plain, to_numpy, valid_mask
from windrow.model.keywords import checks_keywords
from windrow.model.units import positive_duration

Array = np.ndarray
Aggregate = Literal["sum", "count", "avg"]
AGGREGATES = ("sum", "count", "avg")
ESTIMATE, RESULTS = Option(section="estimate"), Option("results")
CERTAIN = -1
"""Cluster of results that were certain to be sampled."""


@checks_keywords("wr.estimate")
def estimate(
    results: pa.Table,
    value: str | None = None,
    aggregate: Aggregate = "count",
    *,
    time: str,
    window: str | timedelta,
    group_by: str | Sequence[str] = (),
    confidence: float = 0.95,
) -> pa.Table:
    """Sum, count or average over all results of the join, from a sample of them, per window of time.

    Parameters
    ----------
    results
        Sampled results: a struct column per stream, `weight`, and `cluster` (-1 for a certain result).
    value
        What is summed or averaged, as SQL over the streams' columns, such as "a.rate * b.price". Nulls are
        ignored. A count without a value counts results.
    time, window
        Windows are `window` long, counted from 1970, and a result is in the one of its `time`.
    group_by
        Expressions that divide a window into groups.
    confidence
        How often the interval contains the true value.

    Returns
    -------
    One row per window and group with a sampled result: `window` (its start), the columns of `group_by` as
    written, `estimate`, `low`, `high`, `rows` (sampled results with a value), and `exact` (all results of the
    window were certain to be sampled). A sum or average without values is null, and so is the interval of an
    average of one sampled cluster.

    Notes
    -----
    Sums and counts are those of Horvitz and Thompson; an average is the ratio of the two (Hajek). Its
    variance is that of the sum of (y - average) / n, n being the estimated count, times k / (k - 1) for k
    clusters. `estimation/cluster_variance.py` derives the variance of a sum and its interval.

    >>> from datetime import datetime
    >>> bid = {"at": datetime(2024, 1, 1), "price": 5.0}
    >>> sample = pa.table({"b": [bid], "weight": [2.0], "cluster": [7]})
    >>> estimate(sample, "b.price", "sum", time="b.at", window="1 minute")["estimate"].to_pylist()
    [10.0]
    """
    wanted = _Wanted(value, aggregate, confidence)
    sample = _Sample.of(results)
    names = list(dict.fromkeys([group_by] if isinstance(group_by, str) else group_by))
    keys = [_window_starts(sample, time, window), *(_key(sample, text) for text in names)]
    group, first = _groups(keys)
    figures = _figures(sample, group, len(first), wanted)
    exact = ~_shared(keys[0], sample.weight > 1)[first]
    table = pa.Table.from_arrays(
        [*(key.take(pa.array(first)) for key in keys), *figures, pa.array(exact)],
        ["window", *names, "estimate", "low", "high", "rows", "exact"],
    )
    return table.sort_by([(name, "ascending") for name in ("window", *names)])


@dataclass(frozen=True)
class _Wanted:
    value: str | None
    aggregate: str
    confidence: float

    def __post_init__(self) -> None:
        if self.aggregate not in AGGREGATES:
            raise QueryError(unknown("aggregate", str(self.aggregate), AGGREGATES), ESTIMATE)
        if self.value is None and self.aggregate != "count":
            raise QueryError(f"{self.aggregate} needs a value, such as value='b.price'", ESTIMATE)
        if not 0 < self.confidence < 1:
            raise QueryError(f"confidence must be between 0 and 1, got {self.confidence}", ESTIMATE)


@dataclass(frozen=True)
class _Sample:
    streams: dict[str, pa.Array]
    weight: Array
    cluster: Array

    def __len__(self) -> int:
        return len(self.weight)

    @classmethod
    def of(cls, results: pa.Table) -> _Sample:
        numbers = []
        for name, kind in ((WEIGHT, pa.float64()), (CLUSTER, pa.int64())):
            if name not in results.column_names:
                raise DataError(
                    f"no column '{name}' among {', '.join(results.column_names)}; sample the join, say with "
                    f"shed='cluster', or give exact results {WEIGHT} 1 and {CLUSTER} {CERTAIN}",
                    RESULTS,
                )
            column = plain(results[name])
            if not is_number(column.type) or column.null_count:
                raise DataError(f"column '{name}' must hold a number in each row, got {column.type}", RESULTS)
            numbers.append(to_numpy(column, kind))
        weight, cluster = numbers
        if not (weight >= 1).all():
            raise DataError(f"a weight is at least 1, got {weight[~(weight >= 1)][0]}", RESULTS)
        if (weight[cluster == CERTAIN] > 1).any():
            raise DataError(f"a certain result ({CLUSTER} {CERTAIN}) has weight 1, not more", RESULTS)
        columns = zip(results.column_names, results.columns, strict=True)
        streams = {name: plain(column) for name, column in columns if pt.is_struct(column.type)}
        if not streams:
            raise DataError(f"expected a struct per stream, got {', '.join(results.column_names)}", RESULTS)
        return cls(streams, weight, cluster)

    def evaluated(self, what: str, text: str) -> pa.Array:
        """Value of an expression over the streams' columns, per result."""
        with placed(Option(what)):
            if not isinstance(text, str):
                raise QueryError(f"expected an expression such as 'b.price', got {text!r}")
            node = parse(text, list(self.streams))
            node = resolve(node, {alias: pa.schema(list(rows.type)) for alias, rows in self.streams.items()})
            columns: dict[Reference, pa.Array] = {
                (alias, name): pc.struct_field(self.streams[alias], name) for alias, name in references(node)
            }
            return evaluate(node, columns, len(self), {})


def _window_starts(sample: _Sample, time: str, window: str | timedelta) -> pa.Array:
    with placed(Option("window")):
        length = positive_duration(window)
    moments = sample.evaluated("time", time)
    if not pt.is_timestamp(moments.type):
        raise QueryError(f"expected a timestamp, got {time} of type {moments.type}", Option("time"))
    if moments.null_count:
        raise DataError(
            f"{time} is null in {moments.null_count} results, which are in no window", Option("time")
        )
    micros = event_times(moments)
    return pa.array(micros - micros % length, pa.timestamp("us", moments.type.tz))


def _key(sample: _Sample, text: str) -> pa.Array:
    key = sample.evaluated("group_by", text)
    if pt.is_nested(key.type):
        raise QueryError(
            f"cannot group by {text} of type {key.type}; name one of its fields", Option("group_by")
        )
    return key


def _codes(key: pa.Array) -> Array:
    """Equal numbers for equal values; null is a value."""
    return pc.dictionary_encode(key, null_encoding="encode").indices.to_numpy(zero_copy_only=False)


def _groups(keys: Sequence[pa.Array]) -> tuple[Array, Array]:
    """Group number of each row, and first row of each group."""
    group, first = np.zeros(len(keys[0]), np.int64), np.empty(0, np.int64)
    for key in keys:
        codes = _codes(key).astype(np.int64)
        _, first, group = np.unique(
            group * (codes.max(initial=0) + 1) + codes, return_index=True, return_inverse=True
        )
    return group, first


def _shared(key: pa.Array, flag: Array) -> Array:
    """Mask of rows whose key has the flag on any row."""
    codes = _codes(key)
    return (np.bincount(codes, flag) > 0)[codes]


def _figures(sample: _Sample, group: Array, groups: int, wanted: _Wanted) -> list[pa.Array]:
    """Estimate, low, high and rows of each group."""
    value, valid = np.ones(len(sample)), np.ones(len(sample), bool)
    if wanted.value is not None:
        values = sample.evaluated("value", wanted.value)
        if wanted.aggregate != "count":
            if not is_number(values.type):
                raise QueryError(
                    f"expected a number, got {wanted.value} of type {values.type}", Option("value")
                )
            value = to_numpy(values, pa.float64())
        valid = valid_mask(values)
    group, value, weight, cluster = (a[valid] for a in (group, value, sample.weight, sample.cluster))
    rows = np.bincount(group, minlength=groups)
    average = wanted.aggregate == "avg"
    # Without rows, bincount returns integers.
    estimates: Array = np.bincount(group, weight * value, groups).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):  # groups without values, and infinite values
        if average:
            counts = np.bincount(group, weight, groups)
            estimates = estimates / counts
            value = (value - estimates[group]) / counts[group]
        # A value that is not finite invalidates only its own group.
        value = np.where(np.isfinite(estimates)[group], value, 0.0)
        spread = cluster_variance(group, cluster, weight, value, groups)
        variance = spread.variance * spread.units / (spread.units - 1) if average else spread.variance
        half = np.where(spread.sampled, spread.quantile(wanted.confidence) * np.sqrt(variance), 0.0)
        low, high = estimates - half, estimates + half
    if wanted.aggregate == "count":
        low = np.maximum(low, rows)  # every sampled result exists
    known = (rows > 0) | (wanted.aggregate == "count")
    bounded = known & ~(average & spread.sampled & (spread.units == 1))
    return [from_numpy(estimates, known), from_numpy(low, bounded), from_numpy(high, bounded), pa.array(rows)]
