"""The summary in the terminal, as lines of at most 80 columns."""

import datetime

from pytest_dshmem.report.accuracy_lines import (
    READING_AID,
    accuracy_section,
    side_by_side,
    spread_lines,
)
from pytest_dshmem.report.cost_lines import cost_section
from pytest_dshmem.report.figures import ConditionFigures, RunFigures, run_figures
from pytest_dshmem.report.lines import BLANK, WIDTH, Line, entry, heading, paragraph
from pytest_dshmem.report.memory_lines import memory_section
from pytest_dshmem.report.numbers import plural
from pytest_dshmem.report.prices import Prices
from pytest_dshmem.report.provenance import Provenance
from pytest_dshmem.report.reading import RunReading

__all__ = ["WIDTH", "Line", "summary", "summary_lines"]


def summary(reading: RunReading, prices: Prices | None = None) -> list[Line]:
    """The summary of a reading."""
    return summary_lines(run_figures(reading, prices))


def summary_lines(figures: RunFigures) -> list[Line]:
    """The summary of figures that are computed already: what was run, accuracy, cost and memory."""
    warnings = [line for text in figures.provenance.warnings for line in paragraph(text, "warning")]
    lines = [
        heading(f"memory benchmark {figures.provenance.benchmark}"),
        *warnings,
        *_what_was_run(figures),
        BLANK,
    ]
    if len(figures.groups) > 1:
        lines += [heading("accuracy by category"), *side_by_side(figures), BLANK]
    for condition in figures.conditions:
        lines += [*_condition(condition, figures), BLANK]
    if len(figures.conditions) > 1:
        cost = cost_section(figures.ledger, figures.prices, per_question=False)
        lines += [heading("cost of the whole run"), *cost, BLANK]
    return [*lines, *warnings] if warnings else lines[:-1]


def _what_was_run(figures: RunFigures) -> list[Line]:
    source = figures.provenance
    written = datetime.datetime.fromtimestamp(source.created_at, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    entries = (
        ("run", f"{source.run_id} of {written}"),
        ("data", ", ".join(p for p in (source.data_name, _short_hash(source.data_sha256)) if p)),
        ("questions", _questions(source)),
        ("memory", source.memory_system),
        ("model", source.model + (f", ingestion by {source.ingestion}" if source.ingestion else "")),
        ("judge", _judge(source)),
    )
    lines = [line for label, text in entries if text for line in entry(label, text)]
    lines += entry("", READING_AID, "dim")
    for name, count in figures.torn.items():
        lines += entry("records", f"{name} has {plural(count, 'line')} that a crash cut short", "warning")
    return lines


def _questions(source: Provenance) -> str:
    parts = [f"selection {source.selection}"] if source.selection else []
    return ", ".join([*parts, f"split {source.split}"] if source.split else parts)


def _judge(source: Provenance) -> str:
    if not source.judge_protocol:
        return "nothing is judged yet"
    models = f" by {', '.join(source.judge_models)}" if source.judge_models else ""
    return source.judge_protocol + models


def _short_hash(sha256: str) -> str:
    return f"sha256 {sha256[:16]}" if sha256 else ""


def _condition(condition: ConditionFigures, figures: RunFigures) -> list[Line]:
    lines: list[Line] = []
    for group in condition.groups:
        lines += [BLANK] if lines else []
        lines += [heading(group.group.label), *accuracy_section(group, figures.provenance.publishes_total)]
    if figures.provenance.publishes_total:
        lines += spread_lines(condition)
    cost = cost_section(condition.ledger, figures.prices)
    memory = memory_section(condition.memory)
    return [*lines, BLANK, *cost, *([BLANK, *memory] if memory else [])]
