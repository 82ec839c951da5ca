"""How values are shown in a notebook and at a prompt: a table, their printed text, or one line of it."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

_CELL = "text-align: left; vertical-align: top; padding: 0.1em 1em 0.1em 0"


def html_table(title: str, facts: Mapping[str, object]) -> str:
    """Names and values below a title.

    >>> html_table("Quality", {"recall": 0.5})[:37]
    '<div><strong>Quality</strong><table><'
    """
    texts = {name: f"{v:.4g}" if isinstance(v, float) else str(v) for name, v in facts.items()}
    rows = "".join(
        f'<tr><th style="{_CELL}">{escape(name)}</th><td style="{_CELL}">{escape(text)}</td></tr>'
        for name, text in texts.items()
    )
    return f"<div><strong>{escape(title)}</strong><table>{rows}</table></div>"


def html_fields(value: object, title: str = "") -> str:
    """The fields of a record that are known and no records themselves; usable as a class's `_repr_html_`."""
    facts = {k: v for k, v in vars(value).items() if v is not None and not isinstance(v, Mapping)}
    return html_table(title or type(value).__name__, facts)


def html_text(value: object) -> str:
    """The printed text of a value, preformatted; usable as a class's `_repr_html_`."""
    return f"<pre>{escape(str(value))}</pre>"


def short_repr(value: object) -> str:
    """The first line of the printed text of a value; usable as a class's `__repr__`."""
    return f"<{type(value).__name__}: {str(value).partition(chr(10))[0]}>"
