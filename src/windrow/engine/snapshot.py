"""A snapshot: a state as bytes.

A magic word, a checksum, the length of a JSON head, the head, and an Arrow stream per part.
"""

from __future__ import annotations

import hashlib
import json

import pyarrow as pa

from windrow.engine.state import State
from windrow.errors import StateError
from windrow.model.stateful import batch_bytes
from windrow.window.blocks import batch_of

MAGIC = b"WINDROW7"
_READ = (b"WINDROW6", MAGIC)
"""States of the former are as those in manifests up to format 9."""
_DIGEST = 16


def pack(state: State) -> bytes:
    parts = [batch_bytes(batch_of(part)) for part in state.parts]
    text = json.dumps({"state": state.metadata, "parts": [len(p) for p in parts]}).encode()
    body = b"".join((len(text).to_bytes(8, "little"), text, *parts))
    return MAGIC + hashlib.blake2b(body, digest_size=_DIGEST).digest() + body


def unpack(blob: bytes) -> State:
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise StateError(f"expected the bytes of a snapshot, got {type(blob).__name__}")
    blob = bytes(blob)
    start = len(MAGIC) + _DIGEST
    if blob[: len(MAGIC)] not in _READ:
        raise StateError("this is not a Windrow snapshot, or of another version; take a new one")
    body = blob[start:]
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != blob[len(MAGIC) : start]:
        raise StateError("snapshot is damaged or cut off (checksum differs); use an earlier one")
    size = int.from_bytes(body[:8], "little")
    head = json.loads(body[8 : 8 + size])
    parts, at = [], 8 + size
    for length in head["parts"]:
        parts.append(pa.ipc.open_stream(body[at : at + length]).read_next_batch())
        at += length
    return State(head["state"], tuple(parts))
