"""A line chart with axes, units, a grid, and annotated points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10

from windrow.draw.shapes import label, picture, polyline, rect, rule

WIDTH, HEIGHT = 460.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 18.0, 14.0, 46.0


@dataclass(frozen=True)
class Axis:
    """An axis from 0 to `top`. Ticks show values divided by `unit`, which the label names."""

    label: str
    top: float
    unit: float = 1.0

    def ticks(self) -> list[float]:
        """About five round numbers from 0 to the top.

        >>> Axis("MiB", 310.0).ticks()
        [0.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0]
        """
        top = self.top / self.unit
        if not top > 0:
            return [0.0]
        rough = top / 5
        power = 10.0 ** floor(log10(rough))
        step = min((power * k for k in (1, 2, 5, 10)), key=lambda size: abs(size - rough))
        return [step * k * self.unit for k in range(floor(top / step + 1e-9) + 1)]

    def text(self, value: float) -> str:
        return f"{value / self.unit:g}"


@dataclass(frozen=True)
class Annotation:
    """A labelled point on the line. A point beyond the axis is drawn as an arrow at its end."""

    x: float
    y: float
    text: str
    kind: str = "mark"


def chart(points: Sequence[tuple[float, float]], x: Axis, y: Axis, marks: Sequence[Annotation] = ()) -> str:
    """A chart of the line through points of ascending x."""
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def across(value: float) -> float:
        return LEFT + wide * (value / x.top if x.top > 0 else 0.0)

    def up(value: float) -> float:
        return TOP + high * (1 - (value / y.top if y.top > 0 else 0.0))

    shapes = [rect(LEFT, TOP, wide, high, "plot")]
    for tick in x.ticks():
        shapes.append(rule(across(tick), TOP, across(tick), TOP + high, "grid"))
        shapes.append(label(across(tick), TOP + high + 16, x.text(tick), "tick", "middle"))
    for tick in y.ticks():
        shapes.append(rule(LEFT, up(tick), LEFT + wide, up(tick), "grid"))
        shapes.append(label(LEFT - 7, up(tick) + 4, y.text(tick), "tick", "end"))
    shapes.append(label(LEFT + wide / 2, HEIGHT - 8, x.label, "axis", "middle"))
    shapes.append(
        f'<g transform="translate(13,{TOP + high / 2:g}) rotate(-90)">'
        + label(0, 0, y.label, "axis", "middle")
        + "</g>"
    )
    placed = [(across(a), up(b)) for a, b in points]
    if placed:
        floor_y = TOP + high
        shapes.append(polyline([(placed[0][0], floor_y), *placed, (placed[-1][0], floor_y)], "area"))
        shapes.append(polyline(placed, "curve"))
    for mark in marks:
        at_x, at_y = across(min(mark.x, x.top)), up(mark.y)
        left = at_x > LEFT + wide * 0.55
        if mark.x > x.top:
            tip = [(at_x + 9, at_y), (at_x + 1, at_y - 5), (at_x + 1, at_y + 5)]
            shapes.append(polyline(tip, f"{mark.kind} beyond"))
        else:
            shapes.append(rule(at_x, at_y, at_x, TOP + high, "drop"))
            shapes.append(f'<circle class="{mark.kind}" cx="{at_x:.1f}" cy="{at_y:.1f}" r="4"/>')
        # The line rises, so there is room above it at the left of a point and below it at the right.
        beside = at_y - 9 if left and at_y > TOP + 18 else at_y + 20
        text = f"{mark.text}, beyond this axis" if mark.x > x.top else mark.text
        shapes.append(label(at_x + (-8 if left else 8), beside, text, "note", "end" if left else "start"))
    return picture(WIDTH, HEIGHT, shapes, f"{y.label} against {x.label}")
