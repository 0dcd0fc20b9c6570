"""What a run would take, before anything is run.

Formations, sessions, questions and the tokens of histories are counted. Calls and tokens of models cannot be
known before a run: they are estimated, see `estimating`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_dshmem.experiment.condition import CONDITIONS, Condition
from pytest_dshmem.experiment.estimating import (
    Averages,
    Phase,
    Spending,
    assumed_consolidation,
    assumed_ingestion,
    assumed_question,
    assumed_verdict,
    total,
)
from pytest_dshmem.experiment.history_sizes import HistorySize
from pytest_dshmem.experiment.settings import Settings


@dataclass(frozen=True, slots=True)
class PlannedQuestion:
    """One question to be asked. `shown_tokens` is the history that its condition puts into the prompt."""

    sample_id: str
    condition: str
    repeat: int = 1
    shown_tokens: int = 0


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """One phase of one condition. `units` are sessions or questions.

    `most_calls` is what the limits allow without a unit that fails and is tried again; None where no limit
    of ours holds.
    """

    phase: Phase
    units: int
    spending: Spending
    measured: bool
    most_calls: int | None


@dataclass(frozen=True, slots=True)
class ConditionPlan:
    """One condition with all its repeats. `overflowing` questions do not fit the model and are not asked."""

    condition: str
    formations: int
    sessions: int
    questions: int
    overflowing: int
    phases: tuple[PhasePlan, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a selection would take. The histories are those of its samples, each counted once."""

    histories: int
    history_sessions: int
    history_tokens: int
    conditions: tuple[ConditionPlan, ...]

    @property
    def phases(self) -> tuple[PhasePlan, ...]:
        return tuple(phase for condition in self.conditions for phase in condition.phases)


def plan_of(
    questions: Sequence[PlannedQuestion],
    sizes: Mapping[str, HistorySize],
    settings: Settings,
    averages: Averages,
    *,
    judged: bool,
) -> Plan:
    """Adds up what these questions, and the formations that they need, would take.

    `sizes` holds the history of every sample among the questions, `averages` what an earlier run measured.
    """
    samples = dict.fromkeys(question.sample_id for question in questions)
    by_condition: dict[str, list[PlannedQuestion]] = {}
    for question in questions:
        by_condition.setdefault(question.condition, []).append(question)
    return Plan(
        histories=len(samples),
        history_sessions=sum(len(sizes[sample].sessions) for sample in samples),
        history_tokens=sum(sizes[sample].tokens for sample in samples),
        conditions=tuple(
            _condition_plan(CONDITIONS[name], asked, sizes, settings, averages, judged)
            for name, asked in by_condition.items()
        ),
    )


def _condition_plan(
    condition: Condition,
    questions: Sequence[PlannedQuestion],
    sizes: Mapping[str, HistorySize],
    settings: Settings,
    averages: Averages,
    judged: bool,
) -> ConditionPlan:
    formed = {(question.sample_id, question.repeat) for question in questions if condition.forms_memory}
    histories = [sizes[sample] for sample, _ in formed]
    fitting = [question for question in questions if question.shown_tokens <= settings.limits.context_window]
    phases = [
        *_forming(condition, histories, settings),
        *_asking(condition, fitting, settings),
        *([PhasePlan("judge", len(fitting), assumed_verdict().times(len(fitting)), False, None)] * judged),
    ]
    return ConditionPlan(
        condition=condition.name,
        formations=len(histories),
        sessions=sum(len(history.sessions) for history in histories),
        questions=len(questions),
        overflowing=len(questions) - len(fitting),
        phases=tuple(_as_measured(phase, condition, averages) for phase in phases if phase.units),
    )


def _forming(
    condition: Condition, histories: Sequence[HistorySize], settings: Settings
) -> Iterator[PhasePlan]:
    """The phases that form memories. Estimates grow with a session's tokens, so they are added one by one."""
    sessions = [tokens for history in histories for tokens in history.sessions]
    reading = [assumed_ingestion(settings.ingestion, tokens) for tokens in sessions]
    most = 0 if settings.ingestion == "replay" else settings.limits.ingest_steps * len(sessions)
    if sessions:
        yield PhasePlan("ingestion", len(sessions), total(reading), False, most)
    if sessions and condition.consolidates:
        consolidating = total(assumed_consolidation(tokens) for tokens in sessions)
        yield PhasePlan("consolidation", len(sessions), consolidating, False, None)


def _asking(
    condition: Condition, questions: Sequence[PlannedQuestion], settings: Settings
) -> Iterator[PhasePlan]:
    if questions:
        spending = total(assumed_question(condition, question.shown_tokens) for question in questions)
        most = settings.limits.question_steps * len(questions)
        yield PhasePlan("qa", len(questions), spending, False, most)


def _as_measured(phase: PhasePlan, condition: Condition, averages: Averages) -> PhasePlan:
    average = averages.get((condition.name, phase.phase))
    if average is None:
        return phase
    return PhasePlan(phase.phase, phase.units, average.times(phase.units), True, phase.most_calls)
