"""Tables on a terminal. Cells are text, whatever they contain."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from rich.box import HEAVY_HEAD, Box
from rich.table import Table
from rich.text import Text


def table(
    columns: Iterable[str],
    rows: Iterable[Sequence[object] | None],
    title: str | None = None,
    right: Collection[str] = (),
    box: Box | None = HEAVY_HEAD,
    caption: str | None = None,
) -> Table:
    """A table; None among the rows is a line across. Columns in `right` hold numbers."""
    style = "dim" if box is None else "table.header"
    made = Table(title=title, title_justify="left", box=box, caption=caption, header_style=style)
    for name in columns:
        made.add_column(Text(name), justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        if row is None:
            made.add_section()
        else:
            made.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return made


def name_values(shown: Mapping[str, str]) -> Table:
    """Names and values, without lines."""
    made = Table(box=None, show_header=False)
    made.add_column(style="dim")
    made.add_column(overflow="fold")
    for name, value in shown.items():
        made.add_row(name, Text(value))
    return made
