"""The accuracy of every condition: headline, table, chart, what was not answered, why answers are wrong."""

from collections.abc import Iterable, Sequence

from pytest_dshmem.experiment.judging.official_metrics import Mean
from pytest_dshmem.experiment.scoring import ScoreRow, ScoreTable
from pytest_dshmem.experiment.statistics import Interval, NoInterval
from pytest_dshmem.report import numbers
from pytest_dshmem.report.diagnosis import CAUSES, MEANING, count_causes
from pytest_dshmem.report.figures import GroupFigures
from pytest_dshmem.report.html.charts import Band, Bar, interval_chart, legend, series_class
from pytest_dshmem.report.html.content import PageContent, group_of
from pytest_dshmem.report.html.elements import Markup, element, together
from pytest_dshmem.report.html.tables import TableRow, table
from pytest_dshmem.report.overlay import undisputed_row

TOTAL = "total"
STATES_WITHOUT_VERDICT = ("unparsed", "judge-error", "unjudged")


def headline(content: PageContent) -> Markup:
    """One card a condition and repeat with its total accuracy, its interval and its denominator."""
    cards = (_card(content, figures, place) for place, figures in enumerate(content.figures.groups))
    return element("section", cards, class_="cards", aria_label="Accuracy in short")


def accuracy_section(content: PageContent) -> Markup:
    """Accuracy by category as a table and as a chart."""
    groups = content.figures.groups
    return element(
        "section",
        element("h2", "Accuracy"),
        element(
            "p",
            "Right of all answers that were judged, with the 95 % interval (Wilson). The interval by history "
            "takes the questions of one history together, since they share its memory.",
        ),
        element("div", _side_by_side(content), _chart(content), class_="beside"),
        (_accuracy_table(content, figures) for figures in groups),
        _official(groups),
        _spread(content),
    )


def unanswered_section(content: PageContent) -> Markup | None:
    """What has no verdict, by the state in which it ended; None where everything was judged."""
    groups = content.figures.groups
    states = dict.fromkeys(state for figures in groups for state in _without_verdict(figures.score.total))
    if not states:
        return None
    rows = [
        TableRow(state, tuple(_without_verdict(g.score.total).get(state, 0) for g in groups))
        for state in states
    ]
    return element(
        "section",
        element("h2", "Not answered, not judged"),
        element("p", "States of their own: none of these counts as right or as wrong."),
        table("Questions without a verdict", ["state", *(g.group.label for g in groups)], rows),
    )


def diagnosis_section(content: PageContent) -> Markup | None:
    """Why wrong answers are wrong, by category; None where nobody diagnosed."""
    if content.diagnoses is None:
        return None
    categories = content.figures.categories
    parts = []
    for figures in content.figures.groups:
        own = [d for d in content.diagnoses if group_of(d.key) == figures.group]
        counts = count_causes(own)
        rows = [
            TableRow(
                together(cause, element("small", MEANING[cause])),
                (*(counts[cause][category] for category in categories), counts[cause].total()),
            )
            for cause in CAUSES
            if cause in counts
        ]
        if rows:
            columns = ["cause", *categories, "all"]
            parts.append(table(f"Wrong answers under {figures.group.label}", columns, rows))
    if not parts:
        return None
    return element(
        "section",
        element("h2", "Why answers are wrong"),
        element(
            "p",
            "From the evidence marks and the frozen memory, by the words they share and without a model: a "
            "hint where to look, no measurement. The earliest cause in the chain is given.",
        ),
        parts,
    )


def _card(content: PageContent, figures: GroupFigures, place: int) -> Markup:
    row = figures.score.total
    if not content.figures.provenance.publishes_total:
        big, detail = "no total", "a smoke selection shows that all works, not how well"
    else:
        big, detail = numbers.percent(row.accuracy), f"{row.correct:,} right of {row.judged:,} judged"
    f1 = None if row.f1 is None else f"token F1 {numbers.percent(row.f1)}"
    return element(
        "article",
        element("h2", element("span", class_=f"swatch {series_class(place)}"), figures.group.label),
        element("p", big, class_="big"),
        element("p", detail),
        element("p", f"95 % interval {interval_text(row.interval)}") if row.judged else None,
        element("p", " · ".join(part for part in (f"{row.selected:,} selected", f1) if part), class_="muted"),
    )


def interval_text(interval: Interval | NoInterval) -> str:
    """An interval, or why there is none."""
    if isinstance(interval, NoInterval):
        return f"none: {interval.reason}"
    return numbers.percent_range(interval.low, interval.high)


def _chart(content: PageContent) -> Markup:
    names = {figures.group.label: place for place, figures in enumerate(content.figures.groups)}
    return element(
        "figure",
        interval_chart("Accuracy by category", list(_bands(content))),
        legend(names) if len(names) > 1 else None,
        element("figcaption", "Dots are accuracies, whiskers their 95 % intervals."),
    )


def _side_by_side(content: PageContent) -> Markup:
    """Every category with the accuracy of each condition, its interval and its denominator."""
    groups = content.figures.groups
    rows = [
        TableRow(label, tuple(_rate(figures.score.row(label)) for figures in groups), label == TOTAL)
        for label in _labels(content)
    ]
    columns = ["category", *(figures.group.label for figures in groups)]
    return table("Accuracy by category", columns, rows)


def _labels(content: PageContent) -> tuple[str, ...]:
    total = (TOTAL,) if content.figures.provenance.publishes_total else ()
    return (*content.figures.categories, *total)


def _rate(row: ScoreRow | None) -> Markup | str:
    if row is None or row.accuracy is None:
        return numbers.NOTHING
    details = (_short_text(row.interval), f"{row.correct:,} of {row.judged:,}")
    return together(numbers.percent(row.accuracy), (element("small", detail) for detail in details))


def _accuracy_table(content: PageContent, figures: GroupFigures) -> Markup:
    columns = [
        "category",
        "accuracy",
        "right / judged",
        "95 % interval",
        "by history",
        "selected",
        "token F1",
    ]
    rows = [_accuracy_row(row) for row in figures.score.rows]
    if content.figures.provenance.publishes_total:
        rows.append(_accuracy_row(figures.score.total, is_total=True))
    rows.extend(_undisputed(content, figures.score))
    return table(f"In full: {figures.group.label}", columns, rows)


def _accuracy_row(row: ScoreRow, is_total: bool = False) -> TableRow:
    return TableRow(
        row.label,
        (
            numbers.percent(row.accuracy),
            f"{row.correct:,} / {row.judged:,}",
            _short(row.interval),
            _short(row.by_cluster),
            f"{row.selected:,}",
            numbers.percent(row.f1),
        ),
        is_total,
    )


def _short(interval: Interval | NoInterval) -> Markup | str:
    if isinstance(interval, NoInterval):
        return element("abbr", numbers.NOTHING, title=interval.reason)
    return _short_text(interval)


def _short_text(interval: Interval | NoInterval) -> str:
    if isinstance(interval, NoInterval):
        return numbers.NOTHING
    return numbers.percent_range(interval.low, interval.high)


def _undisputed(content: PageContent, score: ScoreTable) -> Iterable[TableRow]:
    """The total without the golds that a published list disputes."""
    row = undisputed_row(score, content.disputed)
    if row is not None and content.figures.provenance.publishes_total:
        yield _accuracy_row(row)


def _bands(content: PageContent) -> Iterable[Band]:
    for label in _labels(content):
        found = [(figures, figures.score.row(label)) for figures in content.figures.groups]
        yield Band(label, tuple(_chart_bar(place, g, row) for place, (g, row) in enumerate(found)))


def _chart_bar(place: int, figures: GroupFigures, row: ScoreRow | None) -> Bar:
    name = figures.group.label
    if row is None:
        return Bar(place, name, None, None, None, "(not selected)")
    interval = row.interval if isinstance(row.interval, Interval) else None
    return Bar(
        place,
        name,
        row.accuracy,
        interval.low if interval else None,
        interval.high if interval else None,
        f"({row.correct:,}/{row.judged:,})",
    )


def _without_verdict(row: ScoreRow) -> dict[str, int]:
    judging = zip(STATES_WITHOUT_VERDICT, (row.unparsed, row.judge_errors, row.unjudged), strict=True)
    return {**row.not_answered, **{state: count for state, count in judging if count}}


def _official(groups: Sequence[GroupFigures]) -> Markup | None:
    """LongMemEval's own figures, where it is that benchmark."""
    known = [(g.group.label, g.official) for g in groups if g.official is not None]
    if not known:
        return None
    rows = [
        TableRow("task-averaged", tuple(_printed(official.task_averaged) for _, official in known)),
        TableRow("overall", tuple(_printed(official.overall) for _, official in known)),
        TableRow("abstention", tuple(_printed(official.abstention) for _, official in known)),
    ]
    columns = ["figure", *(name for name, _ in known)]
    return table("As LongMemEval's own script prints them: what is unanswered counts as wrong", columns, rows)


def _printed(mean: Mean) -> str:
    return numbers.NOTHING if mean.printed is None else f"{mean.printed:.4f} ({mean.n:,})"


def _spread(content: PageContent) -> Markup | None:
    """How total accuracy varies between the repeats of a condition."""
    rows = [
        TableRow(
            condition.condition,
            (
                condition.spread.n,
                numbers.percent(condition.spread.median),
                numbers.percent_range(condition.spread.minimum, condition.spread.maximum),
                _deviation(condition.spread.deviation),
            ),
        )
        for condition in content.figures.conditions
        if condition.spread is not None
    ]
    columns = ["condition", "repeats", "median", "lowest to highest", "standard deviation"]
    return table("Between repeats", columns, rows) if rows else None


def _deviation(deviation: float | None) -> str:
    return "fewer than three repeats" if deviation is None else f"{100 * deviation:.1f} points"
