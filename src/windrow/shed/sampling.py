"""Rankings that sample (Memory, section 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windrow.shed.context import Context
from windrow.shed.ranking import Ranking

RANKINGS: dict[str, Callable[[Any, Context], Ranking]] = {}
