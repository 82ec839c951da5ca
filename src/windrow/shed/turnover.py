"""How long a row of a stream can stay: the rows held over the rate at which they come, lately.

By Little's law that is the mean time rows stay, whatever the policy; so it is the natural unit for thresholds
that have to fit the memory there is and the streams as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from windrow.shed.view import View


class Turnover:
    def __init__(self, streams: int) -> None:
        self._rows = [0.0] * streams
        self._seconds = 0.0
        """Event time in which these rows came. Of both, what lies a window back counts 1/e."""
        self._until: int | None = None

    def settle(self, views: Sequence[View], now: int) -> None:
        """A quantum's rows have come, and event time has come to `now`."""
        if self._until is not None:  # of the first rows it is not known in what time they came
            passed = (now - self._until) / 1e6
            fade = math.exp(-passed * 1e6 / max(view.span for view in views))
            self._seconds = self._seconds * fade + passed
            self._rows = [rows * fade + len(v) - v.fresh for rows, v in zip(self._rows, views, strict=True)]
        self._until = now

    def seconds(self, view: View) -> float:
        """At most the window itself."""
        span, rows = view.span / 1e6, self._rows[view.stream]
        return min(span, len(view) * self._seconds / rows) if rows * self._seconds > 0 else span

    def save(self) -> dict[str, Any]:
        return {"rows": self._rows, "seconds": self._seconds, "until": self._until}

    def load(self, plain: dict[str, Any]) -> None:
        self._rows, self._seconds, self._until = list(plain["rows"]), plain["seconds"], plain["until"]
