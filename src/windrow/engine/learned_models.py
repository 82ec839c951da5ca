"""Collects what the parts of a join have learned, without changing it."""

from __future__ import annotations

from windrow.engine.join import Join
from windrow.engine.limits.harvester import Harvester
from windrow.model.learned_models import Histogram, LagHistogram, LearnedModels
from windrow.model.limits import memory_text
from windrow.model.query import Query

NOTHING = 1e-6
"""A curve with fewer results per row's lifetime has learned nothing."""


def learned_models(query: Query, join: Join | None, throttle: float) -> LearnedModels:
    """Models of an operator at this throttle fraction."""
    load_shedder = join.load_shedder if join is not None else None
    # The last harvest is kept when there is time for everything again, but then it is not shown.
    harvest = load_shedder.last_harvest if isinstance(load_shedder, Harvester) and throttle < 1 else None
    plan = join.plan if join is not None else None
    sheds = [str(query.memory_policy)] if query.shed_limit is not None else []
    sheds += [query.time_policy.name] if query.time_limit is not None else []
    return LearnedModels(
        on=query.on,
        windows={alias: str(stream.window) for alias, stream in query.streams.items()},
        memory=memory_text(query.memory_limit, query.disk_limit),
        deadline=None if query.time_limit is None else str(query.time_limit),
        shed=" and ".join(sheds),
        plan=None if plan is None else str(plan),
        ages=_ages(query, join),
        lags=_lags(query, load_shedder) if isinstance(load_shedder, Harvester) else (),
        harvest=None if harvest is None or harvest.everything else harvest,
    )


def _ages(query: Query, join: Join | None) -> dict[str, Histogram]:
    curves = join.evictor.ranking.age_curves() if join is not None and join.evictor is not None else ()
    return {
        alias: Histogram.of(0.0, curve.width, [n / curve.width for n in curve.rates], averaged=True)
        for alias, curve in zip(query.aliases, curves, strict=False)
        if curve.n > NOTHING
    }


def _lags(query: Query, harvester: Harvester) -> tuple[LagHistogram, ...]:
    lags = harvester.lags
    if lags is None or lags.weight == 0:
        return ()
    names = query.aliases
    return tuple(
        LagHistogram(
            names[i], names[j], Histogram.of(low, (high - low) / len(counts), counts.tolist(), averaged=False)
        )
        for i, j, low, high, counts in lags.histograms()
    )
