"""Quality of the answer, combined from what each kind of shedding is estimated to miss."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING

from windrow.engine.limits.admitter import HANDFUL, Admitter
from windrow.engine.limits.dropper import Dropper
from windrow.engine.limits.harvester import Harvester
from windrow.estimation.missed import missed_interval
from windrow.estimation.recall import UNKNOWN, recall_interval
from windrow.model.metrics import Quality

if TYPE_CHECKING:
    from windrow.engine.join import Join

EXACT = Quality()


def quality(join: Join, results: int, admitted: float) -> Quality:
    """Quality of everything returned so far. `admitted` is the fraction of combinations whose rows were not
    dropped outright, that is with probability 0 of admission."""
    if join.outer is not None:
        if not join.outer.eager:
            known = Quality(results_found=float(results), results_estimated=float(results))
            return _unknown(known) if join.outer.shed else known
        # Only results with a row of every stream are estimated, by what the inner join finds.
        results -= join.outer.counts["results_unmatched"]
    found = float(results + join.skipped)
    known = Quality(results_found=found, results_estimated=found)
    if join.evictor is not None:
        known = join.evictor.quality(join.windows, results)
    if isinstance(join.load_shedder, Harvester):
        calls = join.load_shedder.calls
        admitter = None if calls is None else calls.admitter
        if admitter is not None:
            known = _admitted(known, admitter, any(join.dropped))
        known = _harvested(known, join.load_shedder, any(join.conserved))
        known = _built(known, results, join.skipped)
        if admitter is not None and admitter.excludes:
            # Rows with probability 0 are missing from the windows, and the sums do not cover their results.
            known = replace(known, results_max_weight=UNKNOWN)
    elif isinstance(join.load_shedder, Dropper):
        dropper = join.load_shedder
        known = _thinned(known, dropper.found, dropper.estimated, dropper.variance, 0.0, any(join.dropped))
    return known if admitted == 1.0 else _overflowed(known, admitted)


def _built(known: Quality, results: int, skipped: int) -> Quality:
    """Scale by the fraction of found results that were built, which is known exactly."""
    if skipped == 0:
        return known
    part = results / (results + skipped)
    return replace(
        known,
        recall=known.recall * part,
        recall_low=known.recall_low * (1.0 if isnan(known.recall) else part),
        recall_high=known.recall_high * (1.0 if isnan(known.recall) else part),
        results_found=known.results_found * part,
    )


def _unknown(known: Quality) -> Quality:
    return replace(known, recall=float("nan"), recall_low=0.0, recall_high=1.0)


def _overflowed(known: Quality, admitted: float) -> Quality:
    """Account for rows dropped outright. They were not drawn at random, so they are assumed to be like the
    others; for the lower bound, to have twice as many results; for the upper, none."""
    if admitted <= 0 or isnan(known.recall):
        return _unknown(known)
    return replace(
        known,
        recall=known.recall * admitted,
        recall_low=known.recall_low * admitted / (2 - admitted),
    )


def _harvested(known: Quality, harvester: Harvester, conserved: bool) -> Quality:
    """Combine results lost for lack of memory with those the harvest did not look for. Nothing is known about
    rows evicted because the harvest does not probe them."""
    missed = harvester.missed
    if missed.rows == 0 and not conserved:
        return known
    if missed.unsampled_rows or conserved or missed.drawn < HANDFUL or isnan(known.recall):
        return _unknown(known)
    found, true = known.results_found, known.results_estimated + missed.count
    variance = known.results_variance + missed.variance
    unit = max(known.results_max_weight, missed.max_weight)
    low, high = missed_interval(known.results_estimated - found + missed.count, variance, unit)
    return replace(
        known,
        recall=found / true if true else float("nan"),
        recall_low=found / (found + high) if found + high else 0.0,
        recall_high=found / (found + low) if found + low else 1.0,
        results_estimated=true,
        results_variance=variance,
        results_max_weight=unit,
    )


def _admitted(known: Quality, admitter: Admitter, lost: bool) -> Quality:
    """Account for rows not admitted. Their loss multiplies with the loss for lack of memory."""
    if not lost and not admitter.partial:
        return known
    known = _thinned(known, admitter.found, admitter.true, admitter.variance, admitter.unit, True)
    if (lost and admitter.bringing < HANDFUL) or (admitter.partial and admitter.finders < HANDFUL):
        return replace(known, recall_low=0.0, recall_high=1.0)
    return known


def _thinned(
    known: Quality, found: float, weight: float, variance: float, unit: float, lost: bool
) -> Quality:
    """Scale by the mean weight of results among admitted rows; unknown before the first result."""
    if found == 0:
        return _unknown(known) if lost else known
    factor = weight / found
    true = known.results_estimated * factor
    spread = known.results_variance * factor**2 + variance * (known.results_estimated / found) ** 2
    unit = max(known.results_max_weight * factor, unit)
    recall, low, high = recall_interval(known.results_found, true, spread, unit=unit)
    return replace(
        known,
        recall=recall,
        recall_low=low,
        recall_high=high,
        results_estimated=true,
        results_variance=spread,
        results_max_weight=unit,
    )
