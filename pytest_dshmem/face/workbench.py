"""One benchmark in one pytest session: its data, its run directory and its engine, each made when needed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_dshmem.face.budgeting import budget_of, require_prices, watcher_of
from pytest_dshmem.face.collection import QuestionCase, cases, open_data
from pytest_dshmem.face.options import Options
from pytest_dshmem.offline import names as offline_names

if TYPE_CHECKING:
    from pytest_dshmem.datasets.views import Benchmark
    from pytest_dshmem.experiment.engine import Engine
    from pytest_dshmem.experiment.freezing import Snapshot
    from pytest_dshmem.experiment.judging.choice import JudgeChoice
    from pytest_dshmem.experiment.settings import Settings
    from pytest_dshmem.harness.endpoint import Endpoint
    from pytest_dshmem.record.entries import FormationKey, ReferenceText, Selected
    from pytest_dshmem.record.fingerprint import FieldValue
    from pytest_dshmem.record.run_directory import RunDirectory
    from pytest_dshmem.report.prices import Prices

DEFAULT_MODEL = "deepseek-v4-flash"

SLOWDOWNS = "slowdowns"
"""The fact of a run that counts how often rate limits made the engine do less at once."""


class Workbench:
    """Everything of one benchmark in this process."""

    def __init__(
        self,
        name: str,
        options: Options,
        run_path: Callable[[str], Path],
        offline_url: Callable[[], str],
        processes: int,
    ) -> None:
        self.name = name
        self.options = options
        self._run_path = run_path
        self._offline_url = offline_url
        self._processes = processes
        self._engine: Engine | None = None
        self._prepared: Path | None = None
        self.cases: list[QuestionCase] = []

    @cached_property
    def benchmark(self) -> Benchmark:
        return open_data(self.name, self.options)

    @cached_property
    def all_cases(self) -> list[QuestionCase]:
        return cases(self.benchmark, self.options)

    @cached_property
    def settings(self) -> Settings:
        """The experiment's settings. Raises HarnessError and ProfileError where they cannot be had."""
        return self._settings_at(self._endpoint())

    @cached_property
    def planned_settings(self) -> Settings:
        """The same without a way to a model: no credential is needed, and nothing is started."""
        from pytest_dshmem.harness.endpoint import Endpoint

        return self._settings_at(Endpoint(api_key=""))

    def _settings_at(self, endpoint: Endpoint) -> Settings:
        from pytest_dshmem.bundled import bundled_path
        from pytest_dshmem.experiment.settings import Limits, Settings
        from pytest_dshmem.harness.endpoint import read_source_home
        from pytest_dshmem.harness.memory_system import load_memory_system

        options = self.options
        source = read_source_home(options.source_home) if options.source_home else None
        model = options.model or (source.model if source and source.model else DEFAULT_MODEL)
        return Settings(
            endpoint=endpoint,
            model=offline_names.MODEL if options.offline else model,
            system=load_memory_system(options.memory, bundled_path("memory")),
            ingest_effort=options.ingest_effort,
            question_effort=options.question_effort,
            ingestion="replay" if options.ingestion == "replay" else "transcript",
            limits=Limits(
                ingest_steps=options.ingest_steps,
                ingest_seconds=options.ingest_timeout,
                question_steps=options.question_steps,
                question_seconds=options.question_timeout,
                start_seconds=options.start_timeout,
                attempts=options.attempts,
                context_window=options.context_window,
            ),
        )

    @cached_property
    def judge_choice(self) -> JudgeChoice:
        """The judge that the options ask for. Raises JudgeError where there is no credential for it."""
        options, named = self.options, self.named_judge
        if options.offline:
            named = replace(named, base_url=self._offline_url(), api_key=offline_names.KEY)
        return named.completed(os.environ)

    @cached_property
    def named_judge(self) -> JudgeChoice:
        """The judge as far as the options name it: no credential is needed, and nothing is started."""
        from pytest_dshmem.experiment.judging.choice import JudgeChoice, read_parameters

        options = self.options
        return JudgeChoice(
            model=offline_names.JUDGE if options.offline else options.judge_model,
            base_url=options.judge_base_url,
            prompt=options.judge_prompt,
            official_script=options.official_script,
            parameters=read_parameters(options.judge_parameters),
            concurrency=options.judge_concurrency,
            timeout_seconds=options.judge_timeout,
            offline=options.offline,
        )

    @cached_property
    def prices(self) -> Prices | None:
        """The price file's content. Raises PriceError where it cannot be used."""
        from pytest_dshmem.report.prices import load_prices

        return load_prices(self.options.prices) if self.options.prices else None

    @cached_property
    def disputed(self) -> frozenset[str]:
        """The questions whose golds the overlay disputes. Raises OverlayError where it cannot be used."""
        from pytest_dshmem.report.overlay import load_overlay

        if self.options.overlay is None:
            return frozenset()
        samples = dict.fromkeys(listing.sample_id for listing in self.benchmark.listings())
        return load_overlay(self.options.overlay, list(samples))

    @property
    def injected_files(self) -> tuple[str, ...]:
        """Patterns of memory files that the agent sees without opening them."""
        return self.settings.system.injected

    @cached_property
    def run(self) -> RunDirectory:
        """The run directory, made or continued. Raises RecordError where that cannot be."""
        from pytest_dshmem.record.run_directory import RunDirectory

        return RunDirectory.create(self._run_path(self.name), self.fields(self.settings), self._facts())

    def run_in(self, folder: Path) -> RunDirectory:
        """The run in a folder, whichever process made it. What is read of this process's own stays read."""
        from pytest_dshmem.record.run_directory import RunDirectory

        return self.run if folder == self._prepared else RunDirectory.open(folder)

    def accept(self, chosen: Sequence[QuestionCase]) -> None:
        """Takes the chosen questions, if the memory system can do what their conditions ask of it."""
        self.cases = list(chosen)
        self._require_consolidation()
        self._require_replay()

    def prepare(self, chosen: Sequence[QuestionCase]) -> None:
        """Opens the run for the chosen questions and says so in it. Starts nothing."""
        self.accept(chosen)
        self._require_what_the_run_needs()
        self._prepared = self.run.path
        self.run.select(self._selected())
        if not self.options.without_text:
            self.run.add_references(self.reference_texts())

    @property
    def engine(self) -> Engine:
        """The engine, working; made and started when the first test needs it."""
        if self._engine is None:
            from pytest_dshmem.experiment.assembly import Experiment, assemble, work_item
            from pytest_dshmem.harness.sandbox import Sandbox

            items = [
                work_item(
                    case.question_id,
                    case.formation.sample_id,
                    case.formation.condition,
                    case.formation.repeat,
                )
                for case in self.cases
            ]
            experiment = Experiment(
                benchmark=self.benchmark,
                settings=self.settings,
                run=self.run,
                sandbox=Sandbox.for_run(self.run.manifest.run_id, parent=self.options.sandbox),
                items=items,
                concurrency=self.options.concurrency,
                processes=self._processes,
            )
            why_stop = watcher_of(budget_of(self, self.run))
            self._engine = assemble(experiment, why_stop)
            spent = why_stop(())
            if spent is not None:
                self._engine.halt(spent)
            self._engine.start()
        return self._engine

    def snapshot(self, key: FormationKey) -> Snapshot:
        """The frozen memory of a formation that is done."""
        from pytest_dshmem.experiment.freezing import open_snapshot

        return open_snapshot(self.run.snapshot_folder(key))

    @property
    def halted(self) -> str | None:
        """Why the engine stopped before its time, if it did."""
        return self._engine.halted if self._engine is not None else None

    def finish(self, *, abandon: bool) -> None:
        """Ends all work in this process."""
        if self._engine is None:
            return
        self._engine.finish(abandon=abandon)
        if self._engine.gate.slowdowns:
            self.run.add_to_count(SLOWDOWNS, self._engine.gate.slowdowns)

    def reference_texts(self) -> Iterator[ReferenceText]:
        """Question and gold of every chosen question, for the judge."""
        from pytest_dshmem.experiment.judging.references import reference_texts

        return reference_texts(self.benchmark, (case.question_id for case in self.cases))

    def _selected(self) -> Iterator[Selected]:
        from pytest_dshmem.record.entries import QuestionKey, Selected

        for case in self.cases:
            formation = case.formation
            yield Selected(
                id=case.id,
                key=QuestionKey(
                    question_id=case.question_id,
                    condition=formation.condition.name,
                    repeat=formation.repeat,
                ),
                sample_id=formation.sample_id,
                category=case.category,
                abstention=case.abstention,
            )

    def _require_consolidation(self) -> None:
        wanted = any(case.formation.condition.consolidates for case in self.cases)
        system = self.planned_settings.system
        if wanted and not system.consolidates:
            raise pytest.UsageError(
                f"--mode memory-consolidate: the memory system {system.name} has no consolidator in its "
                "profile; use --mode memory"
            )

    def _require_what_the_run_needs(self) -> None:
        """Finds what is missing, the summary's needs included, before anything is paid for."""
        _ = self.settings
        require_prices(self)
        if not self.options.no_judge:
            self.judge_choice.protocol(self.name)
        _ = self.prices, self.disputed

    def _require_replay(self) -> None:
        from pytest_dshmem.experiment.ingestion import why_not_replay

        if self.planned_settings.ingestion != "replay" or not self.cases:
            return
        setting = self.benchmark.history(self.cases[0].formation.sample_id).setting
        conditions = [case.formation.condition for case in self.cases]
        reason = why_not_replay(self.planned_settings.system, conditions, setting)
        if reason is not None:
            raise pytest.UsageError(f"--dshmem-ingestion replay: {reason}")

    def _endpoint(self) -> Endpoint:
        from pytest_dshmem.harness.endpoint import Endpoint, read_source_home, resolve_endpoint

        if self.options.offline:
            return Endpoint(api_key=offline_names.KEY, base_url=self._offline_url())
        source = read_source_home(self.options.source_home) if self.options.source_home else None
        return resolve_endpoint(os.environ, base_url=self.options.base_url or None, source=source)

    def fields(self, settings: Settings) -> dict[str, FieldValue]:
        """All that two runs must share to be the same run."""
        from pytest_dshmem.datasets.selection import selection_label

        file = self.benchmark.file
        return {
            **settings.fields(),
            "benchmark": self.name,
            "data.sha256": file.sha256,
            "data.captions": not self.options.no_captions,
            "offline": self.options.offline,
            "selection": selection_label(self.options.select),
            "split": self.options.split,
        }

    def _facts(self) -> dict[str, object]:
        from importlib.metadata import version

        file = self.benchmark.file
        packages = (
            "pytest-dshmem",
            "deepseek-harness-sdk",
            "deepseek-harness-runtime-bin",
            "openai",
            "pytest",
        )
        return {
            "data": {
                "name": file.name,
                "bytes": file.bytes,
                "pinned": file.pinned,
                "sample_corpus": file.sample_corpus,
                "oddities": self.benchmark.oddities(),
            },
            "categories": list(self.benchmark.categories),
            "memory_system": {
                "title": self.settings.system.title,
                "verified": self.settings.system.verified,
                "unverified": list(self.settings.system.unverified),
                "metering": self.settings.system.usage.metering,
                "injected": list(self.settings.system.injected),
            },
            "versions": {package: version(package) for package in packages},
        }


def temporary_run_folder() -> Path:
    """Where a run lives that nobody named a folder for."""
    from pytest_dshmem.harness.sandbox import PRIVATE, default_parent

    default_parent().mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    return default_parent() / f"run-{secrets.token_hex(6)}"
