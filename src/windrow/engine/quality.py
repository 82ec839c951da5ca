"""How good the answer is, from what each kind of shedding knows of what it lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from windrow.engine.dropper import Dropper
from windrow.engine.harvester import Harvester
from windrow.model.measurements import Quality
from windrow.shed.missed import missed_interval
from windrow.shed.recall import recall_interval

if TYPE_CHECKING:
    from windrow.engine.join import Join

EXACT = Quality(1.0, 1.0, 1.0)


def quality(join: Join, results: int, let_in: float) -> Quality:
    """Of everything that was returned so far; `let_in` is the part of all combinations of rows that were not
    dropped because a buffer was full."""
    known = replace(EXACT, found=float(results), true=float(results))
    if join.shedder is not None:
        known = join.shedder.quality(join, results)
    if isinstance(join.saver, Harvester):
        known = _harvested(known, join.saver, any(join.conserved))
    elif isinstance(join.saver, Dropper):
        known = _dropped(known, join.saver, any(join.dropped))
    return known if let_in == 1.0 else _overflowed(known, let_in)


def _overflowed(known: Quality, let_in: float) -> Quality:
    """Rows that a full buffer turned away were not drawn at random; they are taken to be like the others."""
    return replace(
        known,
        recall=known.recall * let_in,
        low=known.low * let_in,
        high=known.high * let_in,
        true=known.true / let_in if let_in else known.true,
    )


def _harvested(known: Quality, harvester: Harvester, conserved: bool) -> Quality:
    """What was looked for and lost for lack of memory, and what was not looked for. Of rows that were let go
    because the harvest does not look at them nothing is known."""
    missed = harvester.missed
    if missed.blind or conserved or known.recall != known.recall:
        return replace(known, recall=float("nan"), low=0.0, high=1.0)
    if missed.unit == 0.0:
        return known
    lost = known.true - known.found
    unit = max(known.unit, missed.unit)
    low, high = missed_interval(lost + missed.count, known.variance + missed.variance, unit)
    found, true = known.found, known.true + missed.count
    return replace(
        known,
        recall=found / true if true else 1.0,
        low=found / (found + high) if found + high else 1.0,
        high=found / (found + low) if found + low else 1.0,
        true=true,
        variance=known.variance + missed.variance,
        unit=unit,
    )


def _dropped(known: Quality, dropper: Dropper, lost: bool) -> Quality:
    """Rows lost at the door lose results as rows lost for lack of memory do; the parts multiply. While
    nothing was found, what was lost with them is not known."""
    if dropper.found == 0:
        return replace(known, recall=float("nan"), low=0.0, high=1.0) if lost else known
    factor = dropper.true / dropper.found
    true = known.true * factor
    spread = known.variance * factor**2 + dropper.variance * (known.true / dropper.found) ** 2
    unit = known.unit * factor
    recall, low, high = recall_interval(known.found, true, spread, unit=unit)
    return replace(known, recall=recall, low=low, high=high, true=true, variance=spread, unit=unit)
