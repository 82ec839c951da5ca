"""Metadata of a join, stored with its state at its first micro-batch.

Only a join with the same fixed settings may restore the state. What else the query says may change; each
version has its own description of it, and each run its own layout.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windrow.engine.query_changes import check_fixed
from windrow.errors import StateError
from windrow.model.stateful import this_version
from windrow.state.layout import StoredLayout
from windrow.state.manifest import other_format, sealed, unsealed
from windrow.state.parts import damaged
from windrow.state.storage import Storage

FORMAT = 10
"""Up to format 9 runs describe their layouts in words. In format 7 markers are files of their own, beside
the runs. Format 6 has the layout of all runs besides: it could not change."""


@dataclass(frozen=True)
class JoinMetadata:
    query: dict[str, Any]
    """The fingerprint of the first query; see `windrow.engine.query_changes`."""
    layout: StoredLayout | None = None
    """Of runs that do not record one; only in format 6."""

    @classmethod
    def of(cls, query: Mapping[str, Any]) -> JoinMetadata:
        return cls(json.loads(json.dumps(query)))

    def to_bytes(self) -> bytes:
        body = {"format": FORMAT, "windrow": this_version(), "query": self.query}
        return sealed("join", json.dumps(body, indent=1).encode())

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> JoinMetadata:
        try:
            saved = json.loads(unsealed("join", data, where))
            received = saved["format"]
            if received in (7, 8, 9, FORMAT):
                return cls(dict(saved["query"]))
            if received == 6:
                return cls(
                    dict(saved["query"]), StoredLayout.from_words(saved["partitions"], saved["layout"])
                )
            raise StateError(other_format(where, saved, (6, 7, 8, 9, FORMAT)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StateError(damaged(where, f"it does not describe a join ({error})")) from error

    @classmethod
    def read(cls, root: Storage, path: str) -> JoinMetadata | None:
        try:
            return cls.from_bytes(root.read(path).to_pybytes(), root.at(path))
        except FileNotFoundError:
            return None

    def check(self, now: JoinMetadata, where: str) -> None:
        """Refuses a join that differs from the one that began the state, and names the difference."""
        check_fixed(
            self.query,
            now.query,
            f"the state in {where}",
            "go back to the query it was begun with, start the query with a new checkpoint, or, if one query "
            "has two joins, give each its own name",
        )
