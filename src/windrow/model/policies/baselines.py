"""The policies a query may name."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.model.keywords import checks_keywords
from windrow.model.policies import importance, learned, sampling
from windrow.model.policies.base import MemoryPolicy


@checks_keywords("wr.policies.Fifo")
@dataclass(frozen=True, kw_only=True)
class Fifo(MemoryPolicy):
    """Evicts the oldest rows first (RECENT of the Memory paper)."""

    name = "fifo"


@checks_keywords("wr.policies.Random")
@dataclass(frozen=True, kw_only=True)
class Random(MemoryPolicy):
    """Evicts random rows."""

    name = "random"


@checks_keywords("wr.policies.UntilExpiry")
@dataclass(frozen=True, kw_only=True)
class UntilExpiry(MemoryPolicy):
    """Keeps admitted rows until they expire; while memory is full, new rows are not stored."""

    name = "until-expiry"


_BASELINES: tuple[type[MemoryPolicy], ...] = (Fifo, Random, UntilExpiry)
_ALL = (*_BASELINES, *importance.POLICIES, *learned.POLICIES, *sampling.POLICIES)
POLICIES: dict[str, type[MemoryPolicy]] = {policy.name: policy for policy in _ALL}
