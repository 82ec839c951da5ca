"""Pictures and pages as text: SVG and HTML from numbers and names, without scripts and without files from
elsewhere. Whatever comes from data or a query is escaped here."""

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
