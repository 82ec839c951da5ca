"""SVG pictures and HTML pages as text, without scripts and external files. Text from data or a query is
escaped here."""

from windrow.draw.chart import Annotation, Axis, chart
from windrow.draw.document import document, panel, panels, table, tiles
from windrow.draw.shapes import arrow, escape, label, picture, polyline, rect, rule

__all__ = [
    "Annotation",
    "Axis",
    "arrow",
    "chart",
    "document",
    "escape",
    "label",
    "panel",
    "panels",
    "picture",
    "polyline",
    "rect",
    "rule",
    "table",
    "tiles",
]
