"""A page in one file: its style is inside, it asks for nothing from elsewhere and runs no script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

from windrow.draw.shapes import escape


@cache
def style() -> str:
    """The look of all pages, and what the pictures of this package add to it."""
    here = files("windrow")
    parts = (here / "ui" / "style.css", here / "draw" / "style.css")
    return "\n".join(part.read_text(encoding="utf-8") for part in parts)


def document(title: str, body: Iterable[str], said: str = "") -> str:
    """HTML around parts that are HTML already; `said` stands beside the title."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # Nothing is fetched and nothing runs, whatever a name in the query may look like.
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n"
        f"<title>{escape(title)}</title>\n<style>\n{style()}</style>\n</head>\n<body>\n"
        f'<header class="top"><h1>{escape(title)}</h1><span class="said">{escape(said)}</span></header>\n'
        "<main>\n" + "\n".join(body) + "\n</main>\n</body>\n</html>\n"
    )


def panel(title: str, inside: str, why: str = "", size: str = "wide", unit: str = "") -> str:
    """A part of the page with a heading; `inside` is HTML."""
    of = f' <span class="unit">{escape(unit)}</span>' if unit else ""
    told = f'<p class="why">{escape(why)}</p>' if why else ""
    return f'<section class="panel {size}"><h2>{escape(title)}{of}</h2>{told}{inside}</section>'


def panels(parts: Iterable[str]) -> str:
    return f'<div class="panels">{"".join(parts)}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[object]], texts: Sequence[int] = (0,)) -> str:
    """Plain cells; columns in `texts` stand at the left, the others hold numbers."""
    of = [' class="left"' if k in texts else "" for k in range(len(head))]
    heads = "".join(f"<th{kind}>{escape(each)}</th>" for each, kind in zip(head, of, strict=True))
    lines = [
        "<tr>"
        + "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, of, strict=True))
        + "</tr>"
        for row in rows
    ]
    body = f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="table"><table>{body}</table></div>'


def tiles(figures: Iterable[tuple[str, str, str]]) -> str:
    """Figures that come first: what it is, the number, and a word on it."""
    told = [
        f'<div class="tile"><div class="name">{escape(name)}</div><div class="value">{escape(value)}</div>'
        f'<div class="beside">{escape(more)}</div></div>'
        for name, value, more in figures
    ]
    return f'<div class="tiles">{"".join(told)}</div>'
