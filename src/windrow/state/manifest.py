"""Manifests: what makes up the state of one partition after one batch.

A manifest is a small JSON file that names its parts. It is replaced as a whole or not at all, so a version
of the state is there when its manifest is. Its checksum covers the bytes as they stand in the file.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from windrow.errors import StateError
from windrow.state.parts import StoredPart, damaged
from windrow.state.runs import Version

FORMAT = 5
_OPENING = rb'\{"crc32": "([0-9a-f]{8})",\n"%b": '
_CLOSING = b"}\n"
_NAME = re.compile(r"batch-(\d+)-([0-9a-f]+)\.json")


@dataclass(frozen=True)
class Manifest:
    version: Version
    content: str
    """Unique: another attempt at the same batch commits another content."""
    partition: int
    partitions: int
    metadata: dict[str, Any]
    """Of the state; see `windrow.engine.state`."""
    parts: tuple[StoredPart, ...]
    """In the order of the state's parts. One stored batch may serve several times."""
    files: Mapping[str, int]
    """The files that hold the parts, and the bytes of each."""
    times: tuple[int | None, ...]
    """Newest event time of each stream, in microseconds; None before its first row."""
    created: float
    """Seconds since 1970."""
    demand: int | None = None
    """What complete windows would take, where memory is limited."""

    @property
    def batch(self) -> int:
        return self.version.batch

    @cached_property
    def live_bytes(self) -> int:
        """Bytes of the parts, without what else is in their files."""
        return sum(part.bytes for part in set(self.parts))

    @property
    def stored_bytes(self) -> int:
        return sum(self.files.values())

    def rows(self) -> dict[str, int]:
        """Rows of each stream, in its window or waiting to enter it."""
        parts = iter(self.parts)
        counts = {}
        for (alias, *_), held in zip(
            self.metadata["query"]["streams"], self.metadata["streams"], strict=True
        ):
            for _ in range(bool(held["schema"])):
                next(parts)
            stored = [next(parts).rows for _ in range(held["buffered"] + held["segments"])]
            for _ in range(held["row_state"] + held["keys"]):
                next(parts)
            counts[alias] = sum(stored) - held.get("skip", 0)
        return counts

    def to_bytes(self) -> bytes:
        body = json.dumps(
            {
                "format": FORMAT,
                "batch": self.batch,
                "run": self.version.run,
                "content": self.content,
                "partition": self.partition,
                "partitions": self.partitions,
                "created": self.created,
                "times": self.times,
                "demand": self.demand,
                "files": self.files,
                "parts": [part.to_list() for part in self.parts],
                "metadata": self.metadata,
            },
            separators=(",", ":"),
        ).encode()
        return sealed("manifest", body)

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Manifest:
        saved = json.loads(unsealed("manifest", data, where))
        if saved["format"] != FORMAT:
            raise StateError(other_format(where, saved["format"]))
        return cls(
            version=Version(saved["batch"], saved["run"]),
            content=saved["content"],
            partition=saved["partition"],
            partitions=saved["partitions"],
            metadata=saved["metadata"],
            parts=tuple(StoredPart(*part) for part in saved["parts"]),
            files=saved["files"],
            times=tuple(saved["times"]),
            created=saved["created"],
            demand=saved["demand"],
        )


def sealed(kind: str, body: bytes) -> bytes:
    """A JSON document with its checksum, as a file."""
    return b'{"crc32": "%08x",\n"%b": %b%b' % (zlib.crc32(body), kind.encode(), body, _CLOSING)


def unsealed(kind: str, data: bytes, where: str) -> bytes:
    """The document in a file, byte for byte as it was written."""
    opening = re.match(_OPENING % kind.encode(), data)
    if opening is None or not data.endswith(_CLOSING):
        raise StateError(damaged(where, f"it is no {kind} with its checksum, or cut off"))
    body = data[opening.end() : -len(_CLOSING)]
    if zlib.crc32(body) != int(opening[1], 16):
        raise StateError(damaged(where, "its checksum differs"))
    return body


def other_format(where: str, received: object) -> str:
    return (
        f"state file {where} has format {received}, this version of Windrow reads format {FORMAT}; go on "
        "with the version that wrote it, or start the query anew with a new checkpoint"
    )


def manifest_name(version: Version) -> str:
    return f"batch-{version.batch:012d}-{version.run}.json"


def version_of(name: str) -> Version | None:
    """The version of a manifest's file name; None for other files.

    >>> version_of(manifest_name(Version(7, "a0")))
    Version(batch=7, run='a0')
    >>> version_of("parts-0.arrows")
    """
    match = _NAME.fullmatch(name)
    return Version(int(match[1]), match[2]) if match else None
