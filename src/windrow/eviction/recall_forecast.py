"""Forecast of recall as a function of memory, from the policy's learned model.

Models forecast the recall for a fraction of the rows of complete windows. How many rows complete windows hold
varies: most results are found when it is many, and then a limit holds a smaller fraction of them. With N rows
in complete windows when a result is found,

    recall of memory M  =  mean over results of  recall of the fraction M / N  (1 from M = N on).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windrow.eviction.forecast import AdditiveForecast, RecallForecast, StreamModel
from windrow.eviction.joint_forecast import JointForecast
from windrow.eviction.ranking import Ranking
from windrow.eviction.result_sample import ResultSample
from windrow.eviction.window_contents import WindowContents
from windrow.eviction.window_view import WindowView
from windrow.memory_models.allocation import POINTS, RecallCurve, Unit

ENOUGH = 256
"""Sampled results that a joint forecast needs."""
KNOWN = 0.5
"""A measured recall with a narrower interval replaces the model's, even one inside the interval."""


@dataclass(frozen=True)
class Measured:
    """The recall measured under a limit, with its interval."""

    memory: float
    recall: float
    low: float
    high: float

    def corrects(self, curve: RecallCurve) -> bool:
        """Whether it is more reliable than the curve: its interval is narrow, or the curve lies outside."""
        return self.high - self.low < KNOWN or not self.low <= curve.at(self.memory) <= self.high


@dataclass(frozen=True, eq=False)
class VaryingForecast(RecallForecast):
    """Forecast for windows whose size varied, in the unit of memory."""

    steady: RecallForecast
    contents: WindowContents
    measured: Measured | None

    def curve(self, unit: Unit) -> RecallCurve:
        steady = self.steady.curve(unit)
        held = self.contents.rows
        # The amounts seen are included, because peaks may be many times the usual amount.
        amounts = np.unique(np.concatenate([np.linspace(0.0, held[-1], POINTS), held]))
        parts = np.minimum(1.0, amounts[:, np.newaxis] / held) * steady.memory[-1]
        recall = np.interp(parts, steady.memory, steady.recall) @ self.contents.results
        found = RecallCurve(amounts, np.clip(np.maximum.accumulate(recall), 0.0, 1.0), unit)
        measured = self.measured
        if measured is None or not measured.corrects(found):
            return found
        return found.through({measured.memory: measured.recall})

    def shares(self, memory: float) -> tuple[float, ...]:
        return self.steady.shares(memory)

    def binding_fraction(self, memory: float) -> float | None:
        return self.contents.binding_fraction(memory)


def make_forecast(
    streams: Sequence[StreamModel],
    ranking: Ranking | None = None,
    needs: ResultSample | None = None,
    views: Sequence[WindowView] = (),
    contents: WindowContents | None = None,
    measured: Measured | None = None,
) -> RecallForecast:
    """Forecast from the model of each stream; with three or more streams also from a sample of results
    (`needs`); and from the rows that complete windows held (`contents`)."""
    steady = _steady(streams, ranking, needs, views)
    if contents is None:
        return steady
    rates = np.array([known.rate for known in streams])
    cost = float(rates @ [known.cost for known in streams]) / max(float(rates.sum()), 1e-300)
    return VaryingForecast(steady, contents.scaled(cost), measured)


def _steady(
    streams: Sequence[StreamModel],
    ranking: Ranking | None,
    needs: ResultSample | None,
    views: Sequence[WindowView],
) -> RecallForecast:
    if ranking is None or needs is None or len(needs) < ENOUGH:
        return AdditiveForecast(streams)
    held = [ranking.scores(view, np.arange(0, len(view), view.exposure_stride)) for view in views]
    scores = np.stack([known.ratio(own) for known, own in zip(streams, needs.scores.T, strict=True)], axis=1)
    finer = [known.regrouped(own) for known, own in zip(streams, held, strict=True)]
    return JointForecast(finer, needs.ages, scores, needs.weights, bool(ranking.adapts_to_losses))
