"""How good the answer is, from what each kind of shedding knows of what it lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from windrow.engine.admitter import HANDFUL, Admitter
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
    dropped without a chance to come in."""
    found = float(results + join.skipped)
    known = replace(EXACT, found=found, true=found)
    if join.shedder is not None:
        known = join.shedder.quality(join, results)
    if isinstance(join.saver, Harvester):
        admitter = join.saver.calls.admitter
        if admitter is not None:
            known = _admitted(known, admitter, any(join.dropped))
        known = _harvested(known, join.saver, any(join.conserved))
        known = _built(known, results, join.skipped)
    elif isinstance(join.saver, Dropper):
        known = _dropped(known, join.saver, any(join.dropped))
    return known if let_in == 1.0 else _overflowed(known, let_in)


def _built(known: Quality, results: int, skipped: int) -> Quality:
    """Of all results that were found these were built: that part is known exactly."""
    if skipped == 0:
        return known
    part = results / (results + skipped)
    found = known.found * part
    if known.recall != known.recall:
        return replace(known, found=found)
    return replace(
        known, recall=known.recall * part, low=known.low * part, high=known.high * part, found=found
    )


def _overflowed(known: Quality, let_in: float) -> Quality:
    """Rows that were turned away without a chance to come in were not drawn at random; they are taken to be
    like the others, or to have twice as many results, or none."""
    if let_in <= 0 or known.recall != known.recall:
        return replace(known, recall=float("nan"), low=0.0, high=1.0)
    return replace(
        known,
        recall=known.recall * let_in,
        low=known.low * let_in / (2 - let_in),
        true=known.true / let_in,
    )


def _harvested(known: Quality, harvester: Harvester, conserved: bool) -> Quality:
    """What was looked for and lost for lack of memory, and what was not looked for. Of rows that were let go
    because the harvest does not look at them nothing is known."""
    missed = harvester.missed
    if missed.rows == 0 and not conserved:
        return known
    if missed.blind or conserved or missed.drawn < HANDFUL or known.recall != known.recall:
        return replace(known, recall=float("nan"), low=0.0, high=1.0)
    lost = known.true - known.found
    unit = max(known.unit, missed.unit)
    low, high = missed_interval(lost + missed.count, known.variance + missed.variance, unit)
    found, true = known.found, known.true + missed.count
    return replace(
        known,
        recall=found / true if true else float("nan"),
        low=found / (found + high) if found + high else 0.0,
        high=found / (found + low) if found + low else 1.0,
        true=true,
        variance=known.variance + missed.variance,
        unit=unit,
    )


def _admitted(known: Quality, admitter: Admitter, lost: bool) -> Quality:
    """Rows that were not admitted lose results as rows lost for lack of memory do; the parts multiply."""
    if not lost and not admitter.partial:
        return known
    known = _thinned(known, admitter.found, admitter.true, admitter.variance, admitter.unit, True)
    if (lost and admitter.bringing < HANDFUL) or (admitter.partial and admitter.finders < HANDFUL):
        return replace(known, low=0.0, high=1.0)
    return known


def _dropped(known: Quality, dropper: Dropper, lost: bool) -> Quality:
    return _thinned(known, dropper.found, dropper.true, dropper.variance, 0.0, lost)


def _thinned(
    known: Quality, found: float, stood_for: float, variance: float, unit: float, lost: bool
) -> Quality:
    """Results that were found among the rows let in, and what they stand for; while there are none, what was
    lost is not known."""
    if found == 0:
        return replace(known, recall=float("nan"), low=0.0, high=1.0) if lost else known
    factor = stood_for / found
    true = known.true * factor
    spread = known.variance * factor**2 + variance * (known.true / found) ** 2
    unit = max(known.unit * factor, unit)
    recall, low, high = recall_interval(known.found, true, spread, unit=unit)
    return replace(known, recall=recall, low=low, high=high, true=true, variance=spread, unit=unit)
