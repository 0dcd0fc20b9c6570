"""`--dshmem-plan`: what the collected questions would take. Nothing is opened, started or asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_dshmem.face.collection import QuestionCase

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_dshmem.experiment.estimating import Averages
    from pytest_dshmem.experiment.history_sizes import HistorySize, Progress
    from pytest_dshmem.experiment.planning import PlannedQuestion
    from pytest_dshmem.face.workbench import Workbench
    from pytest_dshmem.record.fingerprint import FieldValue
    from pytest_dshmem.report.lines import Line

MANIFEST = "run.json"
FREE_TO_DIFFER = frozenset({"selection", "split"})
"""Settings that say which questions are asked: a small run measures averages for a large one."""


def lines_of_plan(bench: Workbench, chosen: Sequence[QuestionCase], on_progress: Progress) -> list[Line]:
    """The plan for some questions of one benchmark, as lines to print."""
    from pytest_dshmem.datasets.cache import cache_folder
    from pytest_dshmem.experiment.history_sizes import history_sizes
    from pytest_dshmem.experiment.planning import plan_of
    from pytest_dshmem.experiment.tokenizer import find_tokenizer
    from pytest_dshmem.report.plan_lines import PlanContext, plan_lines

    bench.accept(chosen)
    tokenizer, benchmark = find_tokenizer(), bench.benchmark
    measured_in, averages, notes = _measured(bench)
    sizes = history_sizes(
        benchmark,
        (case.formation.sample_id for case in chosen),
        tokenizer,
        cache_folder(os.environ),
        on_progress,
    )
    judged = not bench.options.no_judge
    plan = plan_of(
        [_planned(bench, case, sizes) for case in chosen],
        sizes,
        bench.planned_settings,
        averages,
        judged=judged,
    )
    context = PlanContext(
        benchmark=benchmark.name,
        data=benchmark.file.name,
        tokenizer=tokenizer.name,
        model=bench.planned_settings.model,
        judge=bench.named_judge.model_in(os.environ) if judged else None,
        prices=bench.prices,
        measured_in=measured_in,
        notes=notes,
    )
    return plan_lines(plan, context)


def _planned(bench: Workbench, case: QuestionCase, sizes: Mapping[str, HistorySize]) -> PlannedQuestion:
    from pytest_dshmem.experiment.assembly import shown_sessions
    from pytest_dshmem.experiment.planning import PlannedQuestion

    formation = case.formation
    counts = sizes[formation.sample_id].sessions
    shown = shown_sessions(bench.benchmark, case.question_id, formation.condition, len(counts))
    return PlannedQuestion(
        sample_id=formation.sample_id,
        condition=formation.condition.name,
        repeat=formation.repeat,
        shown_tokens=sum(counts[number - 1] for number in shown),
    )


def _measured(bench: Workbench) -> tuple[str, Averages, tuple[str, ...]]:
    """The run whose averages serve the plan, its averages, and what to say of a run that does not serve."""
    from pytest_dshmem.record.fingerprint import describe_differences
    from pytest_dshmem.report.measured import measured_averages
    from pytest_dshmem.report.reading import read_run

    named = bench.options.plan_from
    given = named or bench.options.run
    if given is None:
        return "", {}, ()
    # Several benchmarks in one session have a run each, below the folder that was named.
    path = next((place for place in (given / bench.name, given) if (place / MANIFEST).is_file()), given)
    if named is None and not (path / MANIFEST).is_file():
        return "", {}, ()
    reading = read_run(path)
    changed = _differences(bench, path)
    if not changed:
        return f"run {reading.manifest.run_id} in {path}", measured_averages(reading), ()
    problem = f"{path} was made with other settings: {describe_differences(changed)}"
    if named is not None:
        raise pytest.UsageError(f"--dshmem-plan-from: {problem}; its averages do not hold for this plan")
    return "", {}, (f"{problem}; its averages were not used, and a run in it will be refused",)


def _differences(bench: Workbench, path: Path) -> list[tuple[str, FieldValue, FieldValue]]:
    from pytest_dshmem.record.fingerprint import differences
    from pytest_dshmem.record.run_directory import RunDirectory

    recorded = RunDirectory.open(path).manifest.settings
    found = differences(recorded, bench.fields(bench.planned_settings))
    return [difference for difference in found if difference[0] not in FREE_TO_DIFFER]
