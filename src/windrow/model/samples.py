"""Policies that give a sample of the results, with weights (Memory, section 4)."""

from __future__ import annotations

from windrow.model.policy import Policy

POLICIES: tuple[type[Policy], ...] = ()
