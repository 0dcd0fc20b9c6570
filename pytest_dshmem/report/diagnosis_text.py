"""Diagnosis and disputed golds as text for a terminal of 80 columns."""

from collections.abc import Iterable, Sequence

from pytest_dshmem.report import numbers
from pytest_dshmem.report.comparison_text import rate
from pytest_dshmem.report.diagnosis import MEANING, Diagnosis, count_causes
from pytest_dshmem.report.figures import RunFigures
from pytest_dshmem.report.lines import Line, Row, heading, paragraph, table
from pytest_dshmem.report.overlay import undisputed_row
from pytest_dshmem.report.reading import Group


def diagnosis_lines(diagnoses: Sequence[Diagnosis], categories: Sequence[str]) -> list[Line]:
    """For each condition and repeat the causes by category, and which questions they are.

    Of a condition without memory there is nothing to trace, so it is left out.
    """
    lines: list[Line] = []
    traced = [d for d in diagnoses if d.cause != "no-memory"]
    for group in dict.fromkeys(Group(d.key.condition, d.key.repeat) for d in traced):
        own = [d for d in traced if Group(d.key.condition, d.key.repeat) == group]
        lines += [heading(f"why answers are wrong: {group.label}"), *_counts(own, categories), *_list(own)]
    return lines


def disputed_lines(figures: RunFigures, disputed: frozenset[str]) -> list[Line]:
    """Total accuracy on all and without the disputed golds. Nothing where no total is published."""
    if not figures.provenance.publishes_total:
        return []
    rows = []
    for group in figures.groups:
        without = undisputed_row(group.score, disputed)
        if without is not None:
            rows.append(Row((group.group.label, rate(group.score.total), rate(without), without.label)))
    header = Row(("accuracy", "all", "undisputed", ""), "dim")
    return [heading("disputed golds"), *table([header, *rows])] if rows else []


def _counts(diagnoses: Sequence[Diagnosis], categories: Sequence[str]) -> list[Line]:
    counts = count_causes(diagnoses)
    rows = [Row(("", *counts), "dim")]
    for category in categories:
        rows.append(Row((category, *(f"{found[category]:,}" for found in counts.values()))))
    rows.append(Row(("all", *(f"{found.total():,}" for found in counts.values())), "heading"))
    return table(rows)


def _list(diagnoses: Sequence[Diagnosis]) -> Iterable[Line]:
    for cause in count_causes(diagnoses):
        ids = [d.key.question_id for d in diagnoses if d.cause == cause]
        yield from paragraph(
            f"{cause}, {MEANING[cause]}: {numbers.plural(len(ids), 'question')}", "dim", indent=2
        )
        yield from paragraph(", ".join(ids), indent=4)
