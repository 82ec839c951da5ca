"""The style sheet and scripts of this package, and self-contained pages made of them.

A self-contained page holds its data as JSON in a script element that browsers do not run. Its content policy
allows only its own scripts and style, so that names and values in the data stay text whatever they contain.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from windrow.draw.document import html_page

SHARED = ("drawing.js", "charts.js")
"""Scripts of every page, which run first."""


@cache
def asset(name: str) -> str:
    """The text of a file of this package."""
    return (files("windrow.ui") / name).read_text(encoding="utf-8")


def embed(data: Any) -> str:
    """JSON for a script element: nothing in it ends the element or starts a comment.

    >>> embed({"name": "</script>"})
    '{"name":"\\\\u003c/script>"}'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def standalone(title: str, scripts: Sequence[str], data: Any) -> str:
    """A self-contained page.

    Parameters
    ----------
    title
        Plain text.
    scripts
        Names of this package's files, run after `drawing.js` and `charts.js`. They find the data by
        `JSON.parse(document.getElementById("data").textContent)` and fill the element `page`.
    data
        Values for JSON.
    """
    style = asset("style.css")
    code = [asset(name) for name in (*SHARED, *scripts)]
    allowed = " ".join(_fingerprint(text) for text in code)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src {_fingerprint(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    data_element = f'<script type="application/json" id="data">{embed(data)}</script>'
    body = ['<div id="page"></div>', data_element, *(f"<script>{text}</script>" for text in code)]
    return html_page(title, policy, style, body)


def _fingerprint(text: str) -> str:
    """The hash by which a content policy allows a script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
