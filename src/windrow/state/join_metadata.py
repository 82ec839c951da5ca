"""Metadata of a join, stored with its state. Only a join with the same metadata may restore the state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from windrow.errors import StateError
from windrow.state.manifest import FORMAT, other_format, sealed, unsealed
from windrow.state.parts import damaged
from windrow.state.storage import Storage


@dataclass(frozen=True)
class JoinMetadata:
    partitions: int
    query: dict[str, Any]
    """The query's fingerprint; see `windrow.engine.state`."""
    schemas: dict[str, list[list[str]]]
    """Names and types of columns by alias."""
    layout: dict[str, str]
    """The options that decide a row's partition. An option may depend on those before it."""

    @classmethod
    def of(
        cls,
        partitions: int,
        query: Mapping[str, Any],
        schemas: Mapping[str, pa.Schema],
        layout: Mapping[str, str],
    ) -> JoinMetadata:
        columns = {
            alias: [[name, str(kind)] for name, kind in zip(schema.names, schema.types, strict=True)]
            for alias, schema in schemas.items()
        }
        return cls(partitions, json.loads(json.dumps(query)), columns, dict(layout))

    @property
    def aliases(self) -> list[str]:
        return [str(stream[0]) for stream in self.query["streams"]]

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
                f"{now.partitions}; set partitions={self.partitions}, or start the query with a new "
                "checkpoint"
            )
        if differences := _differences(self.query, now.query):
            raise StateError(
                f"the state in {where} belongs to another join: {differences}; go back to the query it was "
                "begun with, start the query with a new checkpoint, or, if one query has two joins, give "
                "each its own name"
            )
        if differences := _differences(self.schemas, now.schemas):
            raise StateError(
                f"the state in {where} was begun with other columns: {differences}; select these columns "
                "again, or start the query with a new checkpoint"
            )
        for option in [*self.layout, *now.layout]:
            before, after = self.layout.get(option, "unknown"), now.layout.get(option, "unknown")
            if before != after:
                raise StateError(
                    f"the state in {where} is partitioned in another way: {option} was "
                    f"{before}, now {after}; go back to what it was, or start the query with a new "
                    "checkpoint"
                )


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    a, b = _flat(before), _flat(now)
    return "; ".join(
        f"{key} was {a.get(key)!r}, now {b.get(key)!r}"
        for key in dict.fromkeys([*a, *b])
        if a.get(key) != b.get(key)
    )


def _flat(described: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name, those of streams one by one."""
    found = dict(described)
    for alias, time, window in found.pop("streams", []):
        found |= {f"the time of {alias}": time, f"the window of {alias}": window}
    return found
