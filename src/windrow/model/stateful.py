"""State that outlives a process: a class lists its fields once, and one encoder writes and reads them.

    class ArrivalRate(Stateful):
        saved = ("_rows", "_seconds", "_until")
        clocks = ("_until",)

Fields not listed are settings from the constructor, or are recomputed. A frozen dataclass that lists nothing
is a value: all of it is saved, and it is rebuilt. State is restored into an object built like the original,
so settings are the current ones.

Encoded state is a JSON value; arrays are kept beside it, unchanged, and Arrow batches as arrays of bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from windrow.errors import StateError

_CLASSES: dict[str, type[Stateful]] = {}
_CODEC = pa.Codec("zstd")


class UnknownVersionError(StateError):
    """A part of a state has a version that cannot be read."""


def this_version() -> str:
    """This version of Windrow, as states name it."""
    return str(sys.modules["windrow"].__version__)


class Stateful:
    """A class with state. Without an object to restore into, one is built from its fields alone."""

    saved: ClassVar[tuple[str, ...]] = ()
    """Fields that are saved, in addition to those of base classes."""
    clocks: ClassVar[tuple[str, ...]] = ()
    """Saved fields that are event times or None."""
    formerly: ClassVar[tuple[tuple[str, str], ...]] = ()
    """(name in earlier states, saved field): fields that have been renamed."""
    version: ClassVar[int] = 1
    """Raise it when fields change their meaning, and say in `migrated` what becomes of earlier ones."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _CLASSES[cls.__name__] = cls

    def dump(self) -> dict[str, Any]:
        """The fields and their values."""
        return {name: getattr(self, name) for name in _listed(type(self), "saved")}

    def restore(self, values: dict[str, Any]) -> None:
        """Restore from the result of `dump`."""
        for name, value in values.items():
            setattr(self, name, value)

    @classmethod
    def migrated(cls, version: int, values: dict[str, Any]) -> dict[str, Any] | None:
        """The fields that an earlier version has dumped, as this one restores them; None if it cannot."""
        return None

    def turn_back(self, now: int) -> None:
        """Turn clocks that are later than `now` back to it, after event time was set back."""
        for name in _listed(type(self), "clocks"):
            if getattr(self, name) is not None:
                setattr(self, name, min(getattr(self, name), now))
        for part in _parts(list(self.dump().values())):
            part.turn_back(now)


def batch_bytes(batch: pa.RecordBatch) -> bytes:
    """A batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def encode(value: Any, arrays: list[np.ndarray]) -> Any:
    """A JSON value; arrays are appended to `arrays`."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, pa.RecordBatch):
        return {"batch": encode(np.frombuffer(batch_bytes(value), np.uint8), arrays)}
    if isinstance(value, list):
        return [encode(each, arrays) for each in value]
    if isinstance(value, tuple):
        return {"tuple": encode(list(value), arrays)}
    if isinstance(value, Mapping):
        return {"items": [encode([key, each], arrays) for key, each in value.items()]}
    if isinstance(value, Stateful):
        cls = type(value)
        return {"is": [cls.__name__, cls.version]} | {
            name: encode(each, arrays) for name, each in value.dump().items()
        }
    raise TypeError(f"state: {type(value).__name__} cannot be saved; make it Stateful")


def decode(plain: Any, arrays: Sequence[np.ndarray], into: Any = None) -> Any:
    """Inverse of `encode`. Objects at the same place in `into` are restored and keep their identity."""
    if isinstance(plain, list):
        # A list of another length has other objects in it, so none of them is restored into.
        known = into if isinstance(into, list | tuple) and len(into) == len(plain) else [None] * len(plain)
        return [decode(each, arrays, part) for each, part in zip(plain, known, strict=True)]
    if not isinstance(plain, dict):
        return plain
    if "array" in plain:
        return arrays[plain["array"]]
    if "batch" in plain:
        return pa.ipc.open_stream(decode(plain["batch"], arrays)).read_next_batch()
    if "tuple" in plain:
        return tuple(decode(plain["tuple"], arrays, into))
    if "items" in plain:
        before = into if isinstance(into, Mapping) else {}
        pairs = ((decode(key, arrays), each) for key, each in plain["items"])
        return {key: decode(each, arrays, before.get(key)) for key, each in pairs}
    return _object(plain, arrays, into)


def pack_arrays(arrays: Sequence[np.ndarray]) -> pa.RecordBatch:
    """Arrays as one part, compressed: most are sketches and histograms, which are nearly empty while few rows
    are held."""
    return pa.record_batch(
        {
            "dtype": pa.array([array.dtype.str for array in arrays]),
            "shape": pa.array([list(array.shape) for array in arrays], pa.list_(pa.int64())),
            "values": pa.array(
                [_CODEC.compress(array.tobytes(), asbytes=True) for array in arrays], pa.large_binary()
            ),
        }
    )


def unpack_arrays(part: pa.RecordBatch) -> list[np.ndarray]:
    dtypes, shapes, values = part.columns
    found = []
    for dtype, shape, held in zip(dtypes, shapes, values, strict=True):
        array = np.empty(shape.as_py(), np.dtype(dtype.as_py()))
        raw = _CODEC.decompress(held.as_buffer(), array.nbytes)
        array[...] = np.frombuffer(raw, array.dtype).reshape(array.shape)
        found.append(array)
    return found


def _object(plain: Mapping[str, Any], arrays: Sequence[np.ndarray], into: Any) -> Stateful:
    name, version = plain["is"]
    # The object to restore into decides the class. Only values that did not exist before are found by name.
    cls: Any = type(into) if type(into).__name__ == name else _CLASSES.get(name)
    names = {} if cls is None else dict(cls.formerly)
    named = ((names.get(key, key), each) for key, each in plain.items() if key != "is")
    values: dict[str, Any] | None = {
        key: decode(each, arrays, getattr(into, key, None)) for key, each in named
    }
    if cls is None or version != cls.version:
        values = None if cls is None else cls.migrated(version, values)
    if values is None:
        raise UnknownVersionError(
            f"this state has version {version} of {name}, which this Windrow does not know; go on with the "
            "version of Windrow that wrote it, or start without it."
        )
    if _is_value(cls):
        return cls(**values)
    made = into if type(into) is cls else cls.__new__(cls)
    made.restore(values)
    return made


def _listed(cls: type, what: str) -> list[str]:
    """Names that a class and its bases list."""
    if what == "saved" and _is_value(cls):
        return [field.name for field in fields(cls)]
    return [name for each in reversed(cls.__mro__) for name in vars(each).get(what, ())]


def _is_value(cls: type) -> bool:
    return is_dataclass(cls) and not getattr(cls, "saved", ())


def _parts(value: Any) -> Iterator[Stateful]:
    """Objects with state in a value."""
    if isinstance(value, Stateful):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _parts(each)
    elif isinstance(value, Mapping):
        yield from _parts(list(value.values()))
