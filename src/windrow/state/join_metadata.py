"""Metadata of a join, stored with its state at its first micro-batch.

Only a join with the same partitions and layout, and the same fixed settings, may restore the state. What else
the query says may change; each version has its own description of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windrow.engine.query_changes import check_fixed
from windrow.errors import StateError
from windrow.state.manifest import FORMAT, other_format, sealed, unsealed
from windrow.state.parts import damaged
from windrow.state.storage import Storage


@dataclass(frozen=True)
class JoinMetadata:
    partitions: int
    query: dict[str, Any]
    """The fingerprint of the first query; see `windrow.engine.query_changes`."""
    layout: dict[str, str]
    """The options that decide a row's partition. An option may depend on those before it."""

    @classmethod
    def of(cls, partitions: int, query: Mapping[str, Any], layout: Mapping[str, str]) -> JoinMetadata:
        return cls(partitions, json.loads(json.dumps(query)), dict(layout))

    def to_bytes(self) -> bytes:
        return sealed("join", json.dumps({"format": FORMAT, **vars(self)}, indent=1).encode())

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> JoinMetadata:
        try:
            saved = json.loads(unsealed("join", data, where))
            received = saved.pop("format")
            if received != FORMAT:
                raise StateError(other_format(where, received))
            return cls(**saved)
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
        if self.partitions != now.partitions:
            raise StateError(
                f"the state in {where} has {self.partitions} partitions, the join now asks for "
                f"{now.partitions}; set partitions={self.partitions}, because rows are held in these, or "
                "start the query with a new checkpoint"
            )
        check_fixed(
            self.query,
            now.query,
            f"the state in {where}",
            "go back to the query it was begun with, start the query with a new checkpoint, or, if one query "
            "has two joins, give each its own name",
        )
        for option in [*self.layout, *now.layout]:
            before, after = self.layout.get(option, "unknown"), now.layout.get(option, "unknown")
            if before != after:
                raise StateError(
                    f"the state in {where} is partitioned in another way: {option} was "
                    f"{before}, now {after}; go back to what it was, because rows are held in these "
                    "partitions, or start the query with a new checkpoint"
                )
