"""The history of runs as text for a terminal of 80 columns."""

import datetime

from pytest_dshmem.experiment.statistics import Interval, PairedComparison
from pytest_dshmem.report import numbers
from pytest_dshmem.report.comparison_text import p_value
from pytest_dshmem.report.history import History, Occasion, Series
from pytest_dshmem.report.lines import BLANK, Line, Row, heading, paragraph, table
from pytest_dshmem.report.provenance import provenance


def history_lines(found: History) -> list[Line]:
    """A table for each configuration, its runs oldest first, and what could not be read."""
    lines: list[Line] = []
    for series in found.series:
        lines += [*_series(series), BLANK]
    for reason in found.unreadable:
        lines += paragraph(reason, "warning")
    if not found.series and not found.unreadable:
        lines += paragraph("no runs were found", "warning")
    return lines


def _series(series: Series) -> list[Line]:
    configuration, first = series.configuration, series.occasions[0]
    source = provenance(first.unit.reading)
    title = " ".join(part for part in (source.benchmark, configuration.group.label) if part)
    described = ", ".join(
        part
        for part in (
            source.memory_system,
            source.model,
            numbers.plural(len(configuration.questions), "question"),
            f"judged by {configuration.protocol}" if configuration.protocol else "not judged",
            f"configuration {configuration.fingerprint}",
        )
        if part
    )
    columns = ("run", "started (UTC)", "accuracy", "right/judged", "95 % interval", "against first")
    rows = [Row(columns, "dim"), *(Row(_cells(occasion)) for occasion in series.occasions)]
    lines = [heading(title), *paragraph(described, "dim", indent=2), *table(rows)]
    for warning in source.warnings:
        lines += paragraph(warning, "warning", indent=2)
    return [*lines, *_drift(series)]


def _cells(occasion: Occasion) -> tuple[str, ...]:
    started = datetime.datetime.fromtimestamp(occasion.created_at, datetime.UTC)
    interval = occasion.interval
    shown = (
        numbers.percent_range(interval.low, interval.high)
        if isinstance(interval, Interval)
        else numbers.NOTHING
    )
    return (
        occasion.path.name,
        started.strftime("%Y-%m-%d %H:%M"),
        numbers.percent(occasion.accuracy),
        f"{occasion.right:,}/{occasion.judged:,}",
        shown,
        numbers.NOTHING if occasion.drift is None else _against(occasion.drift),
    )


def _against(drift: PairedComparison) -> str:
    if drift.difference is None:
        return "no pairs"
    return f"{100 * drift.difference:+.1f} (p {p_value(drift.p_value)})"


def _drift(series: Series) -> list[Line]:
    known = [o.accuracy for o in series.occasions if o.accuracy is not None]
    if len(known) < 2:
        return []
    spread = 100 * (max(known) - min(known))
    words = f"{len(known)} runs of one configuration lie {spread:.1f} points apart"
    return paragraph(words if len(known) > 2 else f"{words}; fewer than three make no trend", "dim", indent=2)
