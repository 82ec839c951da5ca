"""The SVG shapes of the pictures. Colours come from the page's style, by class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape as _escape

LETTER_WIDTHS = {"name": 8.5, "code": 6.7, "": 6.3}
"""Width of a letter by class of text, on the safe side: fonts differ between machines."""


def escape(value: object) -> str:
    """Any value as text for HTML and SVG, safe in attributes too.

    >>> escape('<b> & "c"')
    '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return _escape(str(value), quote=True)


def rect(x: float, y: float, width: float, height: float, kind: str, hint: str = "", round: float = 0) -> str:
    """A box with an optional tooltip `hint`."""
    title = f"<title>{escape(hint)}</title>" if hint else ""
    corner = f' rx="{round:g}"' if round else ""
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
        f'height="{max(height, 0):.1f}"{corner}>{title}</rect>'
    )


def rule(x: float, y: float, to_x: float, to_y: float, kind: str) -> str:
    """A straight line."""
    return f'<line class="{kind}" x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"/>'


def arrow(x: float, y: float, to_x: float) -> str:
    """An arrow to the right."""
    head = f"{to_x:.1f},{y:.1f} {to_x - 6:.1f},{y - 4:.1f} {to_x - 6:.1f},{y + 4:.1f}"
    return rule(x, y, to_x - 5, y, "arrow") + f'<polygon class="head" points="{head}"/>'


def label(
    x: float, y: float, value: object, kind: str = "", anchor: str = "start", room: float = math.inf
) -> str:
    """A line of text, cut if it is wider than `room`. A tooltip shows text that was cut.

    >>> label(0, 0, "temperature", "name", room=60)
    '<text class="name" x="0.0" y="0.0"><title>temperature</title>temper…</text>'
    """
    text = str(value)
    most = room / LETTER_WIDTHS.get(kind, LETTER_WIDTHS[""])
    shown = text if len(text) <= most else text[: int(most) - 1] + "…"
    title = f"<title>{escape(text)}</title>" if shown != text else ""
    style = f' class="{kind}"' if kind else ""
    align = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text{style} x="{x:.1f}" y="{y:.1f}"{align}>{title}{escape(shown)}</text>'


def polyline(points: Sequence[tuple[float, float]], kind: str) -> str:
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{kind}" points="{joined}"/>'


def picture(width: float, height: float, shapes: Sequence[str], description: str) -> str:
    """An SVG that scales with the page within legible limits. Screen readers read the description."""
    fits = f"min-width:{width * 0.72:.0f}px;max-width:{width * 1.3:.0f}px"
    attributes = f'viewBox="0 0 {width:g} {height:g}" style="{fits}" aria-label="{escape(description)}"'
    return f'<div class="drawn"><svg {attributes} role="img">{"".join(shapes)}</svg></div>'
