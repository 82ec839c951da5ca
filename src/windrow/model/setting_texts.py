"""Settings of a query as a person would write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from windrow.model.units import format_duration

_DURATIONS = ("late", "idle", "ahead")
_SHOWN_APART = ("streams", "on", "functions")


def changed_settings(query: Any, defaults: Mapping[str, Any]) -> dict[str, str]:
    """Settings that differ from the defaults; `defaults` holds those that change when they are parsed."""
    found = {}
    for f in fields(query):
        value = getattr(query, f.name)
        if f.name not in _SHOWN_APART and value not in (f.default, defaults.get(f.name)):
            found[f.name] = _shown(f.name, value)
    if query.functions:
        found["functions"] = ", ".join(query.functions)
    return found


def _shown(name: str, value: Any) -> str:
    if name == "late" and isinstance(value, Mapping):
        return ", ".join(f"{alias} {format_duration(each)}" for alias, each in value.items())
    if name in _DURATIONS and isinstance(value, int):
        return format_duration(value)
    return " and ".join(map(str, value)) if isinstance(value, tuple) else str(value)
