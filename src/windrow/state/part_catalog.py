"""The stored parts of the last version, and where each of them is.

A batch is recognised by identity, since batches never change. One without rows says only its schema, and
is recognised by that. The shelf holds just one version: its parts are named by a manifest that others keep
while it is needed, so a new version may name them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from windrow.state.parts import StoredPart

Key = int | bytes
SLACK = 1 << 20
"""Bytes of dead parts that are never worth a rewrite."""


def key_of(batch: pa.RecordBatch) -> Key:
    return id(batch) if batch.num_rows else batch.schema.serialize().to_pybytes()


class PartCatalog:
    """
    Parameters
    ----------
    batches, parts
        Of one version, in order.
    files
        Bytes of each file that holds parts.
    """

    def __init__(
        self,
        batches: Sequence[pa.RecordBatch] = (),
        parts: Sequence[StoredPart] = (),
        files: Mapping[str, int] | None = None,
    ) -> None:
        # Held as long as their ids are: an id is given away again once its batch is gone.
        self._batches = dict(zip(parts, batches, strict=True))
        self._parts = {key_of(b): p for b, p in zip(batches, parts, strict=True)}
        self.files = dict(files or {})

    def batch(self, part: StoredPart) -> pa.RecordBatch | None:
        return self._batches.get(part)

    def stored(self, batches: Sequence[pa.RecordBatch]) -> dict[Key, StoredPart]:
        """Those of the batches that are stored and may stay where they are."""
        keys = {key_of(b): b for b in batches}
        found = {k: self._parts[k] for k in keys if k in self._parts}
        fresh = sum(b.nbytes for k, b in keys.items() if k not in found)
        rewritten = worth_rewriting(set(found.values()), self.files, fresh)
        return {k: p for k, p in found.items() if p.file not in rewritten}


def worth_rewriting(parts: set[StoredPart], files: Mapping[str, int], fresh: int) -> set[str]:
    """Files to give up, so that dead bytes in files stay below the live ones.

    Those go first of which the least is alive: each byte written anew then frees the most.
    """
    alive: dict[str, int] = {}
    for part in parts:
        alive[part.file] = alive.get(part.file, 0) + part.bytes
    dead = sum(files[file] for file in alive) - sum(alive.values())
    allowed = fresh + sum(alive.values()) + SLACK
    chosen: set[str] = set()
    for file in sorted(alive, key=lambda file: alive[file] / files[file]):
        if dead <= allowed:
            break
        dead -= files[file] - alive[file]
        chosen.add(file)
    return chosen
