"""A join without data: statistics, memory and time from schemas and stated rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from windrow.engine.join import Join
from windrow.engine.limits.probe_statistics import CHARGES
from windrow.engine.result_builder import ResultBuilder
from windrow.engine.rows import check_time_column, plain_schema
from windrow.engine.sampled_statistics import statistics
from windrow.errors import Option, QueryError, placed, unknown
from windrow.eviction.forecast import StreamModel
from windrow.explanation.explanation import window_seconds
from windrow.harvest.model import HarvestModel
from windrow.memory_models.age_curve import AgeCurve
from windrow.model.harvest import BasicWindows
from windrow.model.plan import Plan
from windrow.model.policies.base import read_age_curves
from windrow.model.policies.time_policies import Harvesting
from windrow.model.query import Query
from windrow.model.units import SECOND
from windrow.planning.bound_query import BoundQuery
from windrow.planning.plan_builder import make_plan
from windrow.planning.statistics import JoinStatistics

Array = np.ndarray
TEXT_BYTES = 24
"""Assumed size of a value of variable length."""
INDEX_BYTES = 12
"""Size of a row in a hash index, with spare capacity."""
SET_BYTES = 100
"""Size of a row's set of about eight elements, in both directions of the index."""


@dataclass(frozen=True)
class StatedJoin:
    """A join with stated rates and distinct counts."""

    query: Query
    schemas: Mapping[str, pa.Schema]
    """Alias to schema."""
    rates: Mapping[str, float]
    """Rows per second by alias; 1 by default."""
    distinct: Mapping[str, float]
    """Number of distinct values by column; by default the number of rows in the window."""
    age_curves: Mapping[str, Sequence[float]] | None
    """Alias to the results of a row in each of equally long parts of its window, youngest first."""

    def __post_init__(self) -> None:
        check_rates(self.query, self.rates)
        for alias, stream in self.query.streams.items():
            if alias not in self.schemas:
                raise QueryError(f"the schema of stream '{alias}' is missing", Option("explain"))
            check_time_column(alias, self.schemas[alias], stream.time)
        with placed(Option("age_curves")):
            for alias in read_age_curves(self.age_curves) if self.age_curves else ():
                if alias not in self.query.streams:
                    raise QueryError(unknown("stream", alias, self.query.streams))

    def plan(self) -> tuple[Plan, JoinStatistics, list[float]]:
        """The plan, its statistics, and the bytes of a row of each stream."""
        query = self.query
        bound = BoundQuery.of(query, [plain_schema(self.schemas[alias]) for alias in query.aliases])
        rates = [float(self.rates.get(alias, 1.0)) for alias in query.aliases]
        samples = [{column: np.empty(0) for column in columns} for columns in bound.join_columns]
        stats = statistics(query, bound.predicate, bound.classes, rates, samples, {})
        known = {w.sql for members in bound.classes for w in members}
        for column in self.distinct:
            if column not in known:
                raise QueryError(unknown("column of an equality", column, known), Option("distinct"))
        classes = tuple(
            {w.stream: self.distinct.get(w.sql, max(1.0, stats.streams[w.stream].rows)) for w in members}
            for members in bound.classes
        )
        with placed(Option("distinct")):
            stats = replace(stats, classes=classes)
        plan = make_plan(query, bound.predicate, stats)
        row_state = sum(np.dtype(kind).itemsize for _, kind in Join(bound, ResultBuilder).row_state)
        return plan, stats, [_row_bytes(bound, s) + row_state for s in range(len(rates))]

    def stream_models(self, plan: Plan, costs: Sequence[float]) -> list[StreamModel]:
        """A model per stream, for forecasts. If age curves are given, streams without one have no results."""
        found, one = [], np.ones(1)
        for alias, rate, span, cost in zip(
            self.query.aliases, plan.rates, self.spans(plan), costs, strict=True
        ):
            none = (1.0,) if self.age_curves is None else (0.0,)
            given = tuple((self.age_curves or {}).get(alias, none))
            found.append(StreamModel(AgeCurve(given, span / len(given)), rate, cost, one, one))
        return found

    def spans(self, plan: Plan) -> list[float]:
        """Length of each window in seconds; of a row window, the time in which its rows arrive."""
        streams = zip(self.query.streams.values(), plan.rows, plan.rates, strict=True)
        return [window_seconds(s.window, rows, rate) for s, rows, rate in streams]

    def model(self, plan: Plan, stats: JoinStatistics) -> HarvestModel | None:
        """Model of work and results; None if probing does not start at the arriving row."""
        if any(d.order[0] != d.arriving for d in plan.directions):
            return None
        spans, policy = self.spans(plan), self.query.time_policy
        cutting = policy if isinstance(policy, Harvesting) else Harvesting()
        basic = cutting.basic_of([max(1, round(span * SECOND)) for span in spans]) / SECOND
        windows = BasicWindows(tuple(spans), tuple(min(basic, span) for span in spans))
        orders = tuple(d.order[1:] for d in plan.directions)
        m = len(spans)
        selectivities, scores = np.zeros((m, m - 1)), np.zeros((m, m - 1, max(windows.counts)))
        for i, order in enumerate(orders):
            for j, stream in enumerate(order):
                selectivities[i, j] = stats.selectivity(frozenset((i, *order[:j])), stream)
                scores[i, j, : windows.counts[stream]] = self._scores(stream, windows.counts[stream])
        return HarvestModel(
            windows=windows,
            rates=np.array(plan.rates),
            rows=np.array(plan.rows),
            orders=orders,
            selectivities=selectivities,
            scores=scores,
            access=tuple(tuple(step.access.path for step in d.steps) for d in plan.directions),
            charges=CHARGES,
        )

    def _scores(self, stream: int, count: int) -> Array:
        """Scores of the basic windows, interpolated from the curve, whose parts may have another length."""
        curve = (self.age_curves or {}).get(self.query.aliases[stream])
        if curve is None:
            return np.ones(count)
        total = np.concatenate(([0.0], np.cumsum(np.asarray(curve, dtype=float))))
        at = np.interp(np.linspace(0, 1, count + 1), np.linspace(0, 1, len(total)), total)
        return np.diff(at)


def check_rates(query: Query, rates: Mapping[str, float]) -> None:
    for alias, rate in rates.items():
        if alias not in query.streams:
            raise QueryError(unknown("stream", alias, query.streams), Option("rates"))
        if not 0 < rate < float("inf"):
            raise QueryError(f"expected rows per second above 0, got {rate}", Option("rates", stream=alias))


def _row_bytes(bound: BoundQuery, stream: int) -> float:
    """Bytes of a row in its window: payload, time, join columns and index."""
    payload = sum(_width(field.type) for field in bound.schemas[stream])
    sets = SET_BYTES * len(bound.sets[stream])
    return payload + 8 * (1 + len(bound.join_columns[stream])) + INDEX_BYTES + sets


def _width(kind: pa.DataType) -> float:
    try:
        return kind.bit_width / 8
    except ValueError:
        return TEXT_BYTES
