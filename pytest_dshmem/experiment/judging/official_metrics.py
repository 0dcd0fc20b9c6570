"""The figures of LongMemEval's `print_qa_metrics.py`, to the digit that it prints."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

OFFICIAL_TYPES = (
    "single-session-user",
    "single-session-preference",
    "single-session-assistant",
    "multi-session",
    "temporal-reasoning",
    "knowledge-update",
)


@dataclass(frozen=True, slots=True)
class Label:
    """One line of an evaluation log, with what the reference says of its question."""

    category: str
    abstention: bool
    correct: bool


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over n lines, None where n is 0 (the official script prints nan there)."""

    value: float | None
    n: int

    @property
    def printed(self) -> float | None:
        return None if self.value is None else rounded(self.value)


@dataclass(frozen=True, slots=True)
class OfficialMetrics:
    """Every figure counts all lines of the log, so an unanswered question counts as not correct.

    `task_averaged` is the plain mean of the six types and None while one of them has no line.
    """

    by_type: Mapping[str, Mean]
    task_averaged: Mean
    overall: Mean
    abstention: Mean


def official_metrics(labels: Iterable[Label]) -> OfficialMetrics:
    """The official figures of one log. Raises KeyError for a type that LongMemEval does not have."""
    labels = tuple(labels)
    by_type: dict[str, list[bool]] = {name: [] for name in OFFICIAL_TYPES}
    for label in labels:
        by_type[label.category].append(label.correct)
    means = {name: _mean(values) for name, values in by_type.items()}
    values = [mean.value for mean in means.values() if mean.value is not None]
    complete = len(values) == len(OFFICIAL_TYPES)
    return OfficialMetrics(
        by_type=means,
        task_averaged=_mean(values) if complete else Mean(None, len(values)),
        overall=_mean([label.correct for label in labels]),
        abstention=_mean([label.correct for label in labels if label.abstention]),
    )


def rounded(value: float) -> float:
    """Four digits as numpy rounds them: the scaled value to the nearest whole, ties to even.

    Python's own round looks at the exact binary value and differs for means such as 1/160.
    """
    return round(value * 10_000) / 10_000


def _mean(values: Sequence[float]) -> Mean:
    total = 0.0
    for value in values:
        # Plain addition as numpy does it: sum() compensates from Python 3.12 on, the last bit may differ.
        total += value
    return Mean(total / len(values) if values else None, len(values))
