"""An experiment put together: which view of the data goes to whom, and one engine for it all."""

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_dshmem.datasets.views import Benchmark, History
from pytest_dshmem.experiment.asking import Asker
from pytest_dshmem.experiment.condition import Condition
from pytest_dshmem.experiment.engine import Engine, WorkItem
from pytest_dshmem.experiment.formation import FormationMeans, Former
from pytest_dshmem.experiment.pressure import PressureGate
from pytest_dshmem.experiment.runtime_pool import (
    LiveRuntimes,
    RuntimePool,
    runtimes_that_fit,
    runtimes_that_pay,
)
from pytest_dshmem.experiment.salvage import QuestionSalvage
from pytest_dshmem.experiment.settings import Settings
from pytest_dshmem.experiment.tokenizer import find_tokenizer
from pytest_dshmem.harness.sandbox import Sandbox
from pytest_dshmem.record.entries import Call, FormationKey, QuestionKey
from pytest_dshmem.record.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is to be done, with what, and where. `processes` share the work, and this machine's memory."""

    benchmark: Benchmark
    settings: Settings
    run: RunDirectory
    sandbox: Sandbox
    items: Sequence[WorkItem]
    concurrency: int
    processes: int = 1


def work_item(question_id: str, sample_id: str, condition: Condition, repeat: int) -> WorkItem:
    """A question and, where the condition forms a memory, the formation that it needs."""
    formation = FormationKey(sample_id=sample_id, condition=condition.name, repeat=repeat)
    return WorkItem(
        question=QuestionKey(question_id=question_id, condition=condition.name, repeat=repeat),
        sample_id=sample_id,
        formation=formation if condition.forms_memory else None,
    )


def assemble(
    experiment: Experiment, on_calls: Callable[[Sequence[Call]], str | None] = lambda _calls: None
) -> Engine:
    """An engine that is ready to start. Formation is handed histories, asking questions; nobody gets both."""
    settings, concurrency = experiment.settings, experiment.concurrency
    stop, live, gate = threading.Event(), LiveRuntimes(), PressureGate(concurrency)
    pool = RuntimePool(
        experiment.sandbox,
        settings,
        live,
        capacity=runtimes_that_fit(concurrency, experiment.processes),
        homes_a_snapshot=runtimes_that_pay(experiment.processes),
    )
    means = FormationMeans(experiment.run, experiment.sandbox, settings, stop, live, gate)
    former = Former(means, experiment.benchmark.history)
    asker = Asker(
        settings,
        experiment.benchmark.question,
        lambda question_id, condition: context_history(experiment.benchmark, question_id, condition),
        _lazy_token_counter(),
    )
    return Engine(
        experiment.run,
        experiment.items,
        former,
        asker,
        pool,
        live,
        experiment.run.claims(),
        concurrency=concurrency,
        attempts=settings.limits.attempts,
        stop=stop,
        gate=gate,
        on_calls=on_calls,
        left_behind=QuestionSalvage(experiment.run, experiment.sandbox).take,
    )


def context_history(benchmark: Benchmark, question_id: str, condition: Condition) -> History:
    """The history that a condition puts into the prompt: all of it, or the evidence sessions only."""
    history = benchmark.history(benchmark.question(question_id).sample_id)
    shown = shown_sessions(benchmark, question_id, condition, len(history.sessions))
    return replace(
        history, sessions=tuple(session for session in history.sessions if session.number in shown)
    )


def shown_sessions(
    benchmark: Benchmark, question_id: str, condition: Condition, count: int
) -> frozenset[int]:
    """The numbers of those sessions, out of a history's `count`, that a condition puts into the prompt."""
    if condition.history == "none":
        return frozenset()
    numbers = frozenset(range(1, count + 1))
    if condition.history == "all":
        return numbers
    return numbers & {place.session for place in benchmark.reference(question_id).evidence}


def _lazy_token_counter() -> Callable[[str], int]:
    """Counts tokens; the vocabulary is loaded when the first text comes."""
    find = functools.cache(find_tokenizer)
    return lambda text: find().count_tokens(text)
