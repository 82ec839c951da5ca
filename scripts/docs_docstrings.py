"""For mkdocstrings: docstrings as Python has them, since options are documented where they are declared.

Parameters that share an entry get one each, so that each is shown with its own type. Examples without a
heading get one.
"""

from __future__ import annotations

import re
from importlib import import_module
from inspect import getdoc
from typing import Any

from griffe import Extension

GROUP = re.compile(r"^(\w+(?:, \w+)+)\n((?:    .*\n?|\n)+)", re.MULTILINE)
HEADING = "Examples\n--------\n"


class RuntimeDocstrings(Extension):
    """Replaces the docstrings of classes and functions of modules by those at run time."""

    def on_class(self, *, cls: Any, **_: Any) -> None:
        self._replace(cls)

    def on_function(self, *, func: Any, **_: Any) -> None:
        self._replace(func)

    def _replace(self, found: Any) -> None:
        if found.docstring is None:
            return
        text = found.docstring.value
        if found.parent.is_module:
            text = getdoc(getattr(import_module(found.parent.path), found.name)) or text
        text = GROUP.sub(_one_each, text)
        if HEADING not in text:
            text = re.sub(r"^>>>", f"{HEADING}>>>", text, count=1, flags=re.MULTILINE)
        found.docstring.value = text


def _one_each(group: re.Match[str]) -> str:
    return "".join(f"{name}\n{group[2]}" for name in group[1].split(", "))
