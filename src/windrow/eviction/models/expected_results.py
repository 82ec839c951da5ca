"""Expected results of a stored row by its key (Memory, eq. 1), given or learned.

For two streams it is r_2 W_1 f_2(v); with more, and with several keys, it is what `KeyRates` makes of it. As
learned it is one result more than was seen, so that no row is expected to bring nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.errors import QueryError, unknown
from windrow.eviction.context import Context
from windrow.eviction.models.key_sketch import DecayedTime
from windrow.eviction.policies.frequency import KeyRates
from windrow.eviction.window_view import WindowView
from windrow.expr.encoding import encode
from windrow.model.policies.sampling import Expected
from windrow.model.stateful import Stateful

Array = np.ndarray
LEARNING = 1 / 16
"""Rates are taken over this part of the window at least."""
EVEN = 0.2
"""The part of a learned size that is the same for all rows: a key that bursts after it was rare is sampled by
rows that weigh a little more than others, and not by one in hundreds that stands for all."""
MEMORY = 1 - 1 / 256
"""How much of a mean over rows is kept when another row comes."""


class ExpectedResults(Stateful):
    """
    Parameters
    ----------
    given
        Alias to results by value of the key; None: learned.
    width, half_life
        Of the sketches; half-life in windows.
    """

    saved = ("_rates", "_elapsed", "_until", "_total", "_rows")
    clocks = ("_until",)

    def __init__(self, context: Context, given: Expected | None, width: int, half_life: float) -> None:
        self.known = bool(context.classes)
        """Whether rows can be told apart: whether the streams share a key."""
        self._given = None if given is None else _encoded(context, given)
        self._rates = KeyRates(context, width, half_life)
        self._half_life = half_life
        self._elapsed = DecayedTime()
        self._until: int | None = None
        self._total, self._rows = 0.0, 0.0
        """Results expected of rows that came lately, and how many these were."""

    def on_arrival(self, view: WindowView) -> None:
        """Rows came."""
        if self._given is None:
            self._rates.arrive(view)

    def end_sub_batch(self, now: int, span: float) -> None:
        """Event time has come to `now`; `span` is the longest window in seconds."""
        if self._given is not None:
            return
        self._rates.settle(now)
        if self._until is not None and now > self._until:
            self._elapsed.advance((now - self._until) / 1e6, max(self._half_life * span, 1e-6))
        self._until = now if self._until is None else max(now, self._until)

    def of(self, view: WindowView, rows: Array | slice, span: float) -> Array:
        """Results each of these rows is expected to bring in `span` seconds."""
        if self._given is not None:
            number, words, results = self._given[view.stream]
            own = view.join_columns[number][rows]
            at = np.minimum(np.searchsorted(words, own), len(words) - 1)
            return np.where(words[at] == own, results[at], 0.0)
        if not self.known:
            return np.ones(len(view.ts[rows]))
        # In the beginning little time has passed, and rates taken over it would be anything.
        seconds, least = self._elapsed.seconds, span * LEARNING
        return span * (self._rates.rates(view, rows) * min(1.0, seconds / least) + 1 / max(seconds, least))

    def relative(self, results: Array) -> Array:
        """Sizes of rows expected to bring so many results: against what rows bring at present, so that
        learning better does not set new rows against old ones; and drawn towards it, so that no row weighs
        more than 1 / EVEN times what it would if all were alike. What is given is taken as it is."""
        if self._given is not None or not self.known:
            return results
        self._total *= MEMORY ** len(results)
        self._rows = self._rows * MEMORY ** len(results) + len(results)
        self._total += float(results.sum())
        return EVEN + (1 - EVEN) * results * self._rows / self._total

    def dump(self) -> dict[str, Any]:
        return super().dump() if self._given is None else {}


def _encoded(context: Context, given: Expected) -> list[tuple[int, Array, Array]]:
    """Per stream: the number of the key's word, its values as words in order, and their results."""
    aliases = context.query.aliases
    for alias in given:
        if alias not in aliases:
            raise QueryError(f"shed: expected: {unknown('stream', alias, aliases)}")
    if len(context.classes) != 1:
        raise QueryError(
            f"shed: expected results by value need one equality in the predicate, got {len(context.classes)}"
        )
    found = []
    for stream, alias in enumerate(aliases):
        word = next((w for w in context.classes[0] if w.stream == stream), None)
        if word is None:
            raise QueryError(f"shed: expected results by value: stream '{alias}' has no part in the equality")
        results: Mapping[object, float] = given.get(alias) or {}
        kind = pa.array([], word.type).type
        try:
            values = pa.array(list(results), kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise QueryError(f"shed: expected results of '{alias}': {error}; give values of {word}") from None
        numbers = encode(values)[0] if len(values) else np.zeros(1, np.int64)
        order = np.argsort(numbers)
        counted = np.array([*results.values()] or [0.0], np.float64)
        found.append((context.join_columns[stream].index(word), numbers[order], counted[order]))
    return found
