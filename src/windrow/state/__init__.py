"""The stored state of joins: a version per batch, immutable parts, atomic publication."""

from windrow.state.layout import Scope
from windrow.state.ledger import Ledger
from windrow.state.manifest import Manifest
from windrow.state.store import StateStore

__all__ = ["Ledger", "Manifest", "Scope", "StateStore"]
