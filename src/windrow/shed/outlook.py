"""What more or less memory would bring, as far as a policy has learned it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from windrow.planning.allocation import RecallCurve, Unit
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


def outlook(
    streams: Sequence[Known],
    ranking: Ranking | None = None,
    needs: Needs | None = None,
    views: Sequence[View] = (),
) -> Outlook:
    """From what is known of each stream and, of three and more, of results as a whole."""
    if ranking is None or needs is None or len(needs) < ENOUGH:
        return AddedForecast(streams)
    held = [ranking.scores(view, np.arange(0, len(view), view.sparse)) for view in views]
    scores = np.stack([known.ratio(own) for known, own in zip(streams, needs.scores.T, strict=True)], axis=1)
    finer = [known.among(own) for known, own in zip(streams, held, strict=True)]
    return JointForecast(finer, needs.ages, scores, needs.weights, bool(ranking.responds))
