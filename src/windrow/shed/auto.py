"""AUTO: the results a row is expected to bring per second of being kept, from its age and its key together.

    expected rate  =  (best rate its age allows)  x  (how much more rows of its key find than others)

The first factor is the priority on the learned age curve, the second the calibrated frequency of its key on
the other streams. Where ages do not matter the curve is flat, where keys do not matter the ratio is 1; so the
ranking turns into AGE, into PROB or into both without being told. Without an equality only ages count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.model.learned import Auto
from windrow.planning.age import AgeCurve
from windrow.planning.allocation import RecallCurve, Unit
from windrow.shed.age import age_all, tell
from windrow.shed.calibration import Calibration
from windrow.shed.context import Context
from windrow.shed.curve import LearnedCurve
from windrow.shed.forecast import Known, forecast, groups
from windrow.shed.frequency import KeyRates
from windrow.shed.ranking import Ranking, Room
from windrow.shed.view import Found, View

Array = np.ndarray


class AutoRanking(Ranking):
    per_byte = True
    learns = True

    def __init__(self, policy: Auto, context: Context) -> None:
        streams = range(len(context.words))
        self._half_life = policy.half_life
        self._learned = [LearnedCurve(policy.buckets, policy.half_life) for _ in streams]
        self._calibrated = [Calibration() for _ in streams]
        self._keys = KeyRates(context, policy.width, policy.half_life)
        self._curves: list[AgeCurve] = []
        self._until: int | None = None

    def arrive(self, view: View, rng: np.random.Generator) -> None:
        self._learned[view.stream].came(len(view) - view.fresh)
        self._keys.arrive(view)

    def found(self, views: Sequence[View], found: Found) -> None:
        tell(self._learned, views, found)
        if not self._keys.known:
            return
        for view, rows, stored in zip(views, found.rows, found.stored, strict=True):
            weights = np.where(stored, view.weight[rows], 0.0)
            known = np.flatnonzero(weights > 0)
            if len(known):
                mine, at = np.unique(rows[known], return_inverse=True)
                counted = np.bincount(at, weights[known], len(mine))
                self._calibrated[view.stream].found(self._keys.rates(view, mine), counted)

    def settle(self, views: Sequence[View], room: Room) -> None:
        before = self._until
        self._until = age_all(self._learned, views, before)
        self._curves = [learned.curve() for learned in self._learned]
        self._keys.settle(self._until)
        if not self._keys.known or before is None:
            return
        seconds = (self._until - before) / 1e6
        for view, curve, calibrated in zip(views, self._curves, self._calibrated, strict=True):
            calibrated.fade(0.5 ** (seconds / (self._half_life * view.span / 1e6)))
            mine = np.flatnonzero(view.watched)
            ages = view.ages[mine]
            results = curve.by(ages) - curve.by(np.maximum(ages - seconds, 0.0))
            calibrated.expected(self._keys.rates(view, mine), view.weight[mine], results)

    def rank(self, view: View, rng: np.random.Generator) -> Array:
        rank = self._curves[view.stream].priority(view.ages)
        if self._keys.known:
            rank = rank * self._calibrated[view.stream].ratios(self._keys.rates(view))
        return rank

    def forecast(self, views: Sequence[View], room: Room, unit: Unit) -> RecallCurve | None:
        known = []
        for view, learned in zip(views, self._learned, strict=True):
            mine = np.flatnonzero(view.watched)
            ratios = np.ones(len(mine))
            if self._keys.known:
                ratios = self._calibrated[view.stream].ratios(self._keys.rates(view, mine))
            found, shares = groups(ratios, view.weight[mine])
            known.append(Known(learned.curve(), learned.rate, room.costs[view.stream], found, shares))
        return forecast(known, unit)

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        curves = [learned.save() for learned in self._learned]
        calibrated = [c.save() for c in self._calibrated]
        keys, sketches = self._keys.save()
        plain = {
            "curves": [p for p, _ in curves],
            "calibrated": [p for p, _ in calibrated],
            "keys": keys,
            "until": self._until,
        }
        return plain, [*(part for _, part in curves), *(part for _, part in calibrated), *sketches]

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None:
        count = len(self._learned)
        for k in range(count):
            self._learned[k].load(plain["curves"][k], parts[k])
            self._calibrated[k].load(plain["calibrated"][k], parts[count + k])
        self._keys.load(plain["keys"], parts[2 * count :])
        self._until = plain["until"]
