"""The stored parts of the last version and their places in files.

Batches never change, so a batch is recognised by identity. An empty batch is recognised by its schema. The
catalog holds only one version. A new version may name the same parts: cleanup keeps the files of that version
until the new one is committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from windrow.state.parts import StoredPart

Key = int | bytes
SLACK = 1 << 16
"""Dead bytes in files up to this size are never worth a rewrite."""


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
        # The catalog keeps the batches alive, because Python reuses the id of an object that is freed.
        self._batches = dict(zip(parts, batches, strict=True))
        self._parts = {key_of(b): p for b, p in zip(batches, parts, strict=True)}
        self.files = dict(files or {})

    def batch(self, part: StoredPart) -> pa.RecordBatch | None:
        return self._batches.get(part)

    def stored(self, batches: Sequence[pa.RecordBatch]) -> dict[Key, StoredPart]:
        """Places of those batches that are stored and need not be rewritten."""
        keys = {key_of(b): b for b in batches}
        found = {k: self._parts[k] for k in keys if k in self._parts}
        fresh = sum(b.nbytes for k, b in keys.items() if k not in found)
        rewritten = worth_rewriting(set(found.values()), self.files, fresh)
        return {k: p for k, p in found.items() if p.file not in rewritten}


def worth_rewriting(parts: set[StoredPart], files: Mapping[str, int], fresh: int) -> set[str]:
    """Files to rewrite, so that dead bytes stay below the live ones.

    Files with the smallest live fraction come first: there a rewritten byte frees the most.
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
