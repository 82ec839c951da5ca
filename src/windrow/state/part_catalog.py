"""The stored parts of the last version and their places in files.

Parts never change, so a part is recognised by identity. An empty batch is recognised by its schema. The
catalog holds only one version. A new version may name the same parts: cleanup keeps the files of that version
until the new one is committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from windrow.state.parts import StoredPart
from windrow.state.storage import FETCHING
from windrow.window.blocks import Made, Part

Key = int | bytes
SLACK = 1 << 16
"""Dead bytes in files up to this size are never worth a rewrite."""
SMALL = 1 << 18
"""Files with at most this many live bytes are merged if there are more of them than are fetched at once."""


def key_of(part: Part) -> Key:
    return id(part) if isinstance(part, Made) or part.num_rows else part.schema.serialize().to_pybytes()


class PartCatalog:
    """
    Parameters
    ----------
    parts, places
        Of one version, in order.
    files
        Bytes of each file that holds parts.
    inline
        Parts that are in no file.
    """

    def __init__(
        self,
        parts: Sequence[Part] = (),
        places: Sequence[StoredPart] = (),
        files: Mapping[str, int] | None = None,
        inline: bytes = b"",
    ) -> None:
        # The catalog keeps the parts alive, because Python reuses the id of an object that is freed.
        self._parts = dict(zip(places, parts, strict=True))
        self._places = {key_of(part): place for part, place in zip(parts, places, strict=True)}
        self.files = dict(files or {})
        self.inline = inline

    def batch(self, place: StoredPart) -> pa.RecordBatch | None:
        found = self._parts.get(place)
        return None if isinstance(found, Made) else found

    @property
    def parts(self) -> Mapping[StoredPart, Part]:
        return self._parts

    def place(self, key: Key) -> StoredPart | None:
        return self._places.get(key)

    def stored(self, parts: Sequence[Part]) -> dict[Key, StoredPart]:
        """Places in files of those parts that are stored and need not be rewritten."""
        keys = {key_of(part): part for part in parts}
        known = {key: self._places[key] for key in keys if key in self._places}
        found = {key: place for key, place in known.items() if place.file in self.files}
        new = sum(p.nbytes for k, p in keys.items() if k not in found and not isinstance(p, Made))
        rewritten = worth_rewriting(set(found.values()), self.files, new)
        return {k: p for k, p in found.items() if p.file not in rewritten}


def worth_rewriting(parts: set[StoredPart], files: Mapping[str, int], new: int) -> set[str]:
    """Files to rewrite, so that dead bytes stay below the live ones, and small files are few.

    Files with the smallest live fraction come first: there a rewritten byte frees the most.
    """
    alive: dict[str, int] = {}
    for part in parts:
        alive[part.file] = alive.get(part.file, 0) + part.bytes
    dead = sum(files[file] for file in alive) - sum(alive.values())
    allowed = new + sum(alive.values()) + SLACK
    small = {file for file in alive if alive[file] <= SMALL}
    chosen = small if len(small) > FETCHING else set[str]()
    dead -= sum(files[file] - alive[file] for file in chosen)
    for file in sorted(alive, key=lambda file: alive[file] / files[file]):
        if dead <= allowed:
            break
        if file in chosen:
            continue
        dead -= files[file] - alive[file]
        chosen.add(file)
    return chosen
