"""How often intervals hold the truth (claim B4)."""

from __future__ import annotations

from collections.abc import Sequence

from scipy.special import bdtr

from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row

RUNS, ENOUGH, LEVEL = 100, 90, 0.95


def enough(runs: int) -> int:
    """Of 100 runs 90; of another number what true 95 % intervals miss no more often than that.

    >>> enough(100), enough(6)
    (90, 4)
    """
    chance = bdtr(ENOUGH - 1, RUNS, LEVEL)
    return next(k for k in range(runs, -1, -1) if bdtr(k - 1, runs, LEVEL) <= chance)


def covered(claim: str, rows: Sequence[Row]) -> list[Claim]:
    """A statement for each case, on every kind of shedding in it, from rows with `case`, `kind`, `seed` and
    whether the truth is `inside`."""
    runs = len({row["seed"] for row in rows})
    claims = []
    for case, parts in pivot(rows, "case", "kind", of="inside").items():
        inside = {kind: round(part * runs) for kind, part in parts.items()}
        says = f"{case}: the true recall lies in the 95 % interval in at least {enough(runs)} of {runs} runs"
        claims.append(Claim(claim, says, inside, min(inside.values()) >= enough(runs)))
    return claims
