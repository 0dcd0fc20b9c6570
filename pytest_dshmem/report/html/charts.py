"""Charts as SVG that reads without a script: every value is also there as text."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_dshmem.report import numbers
from pytest_dshmem.report.html.elements import Child, Markup, element

WIDTH = 420
PLOT_RIGHT = 274
ROW = 22
BAND_HEAD = 24
BAND_GAP = 10
AXIS = 26
PALETTE = 6


@dataclass(frozen=True, slots=True)
class Bar:
    """One accuracy with its interval, as fractions of one; None where it is not known."""

    series: int
    name: str
    value: float | None
    low: float | None
    high: float | None
    note: str


@dataclass(frozen=True, slots=True)
class Band:
    """A category with one bar for each series."""

    label: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One dot of a scatter plot; `x` in its own unit, `y` a fraction of one."""

    series: int
    name: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a whole that is drawn as a bar. `series` is its place in the palette."""

    series: int
    name: str
    amount: float
    shown: str


def series_class(series: int) -> str:
    """The palette's class for a series; after the last colour it starts again."""
    return f"series-{series % PALETTE}"


def interval_chart(title: str, bands: Sequence[Band]) -> Markup:
    """Dots with whiskers from 0 to 100 %, in bands, each value written beside its dot."""
    top = 0.0
    drawn: list[Markup] = []
    for band in bands:
        drawn.append(_text(0, top + 15, band.label, "band"))
        for place, bar in enumerate(band.bars):
            drawn.extend(_bar(bar, top + BAND_HEAD + ROW * (place + 0.5)))
        top += BAND_HEAD + ROW * len(band.bars) + BAND_GAP
    words = "; ".join(f"{band.label}, {bar.name}: {_value(bar)}" for band in bands for bar in band.bars)
    return _svg(title, words, top + AXIS, [*_percent_axis(top), *drawn])


def scatter_chart(title: str, x_label: str, points: Sequence[Point]) -> Markup:
    """Accuracy over some quantity, one dot a point."""
    height, left = 220, 44
    most = round_number_above(max(point.x for point in points))
    right = WIDTH - 12

    def across(x: float) -> float:
        return left + (right - left) * x / most

    def down(y: float) -> float:
        return 12 + (height - 24) * (1 - y)

    grid: list[Markup] = []
    for step in range(0, 101, 25):
        y = down(step / 100)
        grid += [_line(left, y, right, y, "grid"), _text(left - 8, y + 4, f"{step} %", "tick", "end")]
    ticks = [
        _text(across(most * step / 4), height + 8, numbers.whole(most * step / 4), "tick", anchor)
        for step, anchor in ((0, "start"), (1, "middle"), (2, "middle"), (3, "middle"), (4, "end"))
    ]
    dots = [
        element(
            "circle",
            element("title", f"{p.name}: {numbers.whole(p.x)}, {numbers.percent(p.y)}"),
            cx=_place(across(p.x)),
            cy=_place(down(p.y)),
            r=5,
            class_=f"dot {series_class(p.series)}",
        )
        for p in points
    ]
    words = "; ".join(f"{p.name}: {numbers.whole(p.x)} against {numbers.percent(p.y)}" for p in points)
    axis = _text(right, height + 26, x_label, "tick", "end")
    return _svg(title, words, height + 32, [*grid, *ticks, axis, *dots])


def share_bar(title: str, segments: Sequence[Segment]) -> Markup:
    """One bar cut into parts, with a legend that holds every value."""
    total = sum(segment.amount for segment in segments)
    drawn: list[Markup] = []
    left = 0.0
    for segment in segments:
        width = WIDTH * segment.amount / total if total else 0.0
        drawn.append(
            element(
                "rect",
                element("title", f"{segment.name}: {segment.shown}"),
                x=_place(left),
                y=0,
                width=_place(max(0.0, width - 1)),
                height=18,
                class_=f"{series_class(segment.series)}",
            )
        )
        left += width
    words = "; ".join(f"{segment.name}: {segment.shown}" for segment in segments)
    entries = (
        element(
            "li",
            element("span", class_=f"swatch {series_class(segment.series)}"),
            f"{segment.name} {segment.shown}",
        )
        for segment in segments
    )
    return element("div", _svg(title, words, 18, drawn, "bar"), element("ul", entries, class_="legend"))


def legend(names: Mapping[str, int]) -> Markup:
    """Which colour is which series, by name and place in the palette."""
    items = (
        element("li", element("span", class_=f"swatch {series_class(place)}"), name)
        for name, place in names.items()
    )
    return element("ul", items, class_="legend")


def round_number_above(value: float) -> float:
    """The next number of the kind 1, 2, 4 or 8 times a power of ten, which divides well in four."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(step * power for step in (1, 2, 4, 8, 10) if step * power >= value)


def _bar(bar: Bar, y: float) -> list[Markup]:
    value = [_text(WIDTH, y + 4, _value(bar), "value", "end")]
    if bar.value is None:
        return value
    colour = series_class(bar.series)
    drawn = []
    if bar.low is not None and bar.high is not None:
        low, high = _across(bar.low), _across(bar.high)
        drawn.append(_line(low, y, high, y, f"whisker {colour}"))
        drawn += [_line(end, y - 4, end, y + 4, f"whisker {colour}") for end in (low, high)]
    dot = element("circle", cx=_place(_across(bar.value)), cy=_place(y), r=5, class_=f"dot {colour}")
    return [*drawn, dot, *value]


def _value(bar: Bar) -> str:
    return f"{numbers.percent(bar.value)} {bar.note}" if bar.value is not None else f"not judged {bar.note}"


def _percent_axis(bottom: float) -> list[Markup]:
    drawn = []
    for step in range(0, 101, 25):
        x = _across(step / 100)
        anchor = "start" if step == 0 else "middle"
        drawn += [_line(x, 0, x, bottom, "grid"), _text(x, bottom + 18, f"{step} %", "tick", anchor)]
    return drawn


def _across(share: float) -> float:
    return 6 + (PLOT_RIGHT - 12) * share


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return element("line", x1=_place(x1), y1=_place(y1), x2=_place(x2), y2=_place(y2), class_=class_)


def _text(x: float, y: float, words: Child, class_: str, anchor: str = "start") -> Markup:
    return element("text", words, x=_place(x), y=_place(y), class_=class_, text_anchor=anchor)


def _place(value: float) -> str:
    return f"{value:.1f}"


def _svg(title: str, words: str, height: float, drawn: Sequence[Markup], class_: str = "chart") -> Markup:
    return element(
        "svg",
        element("title", title),
        element("desc", words),
        drawn,
        viewBox=f"0 0 {WIDTH} {height:.0f}",
        role="img",
        class_=class_,
    )
