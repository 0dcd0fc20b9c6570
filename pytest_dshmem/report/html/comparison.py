"""A comparison with other runs, or of the conditions within one."""

from collections.abc import Sequence

from pytest_dshmem.experiment.statistics import PairedComparison
from pytest_dshmem.report import numbers
from pytest_dshmem.report.compare import Change, Difference, Paired
from pytest_dshmem.report.comparison_figures import ComparisonFigures, Side
from pytest_dshmem.report.comparison_text import measures, p_value, rate
from pytest_dshmem.report.html.elements import Markup, element
from pytest_dshmem.report.html.tables import TableRow, description_list, table


def comparison_section(figures: ComparisonFigures) -> Markup:
    """Accuracy, cost and memory side by side; pairs against the first; what changed."""
    letters = [side.letter for side in figures.sides]
    return element(
        "section",
        element("h2", "Comparison"),
        description_list((side.letter, side.unit.label) for side in figures.sides),
        _differences("What differs", figures.compared),
        _differences("Compared by force though these differ", figures.overridden, class_="warning"),
        table("Accuracy", ["category", *letters], _accuracy(figures)),
        (
            [element("p", words), _pair(figures.sides[0], side, paired)]
            for side, paired, words in figures.pairs
        ),
        table(
            "Cost and memory",
            ["measure", *letters],
            [TableRow(label, tuple(of(s) for s in figures.sides)) for label, of in measures(figures)],
        ),
        (_changes(figures.sides[0], side, paired) for side, paired, _ in figures.pairs),
    )


def _differences(title: str, differences: Sequence[Difference], class_: str = "muted") -> Markup | None:
    if not differences:
        return None
    return element("p", f"{title}: {'; '.join(map(str, differences))}", class_=class_)


def _accuracy(figures: ComparisonFigures) -> list[TableRow]:
    rows = [
        TableRow(category, tuple(rate(side.score.row(category)) for side in figures.sides))
        for category in figures.categories
    ]
    return [*rows, TableRow("total", tuple(rate(side.score.total) for side in figures.sides), is_total=True)]


def _pair(first: Side, second: Side, paired: Paired) -> Markup:
    a, b = first.letter, second.letter
    columns = [
        "category",
        "pairs",
        "both right",
        f"only {a}",
        f"only {b}",
        "both wrong",
        "difference",
        "McNemar p",
    ]
    rows = [TableRow(category, _pair_cells(one)) for category, one in paired.by_category.items()]
    rows.append(TableRow("total", _pair_cells(paired.total), is_total=True))
    return table(f"{b} against {a}, question by question", columns, rows)


def _pair_cells(paired: PairedComparison) -> tuple[str, ...]:
    counts = (paired.n, paired.both_right, paired.only_a, paired.only_b, paired.both_wrong)
    points = numbers.NOTHING if paired.difference is None else f"{100 * paired.difference:+.1f} points"
    return (*(f"{count:,}" for count in counts), points, p_value(paired.p_value))


def _changes(first: Side, second: Side, paired: Paired) -> Markup | None:
    lost = [change for change in paired.changes if change.first]
    won = [change for change in paired.changes if change.second]
    if not paired.changes:
        return None
    summary = f"{numbers.plural(len(paired.changes), 'question')} changed: {len(lost)} lost, {len(won)} won"
    return element(
        "details",
        element("summary", f"{second.letter} against {first.letter}: {summary}"),
        _ids(f"Right in {first.letter}, wrong in {second.letter}", lost),
        _ids(f"Wrong in {first.letter}, right in {second.letter}", won),
    )


def _ids(title: str, changes: Sequence[Change]) -> Markup | None:
    if not changes:
        return None
    items = (element("li", element("code", c.question_id), f" {c.category}") for c in changes)
    return element("div", element("h4", f"{title} ({len(changes):,})"), element("ul", items, class_="ids"))
