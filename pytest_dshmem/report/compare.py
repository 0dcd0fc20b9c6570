"""Comparison of runs, or of conditions within a run, question by question on the same questions.

What may differ is what is being compared: the memory system, its version, the condition, the model. What must
not differ is what the questions are and how they are judged; where it does, the comparison is refused and the
differences are named.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_dshmem.experiment.statistics import Pair, PairedComparison, compare_pairs
from pytest_dshmem.record.entries import Selected
from pytest_dshmem.record.fingerprint import FieldValue
from pytest_dshmem.report.reading import Group, RunReading

MUST_AGREE = ("benchmark", "data.", "ingestion.", "limits.", "prompts.")
PROTOCOL = "judge protocol"
JUDGE_MODEL = "judge model"
SELECTION = "selection"


class CompareError(Exception):
    """Runs that cannot be compared: why, and what to do, in one sentence."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One side of a comparison: a run narrowed to one condition and repeat."""

    label: str
    group: Group
    reading: RunReading

    @property
    def questions(self) -> dict[str, Selected]:
        return {chosen.key.question_id: chosen for chosen in self.reading.selected}

    @property
    def verdicts(self) -> dict[str, bool]:
        """Right or wrong by question id, of what was answered and judged."""
        return {
            question: verdict.correct
            for question, chosen in self.questions.items()
            if self.reading.state_of(chosen) == "answered"
            and (verdict := self.reading.verdicts.get(chosen.key)) is not None
            and verdict.state == "judged"
            and verdict.correct is not None
        }


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that is not the same in all units, with its value in each."""

    field: str
    values: tuple[FieldValue, ...]

    def __str__(self) -> str:
        return (
            f"{self.field} ({' / '.join('none' if value is None else str(value) for value in self.values)})"
        )


@dataclass(frozen=True, slots=True)
class Change:
    """A question that one side has right and the other wrong."""

    question_id: str
    sample_id: str
    category: str
    first: bool
    second: bool


@dataclass(frozen=True, slots=True)
class Paired:
    """Two units on the questions judged in both. `unpaired` counts those selected but not judged in both."""

    first: Unit
    second: Unit
    total: PairedComparison
    by_category: Mapping[str, PairedComparison]
    changes: tuple[Change, ...]
    unpaired: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Units side by side. `compared` may differ; `overridden` must not, and was allowed by force."""

    units: tuple[Unit, ...]
    compared: tuple[Difference, ...]
    overridden: tuple[Difference, ...]
    pairs: tuple[Paired, ...]


def compare_runs(
    readings: Sequence[RunReading], condition: str | None = None, force: bool = False
) -> tuple[Comparison, ...]:
    """Compares runs with each other, or the conditions of a single run.

    Where several runs share conditions there is one comparison for each shared condition and repeat, else one
    for all that there is. Raises CompareError where there is nothing to compare with, or where something must
    agree and does not, unless `force` is set.
    """
    units = units_of(readings, condition)
    by_group: defaultdict[Group, list[Unit]] = defaultdict(list)
    for unit in units:
        by_group[unit.group].append(unit)
    shared = [members for members in by_group.values() if len(members) == len(readings) > 1]
    return tuple(compare(members, force) for members in shared or [list(units)])


def units_of(readings: Sequence[RunReading], condition: str | None = None) -> tuple[Unit, ...]:
    """Every condition and repeat of every run, in order, each with a label that tells it from the others."""
    return tuple(
        Unit(_label(name, group), group, reading.of(group))
        for name, reading in zip(_run_names(readings), readings, strict=True)
        for group in reading.groups
        if condition in (None, group.condition)
    )


def compare(units: Sequence[Unit], force: bool = False) -> Comparison:
    """Compares every unit with the first, on the questions that both judged."""
    if len(units) < 2:
        raise CompareError(
            "there is only one condition to look at and nothing to compare it with: name another run"
        )
    differing = differences_between(units)
    blocking = tuple(difference for difference in differing if must_agree(difference.field))
    if blocking and not force:
        raise CompareError(f"{describe_blocking(blocking)}; --force compares them all the same")
    return Comparison(
        units=tuple(units),
        compared=tuple(difference for difference in differing if difference not in blocking),
        overridden=blocking,
        pairs=tuple(pair_up(units[0], other) for other in units[1:]),
    )


def describe_blocking(blocking: Sequence[Difference]) -> str:
    """Why units cannot be compared, in words."""
    verb = "differs" if len(blocking) == 1 else "differ"
    return f"these are not measurements of the same thing: {'; '.join(map(str, blocking))} {verb}"


def differences_between(units: Sequence[Unit]) -> tuple[Difference, ...]:
    """Every field in which the units are not all alike, settings and judging."""
    described = [describe(unit) for unit in units]
    fields = sorted({field for fields in described for field in fields})
    rows = [Difference(field, tuple(fields.get(field) for fields in described)) for field in fields]
    return tuple(row for row in rows if len(set(row.values)) > 1)


def describe(unit: Unit) -> dict[str, FieldValue]:
    """What a unit's figures depend on: its run's settings, its condition, its questions and its judge."""
    reading = unit.reading
    judges = sorted({call.model for verdict in reading.verdicts.values() for call in verdict.calls})
    return {
        **reading.manifest.settings,
        "condition": unit.group.condition,
        PROTOCOL: reading.protocol,
        JUDGE_MODEL: ", ".join(judges) or None,
        SELECTION: _describe_selection(unit),
    }


def must_agree(field: str) -> bool:
    """Whether two units that differ in this field are measurements of different things."""
    return field in (PROTOCOL, JUDGE_MODEL, SELECTION) or field.startswith(MUST_AGREE)


def pair_up(first: Unit, second: Unit) -> Paired:
    """Pairs the questions that were judged in both units."""
    before, after = first.verdicts, second.verdicts
    questions = first.questions
    both = [question for question in questions if question in before and question in after]

    def compared(category: str | None) -> PairedComparison:
        return compare_pairs(
            Pair(before[question], after[question], questions[question].sample_id)
            for question in both
            if category in (None, questions[question].category)
        )

    return Paired(
        first=first,
        second=second,
        total=compared(None),
        by_category={category: compared(category) for category in first.reading.categories},
        changes=tuple(
            Change(
                question,
                questions[question].sample_id,
                questions[question].category,
                before[question],
                after[question],
            )
            for question in both
            if before[question] != after[question]
        ),
        unpaired=len(questions.keys() | second.questions.keys()) - len(both),
    )


def _describe_selection(unit: Unit) -> str:
    ids = sorted(unit.questions)
    return f"{len(ids)} questions, {hashlib.sha256(chr(10).join(ids).encode()).hexdigest()[:8]}"


def _run_names(readings: Sequence[RunReading]) -> list[str]:
    """The shortest names that tell the runs apart; none is needed for a single one."""
    if len(readings) == 1:
        return [""]
    names = [reading.path.name for reading in readings]
    often = Counter(names)
    return [
        name if often[name] == 1 else str(reading.path) for name, reading in zip(names, readings, strict=True)
    ]


def _label(run: str, group: Group) -> str:
    return f"{run} {group.label}" if run else group.label
