"""Expected results of a stored row by its key (Memory, eq. 1), given or learned.

For two streams it is r_2 W_1 f_2(v); otherwise the rate of `KeyRates` times the window. A learned value
counts one result more than was seen, so that no row is expected to find nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from windrow.errors import Option, QueryError
from windrow.eviction.models.key_rates import KeyRates
from windrow.eviction.window_view import WindowView
from windrow.expr.encoding import encode
from windrow.model.policies.sampling import Expected
from windrow.model.stateful import Stateful
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
EXPECTED = Option("expected")
LEARNING = 1 / 16
"""Rates are computed over at least this fraction of the window."""
EVEN = 0.2
"""The fraction of a learned size that is the same for all rows. When a rare key bursts, its rows then weigh
slightly more than others, instead of one row in hundreds representing all of them."""
MEMORY = 1 - 1 / 256
"""Decay of the running mean over rows, per row."""


class ExpectedResults(Stateful):
    """`given` maps an alias to results by value of the key; None: learned from key rates, whose half-life is
    in windows."""

    saved = ("_rates", "_total", "_rows")

    def __init__(self, bound: BoundQuery, given: Expected | None, width: int, half_life: float) -> None:
        self.known = bool(bound.classes)
        """Whether the streams share a key, so that rows differ."""
        self._given = None if given is None else _encoded(bound, given)
        self._rates = KeyRates(bound, width, half_life)
        self._total, self._rows = 0.0, 0.0
        """Results expected of recent rows, and how many rows these were."""

    def on_arrival(self, view: WindowView) -> None:
        if self._given is None:
            self._rates.on_arrival(view)

    def end_sub_batch(self, now: int) -> None:
        if self._given is None:
            self._rates.end_sub_batch(now)

    def of(self, view: WindowView, rows: Array | slice, span: float) -> Array:
        """Results each of these rows is expected to find in `span` seconds."""
        if self._given is not None:
            column, keys, results = self._given[view.stream]
            own = view.join_columns[column][rows]
            at = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
            return np.where(keys[at] == own, results[at], 0.0)
        if not self.known:
            return np.ones(len(view.ts[rows]))
        # Rates over a short time are unreliable, so they are scaled down at first.
        seconds, least = self._rates.seconds, span * LEARNING
        return span * (self._rates.rates(view, rows) * min(1.0, seconds / least) + 1 / max(seconds, least))

    def relative(self, results: Array) -> Array:
        """Sizes of rows with these expected results, relative to the current mean, so that new rows stay
        comparable with old ones while the estimates improve. Sizes are shrunk towards 1, so no row weighs
        more than 1 / EVEN times what it would if all were equal. Given results are used unchanged."""
        if self._given is not None or not self.known:
            return results
        self._total *= MEMORY ** len(results)
        self._rows = self._rows * MEMORY ** len(results) + len(results)
        self._total += float(results.sum())
        return EVEN + (1 - EVEN) * results * self._rows / self._total


def _encoded(bound: BoundQuery, given: Expected) -> list[tuple[str, Array, Array]]:
    """Per stream: the name of the key's join column, the encoded values in order, and their results."""
    aliases = bound.query.aliases
    if len(bound.classes) != 1:
        raise QueryError(f"needs one equality in the predicate, got {len(bound.classes)}", EXPECTED)
    found = []
    for stream, alias in enumerate(aliases):
        column = next((c for c in bound.classes[0] if c.stream == stream), None)
        if column is None:
            raise QueryError(f"stream '{alias}' is not part of the equality", EXPECTED)
        results: Mapping[object, float] = given.get(alias) or {}
        try:
            values = pa.array(list(results), column.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise QueryError(f"{error}; give values of {column}", Option("expected", stream=alias)) from None
        numbers = encode(values)[0] if len(values) else np.zeros(1, np.int64)
        order = np.argsort(numbers)
        counted = np.array([*results.values()] or [0.0], np.float64)
        found.append((column.name, numbers[order], counted[order]))
    return found
