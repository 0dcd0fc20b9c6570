"""Plain text for a terminal of 80 columns: lines with a style each, and tables that fit."""

import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

WIDTH = 80
INDENT = 2
GAP = 2
LABEL_WIDTH = 14

Style = Literal["plain", "heading", "warning", "good", "bad", "dim"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text without line breaks or colour codes; `style` says what a terminal may do with it."""

    text: str
    style: Style = "plain"


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a table's line. The first one is a label on the left, all others stand to the right."""

    cells: tuple[str, ...]
    style: Style = "plain"


BLANK = Line("")


def heading(text: str) -> Line:
    """A heading with a rule that fills the line."""
    title = clip(one_line(text), WIDTH - 4)
    return Line(f"{title} {'-' * (WIDTH - 1 - columns(title))}", "heading")


def paragraph(text: str, style: Style = "plain", indent: int = 0) -> list[Line]:
    """Text wrapped at the width; lines after the first hang by two more columns."""
    return _wrapped(text, " " * indent, " " * (indent + INDENT), style)


def entry(label: str, text: str, style: Style = "plain") -> list[Line]:
    """A label and a text beside it, wrapped under itself."""
    margin = " " * (INDENT + LABEL_WIDTH)
    opening = " " * INDENT + clip(one_line(label), LABEL_WIDTH - 1).ljust(LABEL_WIDTH)
    return _wrapped(text, opening, margin, style)


def table(rows: Sequence[Row], indent: int = INDENT) -> list[Line]:
    """Rows in columns, set close where they would not fit; labels that still do not are cut short."""
    if not rows:
        return []
    gap = GAP
    if table_width(rows, indent) > WIDTH:
        indent, gap = 0, 1
    cells = _filled(rows)
    widths = _widths(cells)
    room = WIDTH - indent - sum(widths[1:]) - gap * (len(widths) - 1)
    widths[0] = max(1, min(widths[0], room))
    return [
        Line(clip(_join(line, widths, indent, gap).rstrip(), WIDTH), row.style)
        for line, row in zip(cells, rows, strict=True)
    ]


def table_width(rows: Sequence[Row], indent: int = INDENT) -> int:
    """How wide a table is that is not set close."""
    widths = _widths(_filled(rows))
    return indent + sum(widths) + GAP * (len(widths) - 1)


def one_line(text: str) -> str:
    """Text without line breaks or other control characters, which would break a terminal's layout."""
    return "".join(" " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in text)


def clip(text: str, width: int) -> str:
    """Text cut to a number of columns; what was cut ends in an ellipsis."""
    if columns(text) <= width:
        return text
    kept = ""
    for character in text:
        if columns(kept + character) > width - 1:
            break
        kept += character
    return kept + "…"


def columns(text: str) -> int:
    """How many columns a text takes: wide characters two, combining and invisible ones none."""
    return sum(_columns_of(character) for character in text)


def _columns_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def _wrapped(text: str, first: str, rest: str, style: Style) -> list[Line]:
    parts = textwrap.wrap(one_line(text), WIDTH, initial_indent=first, subsequent_indent=rest)
    return [Line(clip(part, WIDTH), style) for part in parts]


def _filled(rows: Sequence[Row]) -> list[list[str]]:
    count = max(len(row.cells) for row in rows)
    return [[one_line(cell) for cell in row.cells] + [""] * (count - len(row.cells)) for row in rows]


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(columns, column)) for column in zip(*cells, strict=True)]


def _join(cells: Sequence[str], widths: Sequence[int], indent: int, gap: int) -> str:
    label = clip(cells[0], widths[0])
    first = label + " " * (widths[0] - columns(label))
    rest = [" " * (width - columns(cell)) + cell for cell, width in zip(cells[1:], widths[1:], strict=True)]
    return " " * indent + (" " * gap).join([first, *rest])
