"""MultiJoin's experiments: its streams, its units of time, and runs of the operator with everything counted.

The paper gives rates per unit of time and windows in units, while its generator makes one row
per step of a loop. One unit is therefore taken as `sum(rates)` steps, so that window i holds
`rate_i * span_i` rows as in its cost model. Here a step is a second of event time.

Windows are hash tables with a stated number of buckets. One bucket is the paper's linked list: a probe
visits every stored row, and each visit counts as a comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa

import windrow as wr
from windrow.errors import WindrowError
from windrow.planning.cost import plan_cost
from windrow.planning.statistics import JoinStatistics, StreamStatistics
from windrow_lab.clock import WorkTotals, expiry_accesses
from windrow_lab.driver import drive
from windrow_lab.timed_rows import timed

Orders = Mapping[int, Sequence[int]]


def arrival_first(stream: int, global_order: Sequence[int]) -> tuple[int, ...]:
    """The order that starts with the arriving stream and then follows the global order (s. 3.2)."""
    return (stream, *(other for other in global_order if other != stream))


def lazy_cost(stats: JoinStatistics, global_order: Sequence[int], tau: float) -> float:
    """LAZY MULTI-WAY: new rows in the outermost loop; evaluation and expiry every `tau`."""
    return plan_cost(stats, {s: arrival_first(s, global_order) for s in range(len(stats))}, tau)


def eager_cost(stats: JoinStatistics, global_order: Sequence[int]) -> float:
    """EAGER MULTI-WAY: new rows in the outermost loop; evaluation for each row."""
    return lazy_cost(stats, global_order, 0.0)


@dataclass(frozen=True)
class Streams:
    """Streams joined on one attribute.

    Parameters
    ----------
    rates
        Rows per unit of time.
    spans
        Window lengths in units.
    values
        Distinct values of the attribute.
    steps
        Steps of the generator in a unit; by default as many as rows arrive in a unit.
    """

    rates: tuple[float, ...]
    spans: tuple[float, ...]
    values: tuple[int, ...]
    steps: float | None = None

    def __len__(self) -> int:
        return len(self.rates)

    @property
    def steps_per_unit(self) -> float:
        return sum(self.rates) if self.steps is None else self.steps

    def statistics(self, buckets: Sequence[int] = ()) -> JoinStatistics:
        """Statistics for the cost model, with the actual rates per unit."""
        share = self.steps_per_unit / sum(self.rates)
        tables = buckets or (1,) * len(self)
        return JoinStatistics(
            tuple(
                StreamStatistics(rate * share, span, "hash", b)
                for rate, span, b in zip(self.rates, self.spans, tables, strict=True)
            ),
            (dict(enumerate(self.values)),),
        )


EQUAL_FOUR = Streams((1,) * 4, (100,) * 4, (50,) * 4)
"""Fig. 2, 3(a), 4(a)."""
ONE_FASTER = Streams((1, 1, 1, 10), (100,) * 4, (50,) * 4)
"""Fig. 3(b)."""
ONE_MUCH_FASTER = Streams((1, 1, 1, 50), (100,) * 4, (50,) * 4)
"""Fig. 4(b)."""
TABLE_5 = Streams((10, 1, 1, 3), (100, 100, 200, 100), (500, 50, 40, 5))
TABLE_6 = Streams((100, 1, 1, 3), (100,) * 4, (200, 200, 20, 2))
TABLE_7 = Streams((11, 10, 1, 1), (100,) * 4, (200, 100, 65, 20))


def interleaved_streams(
    rates: Sequence[float], values: Sequence[int], rows: int, seed: int
) -> dict[str, pa.Table]:
    """MultiJoin's streams (s. 6.1): one row per step, from a random stream; a step is a second.

    Parameters
    ----------
    rates
        Relative rates; a step's row is from stream i with probability `rates[i] / sum(rates)`.
    values
        Stream i draws `attr` uniformly from 1..values[i], so the smaller sets are contained in the larger.
    rows
        Steps, and so rows over all streams.

    Returns
    -------
    Tables "s1", "s2", ... with `ts` (timestamp) and `attr` (int64).
    """
    if len(rates) != len(values):
        raise WindrowError(f"generator: {len(rates)} rates but {len(values)} numbers of values")
    random = np.random.default_rng(seed)
    share = np.asarray(rates, dtype=np.float64)
    source = random.choice(len(rates), size=rows, p=share / share.sum())
    attr = random.integers(1, np.asarray(values, dtype=np.int64)[source], endpoint=True)
    steps = np.arange(rows, dtype=np.int64)
    return {f"s{i + 1}": timed(steps[source == i], attr=attr[source == i]) for i in range(len(rates))}


@dataclass(frozen=True)
class CountedWork:
    """What the operator did after its windows were full."""

    rows: int
    units: float
    results: int
    work: WorkTotals

    @property
    def comparisons_per_unit(self) -> float:
        return self.work.comparisons / self.units


def count_work(
    streams: Streams,
    orders: Orders,
    units: float,
    seed: int,
    tau: float = 0.0,
    buckets: Sequence[int] = (),
    filling: float | None = None,
) -> CountedWork:
    """Runs the operator and counts.

    Parameters
    ----------
    orders
        For each arriving stream the full order of all streams.
    units
        How long to measure.
    tau
        Units between re-evaluations, and between expiries; 0 for every row.
    buckets
        Per stream; one each by default.
    filling
        Units before the measurement, to fill the windows; by default one and a half times the longest.
        It does not follow `tau`, so that all intervals are measured on the same rows.
    """
    tables = tuple(buckets) or (1,) * len(streams)
    steps = streams.steps_per_unit
    before_rows = round((1.5 * max(streams.spans) if filling is None else filling) * steps)
    rows = round(units * steps)
    data = interleaved_streams(streams.rates, streams.values, before_rows + rows, seed)
    driven = drive(_query(streams, orders, tau, tables), data, (0, before_rows, before_rows + rows))
    before, after = [operator.metrics() for operator, _ in driven]
    expired = rows - (after.window_rows - before.window_rows)
    expiries = expiry_accesses(after.expiry_passes - before.expiry_passes, tables, expired)
    work = WorkTotals(after.comparisons - before.comparisons, rows, expiries)
    return CountedWork(rows, units, after.results - before.results, work)


def _query(streams: Streams, orders: Orders, tau: float, buckets: Sequence[int]) -> wr.Query:
    aliases = [f"s{i + 1}" for i in range(len(streams))]
    pace = f"every {tau * streams.steps_per_unit} seconds" if tau else "eager"
    return wr.Query(
        streams={
            alias: wr.Stream("ts", timedelta(seconds=span * streams.steps_per_unit), f"hash({b})")
            for alias, span, b in zip(aliases, streams.spans, buckets, strict=True)
        },
        on=" and ".join(f"s1.attr = {alias}.attr" for alias in aliases[1:]),
        evaluate=pace,
        expire=pace,
        order={aliases[i]: tuple(aliases[k] for k in order) for i, order in orders.items()},
        algorithm="general",
    )
