"""Rankings by learned age and frequency (Memory, section 3), and both together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windrow.shed.context import Context
from windrow.shed.ranking import Ranking

RANKINGS: dict[str, Callable[[Any, Context], Ranking]] = {}
