"""What a report page shows: the figures, and what else is known of the run."""

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_dshmem.record.entries import QuestionKey
from pytest_dshmem.report.comparison_figures import ComparisonFigures
from pytest_dshmem.report.diagnosis import Diagnosis
from pytest_dshmem.report.figures import QuestionFigures, RunFigures
from pytest_dshmem.report.reading import Group


@dataclass(frozen=True, slots=True)
class PageContent:
    """`diagnoses` is None where nobody diagnosed; `seal` is the hash of the run's seal where it has one.

    `disputed` are the ids of questions whose golds a published list disputes. Without `texts` neither
    question nor gold text is shown.
    """

    figures: RunFigures
    questions: Mapping[Group, tuple[QuestionFigures, ...]]
    diagnoses: tuple[Diagnosis, ...] | None = None
    comparisons: tuple[ComparisonFigures, ...] = ()
    disputed: frozenset[str] = frozenset()
    seal: str | None = None
    texts: bool = True

    @property
    def series(self) -> Mapping[str, int]:
        """The place of each condition in the palette."""
        return {figures.condition: place for place, figures in enumerate(self.figures.conditions)}


def group_of(key: QuestionKey) -> Group:
    """The group that a question belongs to."""
    return Group(key.condition, key.repeat)
