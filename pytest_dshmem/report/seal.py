"""The seal of a finished run: hashes of all its records, and the figures that were printed from them.

A seal shows that nothing was changed by accident or in passing. It is no signature: who can rewrite the run
can seal it again, so a published figure is best accompanied by the hash of `seal.json` itself.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from pytest_dshmem.experiment.tokenizer import ESTIMATE, Tokenizer, estimate_tokens, find_tokenizer
from pytest_dshmem.record.entries import Entry
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.record.run_directory import RunDirectory, write_atomically
from pytest_dshmem.report.figures import RunFigures, run_figures
from pytest_dshmem.report.json_report import figures_document, report_document
from pytest_dshmem.report.prices import Prices
from pytest_dshmem.report.reading import read_run

FILE_NAME = "seal.json"
REPORTS = frozenset({FILE_NAME, "report.json", "report.html", "failure.json"})
CHUNK_BYTES = 1 << 20


class SealedFile(Entry):
    """One file as it was when the run was sealed. `lines` is None for what is no journal."""

    sha256: str
    bytes: int
    lines: int | None = None


class Seal(Entry):
    """The seal of a run. `files` is keyed by path within the run, with forward slashes."""

    format: int = 1
    run_id: str
    files: dict[str, SealedFile]
    figures: dict[str, Any] = Field(default_factory=dict)


def seal_run(path: Path, figures: RunFigures | None = None) -> Path:
    """Seals a run as it stands, in place of an earlier seal. Returns the seal's path. Raises RecordError.

    `figures` are those that were just printed of these records, if there are any.
    """
    run = RunDirectory.open(path)
    seal = Seal(
        run_id=run.manifest.run_id,
        files=sealed_files(path),
        figures=_as_read_back(figures_document(figures or run_figures(read_run(path)))),
    )
    target = path / FILE_NAME
    write_atomically(target, json.dumps(seal.model_dump(mode="json"), indent=1) + "\n")
    return target


def read_seal(path: Path) -> Seal | None:
    """The seal of a run; None where it was never sealed. Raises RecordError where it cannot be read."""
    file = path / FILE_NAME
    try:
        return Seal.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error.strerror
        raise RecordError(f"{file} cannot be read as a seal: {problem}") from None


def is_as_sealed(path: Path, names: Iterable[str]) -> bool:
    """Whether these records of a run are byte for byte those that it was sealed with."""
    seal = read_seal(path)
    return seal is not None and all(
        name in seal.files and (path / name).is_file() and describe_file(path / name) == seal.files[name]
        for name in names
    )


def seal_hash(path: Path) -> str | None:
    """The sha256 of a run's seal, which stands for the whole run; None where it was never sealed."""
    file = path / FILE_NAME
    return describe_file(file).sha256 if file.is_file() else None


def sealed_files(path: Path) -> dict[str, SealedFile]:
    """Every record and snapshot file of a run. Work in progress and derived reports are not records."""
    return {name: describe_file(path / name) for name in record_names(path)}


def record_names(path: Path) -> list[str]:
    """Names of a run's records and snapshot files, in order. Links count as files: a run holds none."""
    names = (file.relative_to(path).as_posix() for file in path.rglob("*") if not file.is_dir())
    return sorted(name for name in names if name not in REPORTS and not name.startswith(("work/", ".")))


def describe_file(file: Path) -> SealedFile:
    """Hash, size and, for a journal, the number of lines of a file. Raises RecordError."""
    digest, size, lines = hashlib.sha256(), 0, 0
    try:
        with file.open("rb") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
                lines += chunk.count(b"\n")
    except OSError as error:
        raise RecordError(f"cannot read {file}: {error.strerror or error}") from error
    return SealedFile(sha256=digest.hexdigest(), bytes=size, lines=lines if file.suffix == ".jsonl" else None)


def recomputed(path: Path, recorded: Any) -> dict[str, Any]:
    """The figures of a report computed anew from the records, with its tokenizer, its prices and its extent.

    Raises RecordError where the report is no report, or its tokenizer is not on this machine.
    """
    try:
        tokenizer = _tokenizer_named(recorded["conditions"])
        prices = None if recorded["prices"] is None else Prices.model_validate(recorded["prices"])
        questions = recorded.get("questions")
        texts = bool(questions) and "question" in questions[0]
    except (TypeError, KeyError, IndexError, ValidationError):
        raise RecordError("is not a report that was written by this version") from None
    document = report_document(
        read_run(path), prices, tokenizer=tokenizer, questions=questions is not None, texts=texts
    )
    return _as_read_back(document)


def _as_read_back(document: Mapping[str, Any]) -> dict[str, Any]:
    """The way through JSON makes both sides of a comparison alike: names of fields become texts."""
    values: dict[str, Any] = json.loads(json.dumps(document))
    return values


def _tokenizer_named(conditions: Any) -> Tokenizer | None:
    names = {condition["memory"]["tokenizer"] for condition in conditions}
    if not names:
        return None
    if names == {ESTIMATE}:
        return Tokenizer(ESTIMATE, exact=False, count_tokens=estimate_tokens)
    found = find_tokenizer()
    if names != {found.name}:
        raise RecordError(
            f"its tokens were counted with {', '.join(sorted(map(str, names)))}, whose vocabulary is not on "
            "this machine: set TIKTOKEN_CACHE_DIR to a folder that holds it, and verify again"
        )
    return found


def differing_places(recorded: Any, computed: Any, place: str = "") -> list[str]:
    """Where two JSON values differ, each as `cost.whole.calls was 5, is 6`."""
    if isinstance(recorded, Mapping) and isinstance(computed, Mapping):
        names = [*recorded, *(name for name in computed if name not in recorded)]
        pairs = [(str(name), recorded.get(name), computed.get(name)) for name in names]
    elif isinstance(recorded, list) and isinstance(computed, list) and len(recorded) == len(computed):
        pairs = [(str(n), old, new) for n, (old, new) in enumerate(zip(recorded, computed, strict=True))]
    else:
        return [] if recorded == computed else [f"{place} was {_brief(recorded)}, is {_brief(computed)}"]
    return [
        found
        for name, old, new in pairs
        for found in differing_places(old, new, f"{place}.{name}" if place else name)
    ]


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
