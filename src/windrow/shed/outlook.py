"""What more or less memory would bring, as far as a policy has learned it.

Models tell what recall to expect of a part of what whole windows hold. How much that is varies: results come
when it is much, and then a limit leaves room for a smaller part. With N rows in whole windows when a result
comes,

    recall of memory M  =  mean over results of  recall of the part M / N  (1 from M = N on).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from windrow.planning.allocation import POINTS, RecallCurve, Unit
from windrow.shed.contents import Contents
from windrow.shed.forecast import AddedForecast, Known
from windrow.shed.joint_forecast import JointForecast
from windrow.shed.needs import Needs
from windrow.shed.ranking import Ranking
from windrow.shed.view import View

ENOUGH = 256
"""Results that must be known whole before they are gone by."""


class Outlook(Protocol):
    def curve(self, unit: Unit) -> RecallCurve:
        """Recall against memory, from nothing to whole windows."""
        ...

    def divided(self, memory: float) -> tuple[float, ...]:
        """What the rows of each stream get of so much memory."""
        ...

    def binding(self, memory: float) -> float | None:
        """The share of time in which whole windows would take more; None where that is not known."""
        ...


@dataclass(frozen=True, eq=False)
class VaryingForecast:
    """Of streams whose windows held so much, in the unit of memory, and not always the same."""

    steady: Outlook
    contents: Contents
    measured: Mapping[float, float]
    """Recalls that limits left, by memory."""

    def curve(self, unit: Unit) -> RecallCurve:
        steady = self.steady.curve(unit)
        held = self.contents.rows
        # As fine at the small amounts as at the large ones: peaks may be many times what there is usually.
        amounts = np.unique(np.concatenate([np.linspace(0.0, held[-1], POINTS), held]))
        parts = np.minimum(1.0, amounts[:, np.newaxis] / held) * steady.memory[-1]
        recall = np.interp(parts, steady.memory, steady.recall) @ self.contents.results
        found = RecallCurve(amounts, np.clip(np.maximum.accumulate(recall), 0.0, 1.0), unit)
        return found.through(self.measured)

    def divided(self, memory: float) -> tuple[float, ...]:
        return self.steady.divided(memory)

    def binding(self, memory: float) -> float | None:
        return self.contents.binding(memory)


def outlook(
    streams: Sequence[Known],
    ranking: Ranking | None = None,
    needs: Needs | None = None,
    views: Sequence[View] = (),
    contents: Contents | None = None,
    measured: Mapping[float, float] | None = None,
) -> Outlook:
    """From what is known of each stream and, of three and more, of results as a whole; and from what whole
    windows held, in rows."""
    steady = _steady(streams, ranking, needs, views)
    if contents is None:
        return steady
    rates = np.array([known.rate for known in streams])
    cost = float(rates @ [known.cost for known in streams]) / max(float(rates.sum()), 1e-300)
    return VaryingForecast(steady, contents.scaled(cost), measured or {})


def _steady(
    streams: Sequence[Known], ranking: Ranking | None, needs: Needs | None, views: Sequence[View]
) -> Outlook:
    if ranking is None or needs is None or len(needs) < ENOUGH:
        return AddedForecast(streams)
    held = [ranking.scores(view, np.arange(0, len(view), view.sparse)) for view in views]
    scores = np.stack([known.ratio(own) for known, own in zip(streams, needs.scores.T, strict=True)], axis=1)
    finer = [known.among(own) for known, own in zip(streams, held, strict=True)]
    return JointForecast(finer, needs.ages, scores, needs.weights, bool(ranking.responds))
