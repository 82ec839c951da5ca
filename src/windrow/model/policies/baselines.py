"""The baseline policies."""

from __future__ import annotations

from windrow.model.policies.base import MemoryPolicy, policy


@policy
class Fifo(MemoryPolicy):
    """Evicts the oldest rows first (RECENT of the Memory paper)."""

    name = "fifo"


@policy
class Random(MemoryPolicy):
    """Evicts random rows."""

    name = "random"


@policy
class UntilExpiry(MemoryPolicy):
    """Keeps admitted rows until they expire; while memory is full, new rows are not stored."""

    name = "until-expiry"
