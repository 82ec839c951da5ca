"""Policies that keep the most important results (iJoin)."""

from __future__ import annotations

from windrow.model.policy import Policy

POLICIES: tuple[type[Policy], ...] = ()
