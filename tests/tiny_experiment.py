"""An experiment on the real runtime, small enough for a test: two people, two sittings, three questions.

The model is scripted: it keeps one sentence of every sitting, and answers every question with one sentence.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from memory_home import bundled_system
from scripted_model import Reply, Request, ToolUse

from pytest_dshmem.datasets.views import (
    Benchmark,
    DataFile,
    EvidencePlace,
    History,
    Listing,
    Question,
    Reference,
    Session,
    Turn,
)
from pytest_dshmem.experiment.assembly import Experiment, assemble, work_item
from pytest_dshmem.experiment.condition import CONDITIONS
from pytest_dshmem.experiment.engine import Engine, WorkItem
from pytest_dshmem.experiment.formation import FormationMeans, Former
from pytest_dshmem.experiment.pressure import PressureGate
from pytest_dshmem.experiment.runtime_pool import LiveRuntimes
from pytest_dshmem.experiment.settings import Limits, Settings
from pytest_dshmem.harness.composition import ModelRetries
from pytest_dshmem.harness.endpoint import Endpoint
from pytest_dshmem.harness.memory_system import MemorySystem
from pytest_dshmem.harness.sandbox import Sandbox
from pytest_dshmem.record.entries import FormationKey, Hypothesis
from pytest_dshmem.record.run_directory import RunDirectory

API_KEY = "a-key-that-must-stay-secret"
SAMPLE = "pair-1"
KEPT = {1: "Mira planted a quince tree on 3 May 2023.", 2: "Jonas sold his red kayak on 9 June 2023."}
LIMITS = Limits(ingest_seconds=60.0, question_seconds=30.0, start_seconds=60.0, attempts=2)
RETRIES = ModelRetries(attempts=1, first_delay=0.02, longest_delay=0.1, idle_seconds=30.0)

SITTINGS = (
    Session(
        1,
        datetime(2023, 5, 4, 18, 0),
        "6:00 pm on 4 May, 2023",
        (
            Turn("Jonas", "Anything new in that garden of yours?"),
            Turn("Mira", "Yesterday I put in a quince tree, right where the shed stood.", "a young tree"),
        ),
    ),
    Session(
        2,
        datetime(2023, 6, 10, 9, 30),
        "9:30 am on 10 June, 2023",
        (
            Turn("Mira", "How is the kayak?"),
            Turn("Jonas", "The red one? I let it go yesterday, to a neighbour of my aunt's."),
        ),
    ),
)


class TinyBenchmark:
    """A benchmark of our own invention with the three sealed views."""

    name: str = "locomo"
    categories: tuple[str, ...] = ("single-hop",)
    file: DataFile = DataFile("tiny", "0" * 64, 1, pinned=False, sample_corpus=True)

    _questions = (
        ("q1", "Which tree did Mira plant?", "a quince tree", 1),
        ("q2", "What did Jonas sell?", "his red kayak", 2),
        ("q3", "When did Jonas sell it?", "9 June 2023", 2),
    )

    def listings(self) -> Sequence[Listing]:
        return [Listing(question_id, SAMPLE, "single-hop") for question_id, *_ in self._questions]

    def history(self, sample_id: str) -> History:
        return History(sample_id, "group-chat", ("Mira", "Jonas"), SITTINGS)

    def question(self, question_id: str) -> Question:
        text = next(row[1] for row in self._questions if row[0] == question_id)
        return Question(question_id, SAMPLE, "10 June, 2023", text)

    def reference(self, question_id: str) -> Reference:
        _, _, gold, session = next(row for row in self._questions if row[0] == question_id)
        return Reference(question_id, gold, "single-hop", (EvidencePlace(session, 2),))

    def oddities(self) -> dict[str, int]:
        return {}


def session_in(request: Request) -> int:
    """The number of the sitting that an ingestion is about."""
    return next(
        sitting.number for sitting in SITTINGS if f'<session date="{sitting.date_text}">' in request.user_text
    )


def studious(request: Request) -> Reply:
    """A model that keeps, consolidates and answers, always in the same words."""
    if "memory_update" in request.tools:
        return keep(request)
    if "memory_commit" in request.tools:
        edit = {"scope": "global", "mode": "append", "content": f"Kept: {consolidated(request)}."}
        return Reply(tool_uses=(ToolUse("memory_commit", {"edits": [edit]}),))
    return Reply(text="It was a quince tree.")


def keep(request: Request) -> Reply:
    if request.tool_results:
        return Reply(text="Kept.")
    number = session_in(request)
    edit = {
        "scope": "workspace",
        "name": f"sitting-{number}",
        "description": f"What was said in sitting {number}",
        "mode": "append",
        "content": KEPT[number],
    }
    return Reply(tool_uses=(ToolUse("memory_update", edit),))


def consolidated(request: Request) -> str:
    """A word for the session that a consolidation is about, the same whenever it is the same session."""
    finished = request.user_text.split("<finished_session", 1)[1]
    return next(
        sitting.date_text for sitting in SITTINGS if f'<session date="{sitting.date_text}">' in finished
    )


@dataclass(frozen=True)
class TinyExperiment:
    """One run in a folder of its own. What is opened again continues it."""

    folder: Path
    settings: Settings
    benchmark: Benchmark
    run: RunDirectory
    sandbox: Sandbox

    @classmethod
    def at(
        cls,
        folder: Path,
        url: str,
        *,
        benchmark: Benchmark | None = None,
        system: MemorySystem | None = None,
        limits: Limits = LIMITS,
        model: str = "scripted",
    ) -> "TinyExperiment":
        settings = Settings(
            endpoint=Endpoint(api_key=API_KEY, base_url=url),
            model=model,
            system=system or bundled_system("reference"),
            limits=limits,
            retries=RETRIES,
        )
        run = RunDirectory.create(folder / "run", settings.fields(), {})
        sandbox = Sandbox.for_run(run.manifest.run_id, parent=folder / "boxes")
        return cls(folder, settings, benchmark or TinyBenchmark(), run, sandbox)

    def with_limits(self, **limits: Any) -> "TinyExperiment":
        changed = replace(self.settings.limits, **limits)
        return replace(self, settings=replace(self.settings, limits=changed))

    def former(self, stop: threading.Event | None = None, gate: PressureGate | None = None) -> Former:
        means = FormationMeans(
            self.run,
            self.sandbox,
            self.settings,
            stop or threading.Event(),
            LiveRuntimes(),
            gate or PressureGate(1),
        )
        return Former(means, self.benchmark.history)

    def items(self, *conditions: str) -> list[WorkItem]:
        return [
            work_item(listing.question_id, listing.sample_id, CONDITIONS[condition], 1)
            for condition in conditions
            for listing in self.benchmark.listings()
        ]

    def engine(self, items: Sequence[WorkItem], concurrency: int = 4) -> Engine:
        engine = assemble(
            Experiment(self.benchmark, self.settings, self.run, self.sandbox, items, concurrency)
        )
        engine.start()
        return engine

    def ask(self, *conditions: str, concurrency: int = 4) -> dict[tuple[str, str], Hypothesis]:
        """Every question under these conditions, by condition and question id."""
        items = self.items(*conditions)
        engine = self.engine(items, concurrency)
        try:
            entries = [engine.hypothesis(item.question) for item in items]
        finally:
            engine.finish()
        return {(entry.key.condition, entry.key.question_id): entry for entry in entries}


def formation_key(condition: str = "memory", sample: str = SAMPLE) -> FormationKey:
    return FormationKey(sample_id=sample, condition=condition)


def memory_of_snapshot(experiment: TinyExperiment, key: FormationKey) -> dict[str, str]:
    """The files of a frozen memory by path, folders named after a home's path left out."""
    files = experiment.run.snapshot_folder(key) / "files"
    return {path.name: path.read_text("utf-8") for path in files.rglob("*") if path.is_file()}
