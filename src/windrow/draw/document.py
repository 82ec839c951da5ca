"""HTML pages in one file: the style is inline, nothing is fetched, and no script runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

from windrow.draw.shapes import escape


@cache
def style() -> str:
    """The style sheet of all pages, with that of this package's pictures."""
    here = files("windrow")
    parts = (here / "ui" / "style.css", here / "draw" / "style.css")
    return "\n".join(part.read_text(encoding="utf-8") for part in parts)


def html_page(title: str, policy: str, style: str, body: Iterable[str]) -> str:
    """A page in one file. The content policy says what a browser may run and fetch."""
    head = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        f"<style>{style}</style>\n</head>\n<body>",
    ]
    return "\n".join([*head, *body, "</body>\n</html>\n"])


def document(title: str, body: Iterable[str], subtitle: str = "") -> str:
    """A page of HTML parts."""
    top = f'<h1>{escape(title)}</h1><span class="status">{escape(subtitle)}</span>'
    # No fetches and no scripts, even if a name in the query contained markup.
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    parts = [f'<header class="top">{top}</header>\n<main>', *body, "</main>"]
    return html_page(title, policy, style(), parts)


def panel(title: str, inside: str, why: str = "", size: str = "wide", unit: str = "") -> str:
    """A section of the page with a heading; `inside` is HTML."""
    unit = f' <span class="unit">{escape(unit)}</span>' if unit else ""
    why = f'<p class="why">{escape(why)}</p>' if why else ""
    return f'<section class="panel {size}"><h2>{escape(title)}{unit}</h2>{why}{inside}</section>'


def panels(parts: Iterable[str]) -> str:
    return f'<div class="panels">{"".join(parts)}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[object]], texts: Sequence[int] = (0,)) -> str:
    """A table of plain cells. Columns in `texts` are aligned left, the others hold numbers."""
    classes = [' class="left"' if k in texts else "" for k in range(len(head))]

    def line(cells: Sequence[object], tag: str) -> str:
        inside = (f"<{tag}{kind}>{escape(c)}</{tag}>" for c, kind in zip(cells, classes, strict=True))
        return f"<tr>{''.join(inside)}</tr>"

    body = f"<thead>{line(head, 'th')}</thead><tbody>{''.join(line(row, 'td') for row in rows)}</tbody>"
    return f'<div class="table"><table>{body}</table></div>'


def tiles(figures: Iterable[tuple[str, str, str]]) -> str:
    """Key figures as (name, value, note)."""
    found = [
        f'<div class="tile"><div class="name">{escape(name)}</div><div class="value">{escape(value)}</div>'
        f'<div class="notes">{escape(more)}</div></div>'
        for name, value, more in figures
    ]
    return f'<div class="tiles">{"".join(found)}</div>'
