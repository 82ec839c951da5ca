"""What the parts of a join have learned, put together. Looking changes nothing of it."""

from __future__ import annotations

from windrow.engine.harvester import Harvester
from windrow.engine.join import Join
from windrow.model.knowledge import Knowledge, Lag, Spans
from windrow.model.query import Query

NOTHING = 1e-6
"""Results of a row in its life, below which a curve is of nothing found."""


def knowledge(query: Query, join: Join | None, throttle: float) -> Knowledge:
    """Of an operator that lately had time for such a part of the work."""
    saver = join.saver if join is not None else None
    harvest = saver.latest if isinstance(saver, Harvester) and throttle < 1 else None
    plan = join.plan if join is not None else None
    sheds = [str(query.policy)] if query.limit is not None else []
    sheds += [query.time_policy.name] if query.time_limit is not None else []
    return Knowledge(
        on=query.on,
        windows={alias: str(stream.window) for alias, stream in query.streams.items()},
        memory=None if query.limit is None else str(query.limit),
        deadline=None if query.time_limit is None else str(query.time_limit),
        shed=" and ".join(sheds),
        plan=None if plan is None else str(plan),
        ages=_ages(query, join),
        lags=_lags(query, saver) if isinstance(saver, Harvester) else (),
        harvest=None if harvest is None or harvest.everything else harvest,
    )


def _ages(query: Query, join: Join | None) -> dict[str, Spans]:
    curves = join.shedder.ranking.curves() if join is not None and join.shedder is not None else ()
    return {
        alias: Spans.of_rates(0.0, curve.width, [n / curve.width for n in curve.rates])
        for alias, curve in zip(query.aliases, curves, strict=False)
        if curve.n > NOTHING
    }


def _lags(query: Query, harvester: Harvester) -> tuple[Lag, ...]:
    lags = harvester.lags
    if lags is None or lags.weight == 0:
        return ()
    names = query.aliases
    return tuple(
        Lag(names[i], names[j], Spans.of_counts(low, (high - low) / len(counts), counts.tolist()))
        for i, j, low, high, counts in lags.histograms()
    )
