"""Whether a run is what it says: complete, unaltered, and with figures that follow from its records."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pytest_dshmem.experiment.freezing import digest_of
from pytest_dshmem.experiment.judging.item import JudgeItem, cache_key
from pytest_dshmem.experiment.judging.parse import ParseRule, read_reply
from pytest_dshmem.record.entries import Hypothesis, QuestionKey, Verdict
from pytest_dshmem.record.fingerprint import fingerprint
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.record.run_directory import RunDirectory
from pytest_dshmem.report.reading import Group, RunReading, read_run
from pytest_dshmem.report.seal import Seal, SealedFile, differing_places, read_seal, recomputed, sealed_files

MOST_FIGURES_NAMED = 10

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not hold: the file, the item in it where there is one, and what is wrong."""

    file: str
    problem: str
    item: str | None = None

    def __str__(self) -> str:
        return f"{self.file}: {self.item}: {self.problem}" if self.item else f"{self.file}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found and what was looked at. `holds` is True only where nothing was found."""

    findings: tuple[Finding, ...]
    files: int
    questions: int
    verdicts: int

    @property
    def holds(self) -> bool:
        return not self.findings


def verify_run(path: Path) -> Verification:
    """Checks a run against its seal, and its records against each other. Raises RecordError if it is no run.

    Verdicts are checked against the texts they were given on where the run holds those texts.
    """
    RunDirectory.open(path)
    files = sealed_files(path)
    try:
        reading, seal = read_run(path), read_seal(path)
    except RecordError as error:
        return Verification((Finding(path.name, str(error)),), len(files), 0, 0)
    checks: tuple[Iterable[Finding], ...] = (
        _check_seal(seal, files),
        _check_manifest(reading),
        _check_torn_lines(reading),
        _check_doubled_ids(reading),
        _check_selection_is_answered(reading),
        _check_snapshots(reading),
        _check_verdicts(reading),
        _check_figures(path, seal),
    )
    return Verification(
        findings=tuple(finding for check in checks for finding in check),
        files=len(files),
        questions=len(reading.selected),
        verdicts=len(reading.all_verdicts),
    )


def _check_seal(seal: Seal | None, files: dict[str, SealedFile]) -> Iterator[Finding]:
    if seal is None:
        yield Finding("seal.json", "is missing: the run was never finished, or its seal was taken away")
        return
    for name, sealed in seal.files.items():
        if name not in files:
            yield Finding(name, "was sealed and is not there any more")
        elif files[name].sha256 != sealed.sha256:
            yield Finding(name, f"differs from what was sealed: {_change(sealed, files[name])}")
    for name in files:
        if name not in seal.files:
            yield Finding(name, "was added after the run was sealed")


def _change(sealed: SealedFile, now: SealedFile) -> str:
    if sealed.lines is None or now.lines is None:
        return f"{sealed.bytes} bytes then, {now.bytes} now, or other ones"
    missing = sealed.lines - now.lines
    if missing > 0:
        return f"{missing} of {sealed.lines} lines were removed"
    if missing < 0:
        return f"{-missing} lines were added to {sealed.lines}"
    return f"a line was changed among {now.lines}"


def _check_manifest(reading: RunReading) -> Iterator[Finding]:
    if fingerprint(reading.manifest.settings) != reading.manifest.fingerprint:
        yield Finding("run.json", "the fingerprint is not that of the settings: one of the two was changed")


def _check_torn_lines(reading: RunReading) -> Iterator[Finding]:
    for name, count in reading.torn.items():
        yield Finding(name, f"{count} line(s) cannot be read: cut short by a crash, or by hand")


def _check_doubled_ids(reading: RunReading) -> Iterator[Finding]:
    run = RunDirectory(reading.path)
    yield from _doubled("selection.jsonl", run.selection.read(), lambda e: (e.key, e.id), lambda k: k[1])
    yield from _doubled("references.jsonl", run.references.read(), lambda e: e.question_id, str)
    answered = (e for e in reading.all_hypotheses if e.answered)
    yield from _doubled("qa.jsonl", answered, lambda e: (e.key, e.attempt), lambda k: _name(k[0]))
    judged = (e for e in reading.all_verdicts if e.state == "judged")
    yield from _doubled("judge.jsonl", judged, lambda e: (e.key, e.cache_key), lambda k: _name(k[0]))
    ids = (str(entry.get("question_id")) for _, entry in _exported(reading.path))
    yield from _doubled("hypotheses.jsonl", ids, lambda e: e, str)


def _doubled(
    file: str, entries: Iterable[Item], key: Callable[[Item], Key], name: Callable[[Key], str]
) -> Iterator[Finding]:
    for found, count in Counter(map(key, entries)).items():
        if count > 1:
            yield Finding(file, f"stands {count} times", name(found))


def _check_selection_is_answered(reading: RunReading) -> Iterator[Finding]:
    """hypotheses.jsonl holds every selected id, and the text that qa.jsonl has for it."""
    exported = {
        str(entry.get("question_id")): entry.get("hypothesis") for _, entry in _exported(reading.path)
    }
    selected = {chosen.id: chosen for chosen in reading.selected}
    for number, entry in _exported(reading.path):
        if set(entry) != {"question_id", "hypothesis"}:
            yield Finding("hypotheses.jsonl", "is not a line of id and hypothesis", f"line {number}")
    for name in exported.keys() - selected.keys():
        yield Finding("hypotheses.jsonl", "is not in the selection", name)
    for name, chosen in selected.items():
        answer = reading.hypotheses.get(chosen.key)
        text = answer.hypothesis if answer is not None and answer.answered else ""
        if name not in exported:
            yield Finding("hypotheses.jsonl", "was selected and has no line", name)
        elif exported[name] != text:
            yield Finding("hypotheses.jsonl", "the hypothesis is not the one in qa.jsonl", name)
    keys = {chosen.key for chosen in reading.selected}
    for key in reading.hypotheses.keys() - keys:
        yield Finding("qa.jsonl", "was answered and is not in the selection", _name(key))


def _exported(run: Path) -> list[tuple[int, dict[str, Any]]]:
    """Lines of hypotheses.jsonl with their numbers; one that is no object counts as an empty one."""
    try:
        text = (run / "hypotheses.jsonl").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [
        (number, _object(line)) for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1)
    ]


def _object(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _check_snapshots(reading: RunReading) -> Iterator[Finding]:
    """The frozen memories are on disk as they were recorded, and the questions started from them."""
    run = RunDirectory(reading.path)
    for key, formation in reading.formations.items():
        if formation.state != "frozen":
            continue
        folder = run.snapshot_folder(key)
        name = folder.relative_to(reading.path).as_posix()
        if digest_of(formation.files) != formation.digest:
            yield Finding("formation.jsonl", "the digest is not that of the files listed with it", name)
        recorded = {f"{file.root}/{file.path}": file for file in formation.files}
        for place, file in recorded.items():
            problem = _snapshot_problem(folder / "files" / place, file.sha256)
            if problem is not None:
                yield Finding(f"{name}/files/{place}", problem)
        found = (folder / "files").rglob("*") if folder.is_dir() else ()
        for path in found:
            if not path.is_dir() and path.relative_to(folder / "files").as_posix() not in recorded:
                yield Finding(
                    path.relative_to(reading.path).as_posix(), "was not there when the memory was frozen"
                )
    for chosen in reading.selected:
        answer, formation_of_it = reading.hypotheses.get(chosen.key), reading.formation_of(chosen)
        if answer is None or answer.snapshot is None:
            continue
        if formation_of_it is None or answer.snapshot != formation_of_it.digest:
            yield Finding("qa.jsonl", "was asked on another memory than the frozen one", _name(chosen.key))


def _snapshot_problem(path: Path, sha256: str) -> str | None:
    try:
        content = path.read_bytes()
    except OSError:
        return "is part of the frozen memory and cannot be read"
    if hashlib.sha256(content).hexdigest() != sha256:
        return "is not what was frozen: its hash differs from the one in formation.jsonl"
    return None


def _check_verdicts(reading: RunReading) -> Iterator[Finding]:
    """A verdict says what the judge replied, on the text that the run holds."""
    attempts: defaultdict[QuestionKey, list[Hypothesis]] = defaultdict(list)
    for hypothesis in reading.all_hypotheses:
        attempts[hypothesis.key].append(hypothesis)
    for verdict in reading.all_verdicts:
        problem = _verdict_problem(verdict)
        if problem is not None:
            yield Finding("judge.jsonl", problem, _name(verdict.key))
        elif not _fits_any(verdict, attempts[verdict.key], reading):
            yield Finding(
                "judge.jsonl",
                "the verdict was given on another question, gold or hypothesis than the run holds",
                _name(verdict.key),
            )


def _verdict_problem(verdict: Verdict) -> str | None:
    if verdict.state != "judged":
        return None if verdict.correct is None else f"is {verdict.state} and yet counts as a verdict"
    read = read_reply(_parse_rule(verdict.protocol), verdict.reply)
    if read.correct != verdict.correct or read.strict != verdict.strict:
        return "the verdict is not what the judge's reply says"
    return None


def _parse_rule(protocol: str) -> ParseRule:
    return "yes-no" if protocol.startswith("longmemeval-official") else "json-verdict"


def _fits_any(verdict: Verdict, hypotheses: Iterable[Hypothesis], reading: RunReading) -> bool:
    """Whether the verdict belongs to an answer; which one cannot be told where the run leaves texts out."""
    answers = [hypothesis for hypothesis in hypotheses if hypothesis.answered]
    reference = reading.references.get(verdict.key.question_id)
    if reference is None:
        return bool(answers)
    return any(
        verdict.cache_key
        == cache_key(
            verdict.protocol,
            JudgeItem(
                key=verdict.key,
                question=reference.question,
                gold=reference.gold,
                category=reference.category,
                abstention=reference.abstention,
                hypothesis=hypothesis.hypothesis,
            ),
        )
        for hypothesis in answers
    )


def _check_figures(path: Path, seal: Seal | None) -> Iterator[Finding]:
    """Figures that were printed, in the seal and in report.json, are those that the records give."""
    if seal is not None:
        yield from _figure_findings("seal.json", seal.figures, path)
    report = path / "report.json"
    if report.exists():
        try:
            recorded = json.loads(report.read_bytes())
        except (OSError, ValueError):
            yield Finding("report.json", "cannot be read as JSON")
        else:
            yield from _figure_findings("report.json", recorded, path)


def _figure_findings(file: str, recorded: Any, path: Path) -> Iterator[Finding]:
    try:
        computed = recomputed(path, recorded)
    except RecordError as error:
        yield Finding(file, str(error))
        return
    places = differing_places(recorded, computed)
    for place in places[:MOST_FIGURES_NAMED]:
        yield Finding(file, f"a figure does not follow from the records: {place}")
    if len(places) > MOST_FIGURES_NAMED:
        yield Finding(file, f"{len(places) - MOST_FIGURES_NAMED} more figures do not follow from the records")


def _name(key: QuestionKey) -> str:
    return f"{key.question_id} ({Group(key.condition, key.repeat).label})"
