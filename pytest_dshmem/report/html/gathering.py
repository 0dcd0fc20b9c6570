"""Gathers what a report page shows from a run's records."""

from collections.abc import Sequence

from pytest_dshmem.report.compare import Comparison
from pytest_dshmem.report.comparison_figures import comparison_figures
from pytest_dshmem.report.diagnosis import read_diagnosis
from pytest_dshmem.report.figures import question_figures, run_figures
from pytest_dshmem.report.html.content import PageContent
from pytest_dshmem.report.prices import Prices
from pytest_dshmem.report.reading import RunReading
from pytest_dshmem.report.seal import seal_hash


def page_content(
    reading: RunReading,
    *,
    prices: Prices | None = None,
    comparisons: Sequence[Comparison] = (),
    disputed: frozenset[str] = frozenset(),
    texts: bool = True,
) -> PageContent:
    """The content of a run's page, with the diagnosis kept in the run, if any. Raises RecordError."""
    return PageContent(
        figures=run_figures(reading, prices),
        questions={group: question_figures(reading, group, prices) for group in reading.groups},
        diagnoses=read_diagnosis(reading.path),
        comparisons=tuple(comparison_figures(comparison, prices) for comparison in comparisons),
        disputed=disputed,
        seal=seal_hash(reading.path),
        texts=texts,
    )
