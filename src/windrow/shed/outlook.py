"""What more or less memory would bring, as far as a policy has learned it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from windrow.planning.allocation import RecallCurve, Unit
from windrow.shed.forecast import AddedForecast, Known
from windrow.shed.joint_forecast import JointForecast
from windrow.shed.needs import Needs

ENOUGH = 256
"""Results that must be known whole before they are gone by."""


class Outlook(Protocol):
    def curve(self, unit: Unit) -> RecallCurve:
        """Recall against memory, from nothing to whole windows."""
        ...

    def divided(self, memory: float) -> tuple[float, ...]:
        """What the rows of each stream get of so much memory."""
        ...


def outlook(streams: Sequence[Known], needs: Needs | None = None, responds: bool = True) -> Outlook:
    """From what is known of each stream and, of three and more, of results as a whole."""
    if needs is None or len(needs) < ENOUGH:
        return AddedForecast(streams)
    return JointForecast(streams, needs, responds)
