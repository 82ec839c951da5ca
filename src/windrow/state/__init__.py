"""The stored state of joins: a version per batch, immutable parts, atomic commits."""

from windrow.state.commit_log import CommitLog, Start
from windrow.state.layout import Scope
from windrow.state.manifest import Manifest
from windrow.state.runs import Run, Version
from windrow.state.store import StateStore

__all__ = ["CommitLog", "Manifest", "Run", "Scope", "Start", "StateStore", "Version"]
