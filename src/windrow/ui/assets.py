"""Style, charts and scripts as the package ships them, and a page of them in one file.

A page that stands alone holds its data as JSON in a script element that no browser runs, and a policy that
lets only the scripts and the style run that it was written with: whatever a name or value in the data looks
like, it stays text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

SHARED = ("figures.js", "charts.js")
"""Scripts every page begins with."""


@cache
def asset(name: str) -> str:
    """The text of a file of this package."""
    return (files("windrow.ui") / name).read_text(encoding="utf-8")


def embed(data: Any) -> str:
    """JSON that may stand inside a script element: nothing in it ends the element or opens a comment.

    >>> embed({"name": "</script>"})
    '{"name":"\\\\u003c/script>"}'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def standalone(title: str, scripts: Sequence[str], data: Any) -> str:
    """A page as one file that needs nothing else.

    Parameters
    ----------
    title
        Plain text.
    scripts
        Names of this package's files, run after `figures.js` and `charts.js`. They find the data by
        `JSON.parse(document.getElementById("data").textContent)` and fill the element `page`.
    data
        Anything JSON can hold.
    """
    style = asset("style.css")
    code = [asset(name) for name in (*SHARED, *scripts)]
    allowed = " ".join(_fingerprint(text) for text in code)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src {_fingerprint(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{html.escape(title)}</title>",
            f"<style>{style}</style>",
            '</head>\n<body>\n<div id="page"></div>',
            f'<script type="application/json" id="data">{embed(data)}</script>',
            *(f"<script>{text}</script>" for text in code),
            "</body>\n</html>\n",
        ]
    )


def _fingerprint(text: str) -> str:
    """By which a policy knows a script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
