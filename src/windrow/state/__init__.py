"""The stored state of joins: a version per batch, immutable parts, atomic publication."""

from windrow.state.manifest import Manifest
from windrow.state.store import Scope, StateStore

__all__ = ["Manifest", "Scope", "StateStore"]
