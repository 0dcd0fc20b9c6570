"""Accuracy in the terminal: conditions side by side, and each by itself with all that is beside it."""

from collections.abc import Iterable, Sequence

from pytest_dshmem.experiment.judging.official_metrics import Mean, OfficialMetrics
from pytest_dshmem.experiment.scoring import ScoreRow
from pytest_dshmem.experiment.statistics import Interval, NoInterval
from pytest_dshmem.report.figures import ConditionFigures, GroupFigures, RunFigures
from pytest_dshmem.report.lines import WIDTH, Line, Row, entry, table, table_width
from pytest_dshmem.report.numbers import NOTHING, percent, percent_range, plural
from pytest_dshmem.report.reading import MISSING

TOTAL = "total"
READING_AID = "accuracy is correct / judged; what failed, is missing or has no verdict is not in it"


def side_by_side(figures: RunFigures) -> list[Line]:
    """Accuracy by category, a column for each condition and repeat; where they do not fit, several tables."""
    lines: list[Line] = []
    waiting = list(figures.groups)
    while waiting:
        count = len(waiting)
        while count > 1 and table_width(_columns(figures, waiting[:count])) > WIDTH:
            count -= 1
        if lines:
            lines.append(Line(""))
        lines += table(_columns(figures, waiting[:count]))
        waiting = waiting[count:]
    return lines


def accuracy_section(group: GroupFigures, publishes_total: bool) -> list[Line]:
    """One condition in one repeat: accuracy with interval and counts, of every category and in total."""
    total = group.score.total
    header = Row(("", "accuracy", "correct", "95 % interval", "answered", "failed", "missing"), "dim")
    rows = [header, *(_score_row(row, published=True) for row in group.score.rows)]
    rows.append(_score_row(total, publishes_total))
    lines = table(rows)
    if publishes_total:
        lines += _what_it_shows(group)
    else:
        lines += entry("no total", "a smoke run shows that all works, and asks too little for a total", "dim")
    if group.official is not None and publishes_total:
        lines += _official(group.official)
    return [*lines, *_token_f1(total), *_not_answered(total), *_not_judged(total)]


def spread_lines(condition: ConditionFigures) -> list[Line]:
    """How total accuracy varies between repeats; fewer than three make no trend."""
    spread = condition.spread
    if spread is None:
        return []
    text = (
        f"median {percent(spread.median)}, {percent(spread.minimum)} to {percent(spread.maximum)} "
        f"in {plural(spread.n, 'repeat')}"
    )
    deviation = (
        "" if spread.deviation is None else f", standard deviation {100 * spread.deviation:.1f} points"
    )
    return entry("repeats", text + (deviation or "; fewer than three make no trend"))


def _columns(figures: RunFigures, groups: Sequence[GroupFigures]) -> list[Row]:
    by_category = [{row.label: row for row in group.score.rows} for group in groups]
    rows = [Row(("", *(group.group.label for group in groups)), "dim")]
    for category in figures.categories:
        rows.append(Row((category, *(_right_of(rows.get(category)) for rows in by_category))))
    if figures.provenance.publishes_total:
        rows.append(Row((TOTAL, *(_right_of(group.score.total) for group in groups)), "heading"))
        rows.append(
            Row(("95 % interval", *(_interval(group.score.total.interval) for group in groups)), "dim")
        )
    rows.append(Row(("not answered", *(_missing_of(group.score.total) for group in groups)), "dim"))
    return rows


def _right_of(row: ScoreRow | None) -> str:
    return NOTHING if row is None else f"{percent(row.accuracy)} ({row.correct:,}/{row.judged:,})"


def _missing_of(row: ScoreRow) -> str:
    return f"{row.selected - row.answered:,} of {row.selected:,}"


def _score_row(row: ScoreRow, published: bool) -> Row:
    missing = row.not_answered.get(MISSING, 0)
    return Row(
        (
            row.label,
            percent(row.accuracy) if published else NOTHING,
            f"{row.correct:,}/{row.judged:,}",
            _interval(row.interval) if published else NOTHING,
            f"{row.answered:,}",
            f"{row.selected - row.answered - missing:,}",
            f"{missing:,}",
        ),
        "heading" if row.label == TOTAL else "plain",
    )


def _interval(interval: Interval | NoInterval) -> str:
    return percent_range(interval.low, interval.high) if isinstance(interval, Interval) else NOTHING


def _what_it_shows(group: GroupFigures) -> list[Line]:
    """The interval by sample where samples have several questions, and what so few questions cannot show."""
    total = group.score.total
    samples = {item.selected.sample_id for item in group.score.items}
    lines: list[Line] = []
    if len(samples) < total.selected:
        by_sample = total.by_cluster
        told = (
            f"95 % interval {_interval(by_sample)} ({by_sample.method})"
            if isinstance(by_sample, Interval)
            else f"no interval: {by_sample.reason}"
        )
        lines += entry("by sample", told, "dim")
    if isinstance(total.interval, Interval):
        half = 50 * (total.interval.high - total.interval.low)
        text = (
            f"{plural(total.judged, 'question')} tell this accuracy to about ±{half:.1f} points and no closer"
        )
        lines += entry("precision", text, "dim")
    return lines


def _official(official: OfficialMetrics) -> list[Line]:
    def told(name: str, mean: Mean) -> str:
        return f"{name} {NOTHING if mean.printed is None else f'{mean.printed:.4f}'}"

    text = ", ".join(
        (
            told("task-averaged", official.task_averaged),
            told("overall", official.overall),
            f"{told('abstention', official.abstention)} ({official.abstention.n})",
        )
    )
    return entry("as official", f"{text}; unanswered counts as wrong there", "dim")


def _token_f1(total: ScoreRow) -> list[Line]:
    if total.f1 is None:
        return []
    return entry("token F1", f"{total.f1:.3f} over {total.answered:,} answered (auxiliary)", "dim")


def _not_answered(total: ScoreRow) -> list[Line]:
    missing = total.selected - total.answered
    if not missing:
        return []
    return entry("not answered", f"{missing:,}: {_counted(total.not_answered.items())}", "bad")


def _not_judged(total: ScoreRow) -> list[Line]:
    counts = (
        ("unreadable", total.unparsed),
        ("judge failed", total.judge_errors),
        ("not judged yet", total.unjudged),
    )
    found = [(name, count) for name, count in counts if count]
    return entry("no verdict", f"{_counted(found)}; not in the accuracy", "warning") if found else []


def _counted(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts)
