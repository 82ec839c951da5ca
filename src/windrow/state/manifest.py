"""Manifests: each describes the state of one partition after one micro-batch.

A manifest is a small JSON file that names the version's parts. It is written atomically, after the parts, so
a version exists as soon as its manifest does. Its checksum covers the bytes of the file. Parts that are small
are in the manifest itself, and in that of the next version again, until together they are worth a file.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from windrow.errors import StateError
from windrow.model.stateful import this_version
from windrow.state.parts import StoredPart, damaged
from windrow.state.runs import Version
from windrow.state.storage import Storage

FORMAT = 10
"""Up to format 9, keys and counts of row windows are stored with their streams. Format 8 differs from it
only in `join.json` and the records of runs. In format 7 all parts are in files, and the event times of source
partitions are in files beside the manifests."""
CRC32_FORMAT = 6
"""In this format, checksums of parts are CRC-32 and windows are stored as rows alone."""
_READ = (CRC32_FORMAT, 7, 8, 9, FORMAT)
_OPENING = rb'\{"crc32": "([0-9a-f]{8})",\n"%b": '
_CLOSING = b"}\n"
_NAME = re.compile(r"(?:batch|parts)-(\d+)-([0-9a-f]+)(?:\.json|-[0-9a-f]+\.arrows)")


@dataclass(frozen=True)
class Manifest:
    version: Version
    content: str
    """Unique per commit: two attempts at one micro-batch have different contents."""
    partition: int
    partitions: int
    metadata: dict[str, Any]
    """Metadata of the state; see `windrow.engine.state`."""
    parts: tuple[StoredPart, ...]
    """In the order of the state's parts. One stored batch may occur several times."""
    files: Mapping[str, int]
    """The files that hold parts, and the bytes of each."""
    times: tuple[int | None, ...]
    """Max event time of each stream, in microseconds; None before its first row."""
    created: float
    """Seconds since 1970."""
    demand: int | None = None
    """Memory demand, if memory is limited."""
    partition_times: Sequence[Sequence[tuple[str | None, int]]] | None = None
    """Max event time of each source partition of each stream, if it is tracked."""
    inline: bytes = b""
    """The parts that are in no file."""

    @property
    def batch(self) -> int:
        return self.version.batch

    @property
    def inline_file(self) -> str:
        """What parts in the manifest have in place of a file's name."""
        return inline_file(self.content)

    @cached_property
    def live_bytes(self) -> int:
        """Bytes of the parts, without other parts in their files."""
        return sum(part.bytes for part in set(self.parts))

    def rows(self) -> dict[str, int]:
        """Rows of each stream, stored in its window or buffered."""
        parts = iter(self.parts)
        counts = {}
        for alias, held in zip(self.metadata["query"]["streams"], self.metadata["streams"], strict=True):
            for _ in range(bool(held["schema"])):
                next(parts)
            stored = [next(parts).rows for _ in range(held["buffered"] + held["segments"])]
            for _ in range(held["row_state"] + held.get("keys", 0)):
                next(parts)
            counts[alias] = sum(stored) - held.get("skip", 0)
        return counts

    def to_bytes(self) -> bytes:
        saved = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "version"}
        saved |= {"format": FORMAT, "windrow": this_version()}
        saved |= {"batch": self.batch, "run": self.version.run, "inline": b64encode(self.inline).decode()}
        return sealed("manifest", json.dumps(saved, separators=(",", ":")).encode())

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Manifest:
        saved = json.loads(unsealed("manifest", data, where))
        if saved["format"] not in _READ:
            raise StateError(other_format(where, saved, _READ))
        if saved["format"] == CRC32_FORMAT:
            saved["parts"] = [(*part, True) for part in saved["parts"]]
        for name in ("format", "windrow"):
            saved.pop(name, None)
        version, inline = Version(saved.pop("batch"), saved.pop("run")), b64decode(saved.pop("inline", ""))
        parts = tuple(StoredPart(*part) for part in saved.pop("parts"))
        return cls(version=version, parts=parts, times=tuple(saved.pop("times")), inline=inline, **saved)

    @classmethod
    def read(cls, root: Storage, path: str) -> Manifest:
        """The manifest in a file. Raises FileNotFoundError if there is none."""
        return cls.from_bytes(root.read(path).to_pybytes(), root.at(path))


def sealed(kind: str, body: bytes) -> bytes:
    """The contents of a file that holds a JSON document and its checksum."""
    return b'{"crc32": "%08x",\n"%b": %b%b' % (zlib.crc32(body), kind.encode(), body, _CLOSING)


def unsealed(kind: str, data: bytes, where: str) -> bytes:
    """The document of such a file, with its checksum verified."""
    opening = re.match(_OPENING % kind.encode(), data)
    if opening is None or not data.endswith(_CLOSING):
        raise StateError(damaged(where, f"it is not a complete {kind} with a checksum"))
    body = data[opening.end() : -len(_CLOSING)]
    if zlib.crc32(body) != int(opening[1], 16):
        raise StateError(damaged(where, "its checksum differs"))
    return body


def other_format(where: str, saved: Mapping[str, Any], reads: Sequence[int]) -> str:
    """Why a state file of another format is refused; `saved` is its contents."""
    writer = saved.get("windrow", "an earlier version")
    return (
        f"state file {where} has format {saved['format']}, written by Windrow {writer}; this is Windrow "
        f"{this_version()}, which reads formats {', '.join(map(str, reads))}. Use the version that wrote "
        "it, or start the query with a new checkpoint"
    )


def manifest_name(version: Version) -> str:
    """Up to format 7."""
    return f"batch-{version.batch:012d}-{version.run}.json"


def inline_file(content: str) -> str:
    return f"inline-{content}"


def parts_name(version: Version, content: str) -> str:
    return f"parts-{version.batch:012d}-{version.run}-{content}.arrows"


def version_of(name: str) -> Version | None:
    """The version that a manifest or a file of parts in the directory of a partition was written for; None
    for other files, and for parts up to format 7.

    >>> version_of(manifest_name(Version(7, "a0"))) == version_of(parts_name(Version(7, "a0"), "c0"))
    True
    >>> version_of("parts-0.arrows")
    """
    match = _NAME.fullmatch(name)
    return Version(int(match[1]), match[2]) if match else None
