"""The policies a query may name."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.model import importance, learned, samples
from windrow.model.policy import Policy


@dataclass(frozen=True, kw_only=True)
class Fifo(Policy):
    """The oldest rows go first (RECENT of the Memory paper)."""

    name = "fifo"


@dataclass(frozen=True, kw_only=True)
class Random(Policy):
    """Any row may go."""

    name = "random"


@dataclass(frozen=True, kw_only=True)
class UntilExpiry(Policy):
    """A row that was taken in stays until it expires; while memory is full, new rows are not taken in."""

    name = "until-expiry"


_BASELINES: tuple[type[Policy], ...] = (Fifo, Random, UntilExpiry)
_ALL = (*_BASELINES, *importance.POLICIES, *learned.POLICIES, *samples.POLICIES)
POLICIES: dict[str, type[Policy]] = {policy.name: policy for policy in _ALL}
