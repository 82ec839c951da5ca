"""The stored state of joins: a version per micro-batch, immutable parts, atomic commits."""

from windrow.state.commit_log import CommitLog, Start
from windrow.state.layout import StoredLayout
from windrow.state.manifest import Manifest
from windrow.state.paths import JoinId
from windrow.state.runs import QueryRun, Version
from windrow.state.store import StateStore

__all__ = ["CommitLog", "JoinId", "Manifest", "QueryRun", "Start", "StateStore", "StoredLayout", "Version"]
