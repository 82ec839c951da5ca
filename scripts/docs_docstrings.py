"""For mkdocstrings: docstrings as Python has them, since options are documented where they are declared, and
signatures of classes whose fields are settings.

Parameters that share an entry get one each, so that each is shown with its own type. Examples without a
heading get one.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from importlib import import_module
from inspect import getdoc
from typing import Any

from griffe import Class, Extension, Function, Parameter, ParameterKind, Parameters

GROUP = re.compile(r"^(\w+(?:, \w+)+)\n((?:    .*\n?|\n)+)", re.MULTILINE)
OURS = re.compile(r"\bsettings_class\b|\bpolicy\b")
"""Decorators that make dataclasses."""
HEADING = "Examples\n--------\n"


class RuntimeDocstrings(Extension):
    """Replaces the docstrings of classes and functions of modules by those at run time."""

    def on_class(self, *, cls: Any, **_: Any) -> None:
        self._replace(cls)
        if cls.parent.is_module and OURS.search(" ".join(str(d.value) for d in cls.decorators)):
            cls.set_member("__init__", _init(cls, getattr(import_module(cls.parent.path), cls.name)))

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


def _init(cls: Class, made: type) -> Function:
    """What `dataclass` makes of the fields. Griffe does not see it behind a decorator of our own."""
    known = [Parameter("self", kind=ParameterKind.positional_or_keyword)]
    for field in fields(made):
        kind = ParameterKind.keyword_only if field.kw_only else ParameterKind.positional_or_keyword
        default = None if field.default is MISSING else repr(field.default)
        if field.default_factory is not MISSING:
            default = repr(field.default_factory())
        known.append(Parameter(field.name, annotation=str(field.type), kind=kind, default=default))
    return Function("__init__", parent=cls, parameters=Parameters(*known), returns="None")


def _one_each(group: re.Match[str]) -> str:
    return "".join(f"{name}\n{group[2]}" for name in group[1].split(", "))
