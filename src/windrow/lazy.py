"""Names of a module that are imported when they are first used: `import windrow` must not import Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from windrow.errors import unknown


def lazy_names(module: str, homes: Mapping[str, str], public: list[str]) -> Callable[[str], Any]:
    """A module's `__getattr__`; `homes` says which module defines a name."""

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        hint = "" if name.startswith("_") else f": {unknown('name', name, public)}"
        raise AttributeError(f"module '{module}' has no attribute '{name}'{hint}", name=name)

    return get
