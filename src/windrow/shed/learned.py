"""Rankings by learned age and frequency (Memory, section 3), and both together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windrow.model.learned import Age, Auto, Frequency
from windrow.shed.age import AgeRanking
from windrow.shed.auto import AutoRanking
from windrow.shed.context import Context
from windrow.shed.frequency import FrequencyRanking
from windrow.shed.ranking import Ranking

RANKINGS: dict[str, Callable[[Any, Context], Ranking]] = {
    Age.name: AgeRanking,
    Frequency.name: FrequencyRanking,
    Auto.name: AutoRanking,
}
