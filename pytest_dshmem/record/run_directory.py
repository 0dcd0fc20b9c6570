"""The run directory: manifest, journals, snapshots, and the work folder that is gone when a run is finished.

RUN/
  run.json            manifest: what the run is and what its results depend on
  selection.jsonl     the questions chosen, with the pytest id that each has here
  ingestion.jsonl  consolidation.jsonl  formation.jsonl  qa.jsonl  judge.jsonl
  references.jsonl    question and gold text, for judging again (absent where text was left out)
  hypotheses.jsonl    one line per selected question: id and hypothesis
  token-counts.json   tokens of the texts in memories, so that each is counted once
  snapshots/          the frozen memories, one folder a formation
  work/               checkpoints, locks and claims of a run under way
"""

import contextlib
import hashlib
import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import Field, ValidationError

from pytest_dshmem.record.claims import Claims, anyone_alive
from pytest_dshmem.record.entries import (
    Consolidation,
    Entry,
    Formation,
    FormationKey,
    Hypothesis,
    Ingestion,
    QuestionKey,
    ReferenceText,
    Selected,
    Verdict,
)
from pytest_dshmem.record.fingerprint import FieldValue, describe_differences, differences, fingerprint
from pytest_dshmem.record.journal import Journal, RecordError
from pytest_dshmem.record.places import is_inside_repository

FORMAT = 1
TOKEN_COUNTS = "token-counts.json"
LOCK_POLL_SECONDS = 0.005


class RunManifest(Entry):
    """What a run is. `settings` is all that its hypotheses depend on; `facts` is what else to know."""

    format: int = FORMAT
    run_id: str
    created_at: float
    fingerprint: str
    settings: dict[str, FieldValue]
    facts: dict[str, Any] = Field(default_factory=dict)


class RunDirectory:
    """One run on disk. Opening it in many threads and processes at once is fine."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.selection = self._journal("selection.jsonl", Selected)
        self.ingestions = self._journal("ingestion.jsonl", Ingestion)
        self.consolidations = self._journal("consolidation.jsonl", Consolidation)
        self.formations = self._journal("formation.jsonl", Formation)
        self.hypotheses = self._journal("qa.jsonl", Hypothesis)
        self.verdicts = self._journal("judge.jsonl", Verdict)
        self.references = self._journal("references.jsonl", ReferenceText)

    @classmethod
    def create(
        cls, path: Path, settings: Mapping[str, FieldValue], facts: Mapping[str, Any]
    ) -> "RunDirectory":
        """Creates the run, or opens it if its settings are the same.

        Raises RecordError where the folder is inside a repository, cannot be written, holds something that is
        not a run, or holds a run with other settings; the differing fields are named.
        """
        run = cls(path)
        with run._refusals("make"):
            if is_inside_repository(path):
                raise RecordError(
                    f"{path} lies inside a repository, where memories and answers could be committed by "
                    "accident; name a folder outside of it"
                )
            path.mkdir(parents=True, exist_ok=True)
        with run._alone(), run._refusals("read"):
            if run.manifest_path.exists():
                run._require_same(settings)
            else:
                run._require_empty()
                run._write_manifest(settings, facts)
        return run

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """Opens a run that exists. Raises RecordError where there is none."""
        run = cls(path)
        with run._refusals("read"):
            if not run.manifest_path.is_file():
                raise RecordError(f"{path} holds no run: there is no run.json in it")
        run.manifest  # noqa: B018 - read now, so that a broken manifest is found here
        return run

    @property
    def manifest_path(self) -> Path:
        return self.path / "run.json"

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def manifest(self) -> RunManifest:
        """The manifest as it stands. Raises RecordError where it cannot be read."""
        try:
            manifest = RunManifest.model_validate_json(self.manifest_path.read_bytes())
        except (OSError, ValidationError) as error:
            problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error.strerror
            raise RecordError(f"{self.manifest_path} cannot be read as a run's manifest: {problem}") from None
        if manifest.format != FORMAT:
            raise RecordError(
                f"the run in {self.path} has format {manifest.format}, this version reads format {FORMAT}; "
                "use the version that made it"
            )
        return manifest

    def snapshot_folder(self, key: FormationKey) -> Path:
        return self.path / "snapshots" / formation_name(key)

    def checkpoint_folder(self, key: FormationKey) -> Path:
        return self._checkpoints / formation_name(key)

    def claims(self) -> Claims:
        """This process's part in the work. Close it when the work is done."""
        with self._alone():
            return Claims(self._claims)

    def select(self, chosen: Iterable[Selected]) -> None:
        """Adds questions to the run's selection; one that is there already stays as it is."""
        with self.selection.writing() as write:
            known = {entry.key: entry.id for entry in self.selection.read()}
            for entry in chosen:
                if known.get(entry.key) != entry.id:
                    write(entry)

    def add_references(self, texts: Iterable[ReferenceText]) -> None:
        """Adds question and gold texts that are not there yet."""
        with self.references.writing() as write:
            known = {entry.question_id for entry in self.references.read()}
            for text in texts:
                if text.question_id not in known:
                    write(text)

    def selected(self) -> list[Selected]:
        """The selection in order, one entry a question; the latest id counts."""
        latest: dict[QuestionKey, Selected] = {}
        for entry in self.selection.read():
            latest[entry.key] = entry
        return list(latest.values())

    def amend_facts(self, facts: Mapping[str, Any]) -> None:
        """Adds facts to the manifest; what the results depend on stays as it is."""
        with self._alone():
            manifest = self.manifest
            self._save(manifest.model_copy(update={"facts": {**manifest.facts, **facts}}))

    def add_to_count(self, fact: str, more: int) -> None:
        """Adds to a fact that is a number, whatever other processes add to it at the same time."""
        with self._alone():
            facts = self.manifest.facts
            counted = {**facts, fact: int(facts.get(fact, 0)) + more}
            self._save(self.manifest.model_copy(update={"facts": counted}))

    def write_hypotheses(self, answers: Mapping[QuestionKey, Hypothesis]) -> Path:
        """Writes hypotheses.jsonl: each selected id exactly once, an unanswered one as an empty text."""
        lines = [
            json.dumps(
                {"question_id": chosen.id, "hypothesis": _answer_text(answers.get(chosen.key))},
                ensure_ascii=True,
            )
            for chosen in self.selected()
        ]
        path = self.path / "hypotheses.jsonl"
        write_atomically(path, "".join(line + "\n" for line in lines))
        return path

    def token_counts(self, tokenizer: str) -> dict[str, int]:
        """Token counts of memory texts that were kept for this tokenizer, by the text's hash."""
        try:
            kept = json.loads((self.path / TOKEN_COUNTS).read_text(encoding="utf-8"))
            counts = kept["counts"] if kept["tokenizer"] == tokenizer else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return {name: count for name, count in counts.items() if isinstance(count, int)}

    def keep_token_counts(self, tokenizer: str, counts: Mapping[str, int]) -> None:
        """Keeps token counts, so that no text has to be counted again."""
        text = json.dumps({"tokenizer": tokenizer, "counts": dict(sorted(counts.items()))}, indent=0)
        write_atomically(self.path / TOKEN_COUNTS, text + "\n")

    def finish(self, also: Callable[[], None] = lambda: None) -> bool:
        """Removes the work folder, and does what else is to be done when nobody needs it any more.

        Does neither, and returns False, while another process is at work on the run or a formation is
        unfinished.
        """
        with self._alone():
            if anyone_alive(self._claims) or any(self._checkpoints.glob("*")):
                return False
            also()
            shutil.rmtree(self.work, ignore_errors=True)
            return True

    @property
    def _claims(self) -> Path:
        return self.work / "claims"

    @property
    def _checkpoints(self) -> Path:
        return self.work / "checkpoints"

    def _journal(self, name: str, kind: type[Any]) -> Journal[Any]:
        return Journal(self.path / name, kind)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keeps out every other process that would open, amend or finish this run."""
        lock = FileLock(self.work / "manifest.lock")
        with self._refusals("write to"):
            while not lock.is_locked:
                self.work.mkdir(exist_ok=True)
                # The folder may be gone again by now, with the process that has finished the run.
                with contextlib.suppress(FileNotFoundError):
                    lock.acquire(poll_interval=LOCK_POLL_SECONDS)
        try:
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def _refusals(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RecordError(
                f"cannot {what} the run directory {self.path}: {error.strerror or error}"
            ) from error

    def _require_same(self, settings: Mapping[str, FieldValue]) -> None:
        changed = differences(self.manifest.settings, dict(settings))
        if changed:
            raise RecordError(
                f"the run in {self.path} was made with other settings: {describe_differences(changed)}; "
                "use its settings to continue it, or another run directory"
            )

    def _require_empty(self) -> None:
        others = [entry.name for entry in self.path.iterdir() if entry.name != "work"]
        if others:
            raise RecordError(
                f"{self.path} holds no run but is not empty ({', '.join(sorted(others)[:3])}); "
                "name an empty or a new folder"
            )

    def _write_manifest(self, settings: Mapping[str, FieldValue], facts: Mapping[str, Any]) -> None:
        manifest = RunManifest(
            run_id=uuid.uuid4().hex[:12],
            created_at=time.time(),
            fingerprint=fingerprint(settings),
            settings=dict(settings),
            facts=dict(facts),
        )
        self._save(manifest)

    def _save(self, manifest: RunManifest) -> None:
        write_atomically(self.manifest_path, manifest.model_dump_json(indent=2) + "\n")


def formation_name(key: FormationKey) -> str:
    """A folder name for a formation, unique within a run."""
    suffix = f"-r{key.repeat}" if key.repeat > 1 else ""
    return f"{key.sample_id}-{key.condition}{suffix}"


def opaque_name(key: FormationKey) -> str:
    """A name for a formation that tells nothing: sandbox paths are in the context that a model sees."""
    return f"f-{hashlib.sha256(formation_name(key).encode()).hexdigest()[:16]}"


def write_atomically(path: Path, text: str) -> None:
    """Replaces a file's content in one step, so that no reader ever sees half of it. Raises RecordError."""
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise RecordError(f"cannot write {path}: {error.strerror or error}") from error


def _answer_text(hypothesis: Hypothesis | None) -> str:
    return hypothesis.hypothesis if hypothesis is not None and hypothesis.answered else ""
