"""Quality of the answer, combined from what each kind of shedding is estimated to miss."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING

from windrow.estimation.missed import MissedResults, ResultSums, missed_interval
from windrow.estimation.recall import HANDFUL, recall_interval
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
    if join.load_shedder is not None:
        known = join.load_shedder.quality(known, any(join.dropped), any(join.conserved))
        known = _built(known, results, join.skipped)
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


def harvested(known: Quality, missed: MissedResults, conserved: bool) -> Quality:
    """Combine results missed for lack of memory with those the harvest did not probe for. Nothing is known
    about rows evicted because the harvest does not probe them."""
    if missed.rows == 0 and not conserved:
        return known
    if missed.unsampled_rows or conserved or missed.drawn < HANDFUL or isnan(known.recall):
        return _unknown(known)
    found, true = known.results_found, known.results_estimated + missed.results.estimated
    variance = known.results_variance + missed.results.variance
    max_weight = max(known.results_max_weight, missed.max_weight)
    missing = known.results_estimated - found + missed.results.estimated
    low, high = missed_interval(missing, variance, max_weight)
    return replace(
        known,
        recall=found / true if true else float("nan"),
        recall_low=found / (found + high) if found + high else 0.0,
        recall_high=found / (found + low) if found + low else 1.0,
        results_estimated=true,
        results_variance=variance,
        results_max_weight=max_weight,
    )


def thinned(known: Quality, sums: ResultSums, max_weight: float, dropped: bool) -> Quality:
    """Scale by the mean weight of results among admitted rows; unknown before the first result."""
    found = sums.found
    if found == 0:
        return _unknown(known) if dropped else known
    factor = sums.estimated / found
    true = known.results_estimated * factor
    spread = known.results_variance * factor**2 + sums.variance * (known.results_estimated / found) ** 2
    max_weight = max(known.results_max_weight * factor, max_weight)
    recall, low, high = recall_interval(known.results_found, true, spread, max_weight=max_weight)
    return replace(
        known,
        recall=recall,
        recall_low=low,
        recall_high=high,
        results_estimated=true,
        results_variance=spread,
        results_max_weight=max_weight,
    )
