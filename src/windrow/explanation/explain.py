"""The plan before the query runs: its work, its memory and time, and the recall with less of them.

It uses stated rates, or a sample of the data over which the join runs once in this process. For an operator
that has run, it uses the models that the operator has learned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import overload

import numpy as np
import pyarrow as pa

from windrow.engine.join import Join
from windrow.engine.limits.deadline_controller import MARGIN
from windrow.engine.operator import Operator, runner_of
from windrow.engine.runner import JoinRunner
from windrow.engine.shared.grouping import base_query, group_queries
from windrow.engine.shared.tiers import WindowTiers
from windrow.errors import Option, QueryError, placed
from windrow.eviction.recall_forecast import make_forecast
from windrow.explanation.dry_run import MAX_SECONDS, MIN_WINDOWS, DryRun, Progress, dry_run, tried
from windrow.explanation.explanation import Explanation, SharedExplanation
from windrow.explanation.held_memory import Partitions, held_memory
from windrow.explanation.stated_join import StatedJoin, check_rates
from windrow.harvest.model import HarvestModel
from windrow.harvest.solve import DEFAULT, solve
from windrow.harvest.time_curve import TimeCurve
from windrow.model.keywords import checks_keywords
from windrow.model.limits import MemoryLimit
from windrow.model.plan import Plan
from windrow.model.policies.time_policies import Dropping, Harvesting, TimePolicy
from windrow.model.query import Query
from windrow.model.sharing import Subscription
from windrow.model.units import SECOND, positive_duration


@overload
def explain(
    query: Query | Operator,
    schemas: Mapping[str, pa.Schema] | None = None,
    rates: Mapping[str, float] | None = None,
    distinct: Mapping[str, float] | None = None,
    age_curves: Mapping[str, Sequence[float]] | None = None,
    sample: Mapping[str, pa.Table | pa.RecordBatch] | None = None,
    trigger_interval: str | timedelta | None = None,
    partitions: int = 1,
) -> Explanation: ...


@overload
def explain(
    query: Mapping[str, Query | Subscription],
    schemas: Mapping[str, pa.Schema] | None = None,
    rates: Mapping[str, float] | None = None,
    distinct: Mapping[str, float] | None = None,
    age_curves: Mapping[str, Sequence[float]] | None = None,
    sample: Mapping[str, pa.Table | pa.RecordBatch] | None = None,
    trigger_interval: str | timedelta | None = None,
    partitions: int = 1,
) -> SharedExplanation: ...


@checks_keywords("wr.explain")
def explain(
    query: Query | Operator | Mapping[str, Query | Subscription],
    schemas: Mapping[str, pa.Schema] | None = None,
    rates: Mapping[str, float] | None = None,
    distinct: Mapping[str, float] | None = None,
    age_curves: Mapping[str, Sequence[float]] | None = None,
    sample: Mapping[str, pa.Table | pa.RecordBatch] | None = None,
    trigger_interval: str | timedelta | None = None,
    partitions: int = 1,
) -> Explanation | SharedExplanation:
    """The plan of a query, with its expected work, memory and recall. The result prints itself, and has
    `to_html()` and `to_json()`.

    Parameters
    ----------
    query
        The query; or an operator that has run, which needs no other argument; or several queries by name, as
        for `SharedOperator`. Which of them share a join is known without schemas.
    schemas
        Alias to schema; not needed with a sample.
    rates
        Rows per second by alias. By default as in the sample, or 1 without one. Stated rates make a
        small sample describe a fast stream.
    distinct
        Number of distinct values by column, such as {"a.id": 1000}; by default the number of rows in
        the window. Not needed with a sample or a running operator.
    age_curves
        Alias to the results of a row in each of equally long parts of its window, youngest first; even
        by default. Not needed with a sample or a running operator.
    sample
        Alias to some of its rows, from the same time for all streams and ideally a few windows long. The
        join runs over it once, for a few seconds at most, and learns its models from it.
    trigger_interval
        Event time between two calls, for the work that fits into a deadline; by default the deadline itself.
    partitions
        Number of partitions that share the work.
    """
    calls = _Calls(trigger_interval, partitions)
    if isinstance(query, Operator):
        return _of_runner(runner_of(query), None, None, calls)
    if isinstance(query, Mapping):
        groups = group_queries(query)
        if not schemas and not sample:
            return SharedExplanation(tuple(groups), ())
        joins = []
        for members in (list(group.subscriptions.values()) for group in groups):
            largest = WindowTiers.of(member.windows for member in members).largest
            top = base_query(members[0].query, largest)
            given = (schemas, rates, distinct, age_curves, sample, trigger_interval, partitions)
            joins.append(explain(top, *given))
        return SharedExplanation(tuple(groups), tuple(joins))
    if not isinstance(query, Query):
        raise QueryError(
            f"expected wr.Query(...), wr.Operator(...) or queries by name, got {query!r}", Option("query")
        )
    if sample is not None:
        if distinct or age_curves:
            raise QueryError(
                "distinct and age_curves are learned from the sample; leave them out", Option("explain")
            )
        return explain_sample(query, sample, rates, trigger_interval, partitions)
    stated = StatedJoin(_in_memory(query), schemas or {}, rates or {}, distinct or {}, age_curves)
    return replace(_from_stated(stated), query=query)


def _in_memory(query: Query) -> Query:
    """The query with all that it may hold in memory. What has spilled changes no result."""
    return replace(query, memory=query.shed_limit, disk=None)


def explain_sample(
    query: Query,
    sample: Mapping[str, pa.Table | pa.RecordBatch],
    rates: Mapping[str, float] | None = None,
    trigger_interval: str | timedelta | None = None,
    partitions: int = 1,
    progress: Progress = lambda done, of: None,
    max_seconds: float = MAX_SECONDS,
    divided: Partitions | None = None,
) -> Explanation:
    """`explain` from a sample. Calls `progress` with the number of rows processed and their total. Memory is
    that of all partitions if `divided` says how rows reach them."""
    check_rates(query, rates or {})
    given, query = query, _in_memory(query)
    runner, ran = dry_run(query, sample, progress, max_seconds)
    assert ran.sample is not None
    calls = _Calls(trigger_interval, partitions)
    found = _of_runner(runner, ran, rates or {}, calls, query)
    # At other rates the same fraction of the memory is assumed to give the same recall.
    faster = sum(found.plan.rates) * ran.span / sum(ran.rows.values())
    if found.recall is not None and query.algorithm == "eager" and ran.windows >= MIN_WINDOWS:
        limit = query.memory_limit
        if limit is not None:
            limit = MemoryLimit(limit.kind, max(1, round(limit.size / faster)))
        recall = tried(
            replace(query, memory=limit), ran, float(found.recall.memory[-1]) / faster, max_seconds
        )
        found = replace(found, recall=found.recall.through({m * faster: r for m, r in recall.items()}))
    whole = divided or Partitions(lambda alias, rows: [rows])
    if whole.calls is None and calls.interval is not None:
        whole = replace(whole, calls=max(1, math.ceil(ran.span / calls.interval)))
    held = held_memory(query, ran.sample, max_seconds, whole)
    if divided is not None and found.recall is not None and found.recall.unit == "bytes":
        # Partitions and copies of rows take part of every limit.
        more = max(1.0, held.shrunk * faster / float(found.recall.memory[-1]))
        found = replace(found, recall=replace(found.recall, memory=found.recall.memory * more))
    return replace(
        found,
        exact_memory=MemoryLimit("bytes", max(1, round(sum(held.streams) * faster))),
        held=tuple(each * faster for each in held.streams),
        query=given,
        limit=query.memory_limit,
    )


class _Calls:
    """How rows arrive: event time per call, and number of partitions."""

    def __init__(self, interval: str | timedelta | None, partitions: int) -> None:
        with placed(Option("trigger_interval")):
            self.interval = None if interval is None else positive_duration(interval) / SECOND
        if partitions < 1:
            raise QueryError(f"must be at least 1, got {partitions}", Option("partitions"))
        self.partitions = partitions

    def throttle(self, query: Query, seconds: float, rates: Sequence[float]) -> float | None:
        """The fraction of the full work that fits into the deadline, if the full work takes `seconds` per
        second of event time."""
        deadline = query.time_limit
        if deadline is None:
            return None
        if deadline.rate is not None:
            allowed = sum(rates) / deadline.rate
        else:
            assert deadline.micros is not None
            allowed = 1.0 if self.interval is None else deadline.micros / SECOND / self.interval
        return float(min(1.0, MARGIN * allowed * self.partitions / max(seconds, 1e-12)))


def _from_stated(stated: StatedJoin) -> Explanation:
    query = stated.query
    plan, stats, costs = stated.plan()
    in_rows = query.memory_limit is not None and query.memory_limit.kind == "rows"
    forecast = make_forecast(stated.stream_models(plan, [1.0] * len(costs) if in_rows else costs))
    exact = max(1, round(sum(rows * cost for rows, cost in zip(plan.rows, costs, strict=True))))
    model = stated.model(plan, stats)
    return Explanation(
        plan=plan,
        exact_memory=MemoryLimit("bytes", exact),
        recall=forecast.curve("rows" if in_rows else "bytes"),
        limit=query.memory_limit,
        query=query,
        row_bytes=tuple(costs),
        memory_split=None if query.memory_limit is None else forecast.shares(float(query.memory_limit.size)),
        time=None if model is None else _time_curve(query, model, None),
    )


def _of_runner(
    runner: JoinRunner,
    ran: DryRun | None,
    rates: Mapping[str, float] | None,
    calls: _Calls,
    query: Query | None = None,
) -> Explanation:
    """Explain from the models of a join that has run, at its measured rates or at given ones."""
    if runner.plan is None or runner.join is None:
        raise QueryError(
            "this operator has not seen all its streams yet; process some rows first", Option("explain")
        )
    join, query = runner.join, query or runner.query
    plan, faster = runner.plan, 1.0
    if ran is not None:
        measured = [rows / ran.span for rows in ran.rows.values()]
        wanted = [(rates or {}).get(a, each) for a, each in zip(query.aliases, measured, strict=True)]
        plan = runner.planner.plan_for(join, wanted)
        join.install(plan)
        faster = sum(plan.rates) / max(sum(measured), 1e-300)
    row_bytes = tuple(window.nbytes_shrunk / max(len(window), 1) for window in join.windows)
    exact = sum(rows * size for rows, size in zip(plan.rows, row_bytes, strict=True))
    recall, split, binds = None, None, None
    evictor = join.evictor if runner.counters.sub_batches else None
    known_rates = None if ran is None else plan.rates
    forecast = None if evictor is None else evictor.forecast(join.windows, known_rates, faster)
    if evictor is not None and forecast is not None:
        recall = forecast.curve(evictor.limit.kind)
        if recall.unit == "bytes":
            exact = float(recall.memory[-1])
        if query.shed_limit is not None:
            size = float(query.shed_limit.size)
            split, binds = forecast.shares(size), forecast.binding_fraction(size)
    time, throttle = None, None
    model = _model(join)
    if model is not None:
        as_planned = replace(model, rates=np.array(plan.rates), rows=np.array(plan.rows))
        seconds = _seconds(runner, model, as_planned)
        time = _time_curve(query, as_planned, seconds)
        throttle = None if seconds is None else calls.throttle(query, seconds, plan.rates)
        if ran is not None:
            plan = _with_learned_costs(plan, as_planned, query.time_policy, throttle)
    return Explanation(
        plan=plan,
        exact_memory=MemoryLimit("bytes", round(max(1.0, exact))),
        recall=recall,
        limit=query.shed_limit,
        query=query,
        row_bytes=row_bytes,
        memory_split=split,
        binds=binds,
        time=time,
        throttle=throttle,
        dry_run=ran,
    )


def _model(join: Join) -> HarvestModel | None:
    """The learned model of work and results, if there is one."""
    load_shedder = join.load_shedder
    if (
        load_shedder is None
        or load_shedder.statistics.sub_batches == 0
        or not all(len(w) for w in join.windows)
    ):
        return None
    return load_shedder.model(join.windows)


def _with_learned_costs(plan: Plan, model: HarvestModel, policy: TimePolicy, throttle: float | None) -> Plan:
    """The same plan with costs from measured probes instead of distinct counts, and with the harvest that a
    deadline leaves time for."""
    work, fan = model.tables.work, model.tables.fan
    directions = []
    for i, direction in enumerate(plan.directions):
        partial, steps = plan.rates[i], []
        for j, step in enumerate(direction.steps):
            # The column of the tables in which all basic windows are probed.
            whole = model.counts[i, j]
            compared, partial = partial * work[i, j, whole], partial * fan[i, j, whole]
            steps.append(replace(step, comparisons=float(compared), results=float(partial)))
        directions.append(replace(direction, steps=tuple(steps)))
    plan = replace(plan, directions=tuple(directions))
    if throttle is None or throttle >= 1 or not isinstance(policy, Harvesting):
        return plan
    return replace(plan, harvest=solve(model, throttle, policy.method, policy.parts))


def _seconds(runner: JoinRunner, learned: HarvestModel, wanted: HarvestModel) -> float | None:
    """Seconds of full work per second of event time, from the measured cost of rows and the model."""
    controller = runner.deadline_controller
    if controller is None or controller.cost <= 0 or learned.full[0] <= 0:
        return None
    each = learned.full[0] / float(learned.rates.sum())
    return controller.cost * wanted.full[0] / each


def _time_curve(query: Query, model: HarvestModel, seconds: float | None) -> TimeCurve:
    policy = query.time_policy
    if isinstance(policy, Dropping):
        return TimeCurve.of_drop(model, seconds)
    if not isinstance(policy, Harvesting):
        return TimeCurve.of_harvest(model, seconds)
    # An exhaustive search for each point of the curve would take too long.
    method = policy.method if policy.method != "exhaustive" else DEFAULT
    return TimeCurve.of_harvest(model, seconds, method, policy.parts)
