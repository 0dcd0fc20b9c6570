"""Tables that scroll inside of their own box, so that a page never does sideways."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_dshmem.report.html.elements import Child, Markup, element


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: its label is the row's heading, the cells are numbers unless they are markup of their own."""

    label: Child
    cells: tuple[Child, ...]
    is_total: bool = False


def table(caption: str, columns: Sequence[str], rows: Iterable[TableRow]) -> Markup:
    """A table with a caption. `columns` are headings, the first one that of the labels."""
    head = element("thead", element("tr", (element("th", column, scope="col") for column in columns)))
    body = element("tbody", (_row(row) for row in rows))
    inner = element("table", element("caption", caption), head, body)
    return element("div", inner, class_="scroll", tabindex=0, role="region", aria_label=caption)


def description_list(pairs: Iterable[tuple[str, Child]], class_: str | None = None) -> Markup:
    """Terms with their descriptions; those that are empty are left out."""
    shown = ((term, value) for term, value in pairs if value not in ("", None))
    return element(
        "dl",
        (element("div", element("dt", term), element("dd", value)) for term, value in shown),
        class_=class_,
    )


def _row(row: TableRow) -> Markup:
    label = element("th", row.label, scope="row")
    return element(
        "tr", label, (element("td", cell) for cell in row.cells), class_="total" if row.is_total else None
    )
