"""Why a wrong answer is wrong, from the evidence marks and the saved records, without a model.

The memory is the sample's frozen snapshot. A turn of the evidence counts as formed where some line of the
memory holds at least `FORMED_SHARE` of the turn's content words. Words are compared without their commonest
English endings.

What this cannot see: a fact kept in other words, or over several lines, counts as not formed, and a line that
shares the turn's words without its fact counts as formed.

The share was chosen on LoCoMo's marks: of turns that kept 60 % of their content words it finds 94 in 100, and
of turns that are not there at all it takes 13 in 100 for formed, from other lines of the same conversation. A
memory that is no text (a database, say) is not looked into. The counts are for finding out where to look, and
are no measurement.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from pytest_dshmem.record.entries import Entry, Formation, FormationKey, Hypothesis, QuestionKey, Selected
from pytest_dshmem.record.journal import Journal, RecordError
from pytest_dshmem.record.run_directory import RunDirectory, write_atomically
from pytest_dshmem.report.reading import RunReading

Cause = Literal[
    "never-formed",
    "not-opened",
    "answered-wrongly",
    "refused",
    "empty",
    "no-evidence",
    "no-memory",
    "not-text",
]
CAUSES: tuple[Cause, ...] = get_args(Cause)
MEANING: Mapping[Cause, str] = {
    "never-formed": "a part of the evidence is not in the memory",
    "not-opened": "the evidence is in a file that was neither opened nor injected",
    "answered-wrongly": "the evidence was seen, or none is needed, and the answer is wrong",
    "refused": "the evidence was seen and the agent said that it does not know",
    "empty": "the agent gave no answer",
    "no-evidence": "the data set marks no usable evidence",
    "no-memory": "the condition has no memory",
    "not-text": "the memory is not text, so it cannot be looked into",
}

FORMED_SHARE = 0.4
MEMORIES_KEPT = 8
WORDS_KEPT = 20_000
FILE_NAME = "diagnosis.jsonl"

_WORD = re.compile(r"[^\W_]+")
_ENDING = re.compile(r"(?:ing|ed|es|s)\Z")
_SHORTEST_STEM = 3
_STOP_WORDS = frozenset(
    _WORD.findall(
        "about after all also and any are because been but can could did does doing for from had has have "
        "her here him his how into its just like more much not now off our out over really said she should "
        "some than that the their them then there these they this those too very was well were what when "
        "where which who why will with would yeah yes you your"
    )
)
_REFUSAL = re.compile(
    r"(?:do|does|did|could|can) ?(?:not|n['’]t) (?:\w+ )?"
    r"(?:know|recall|remember|have|find|contain|answer|determine|mention|say|tell)"
    r"|no (?:\w+ )?(?:information|record|mention|memory|memories|evidence|details?)"
    r"|not (?:\w+ )?(?:mentioned|available|specified|provided|recorded|known|stated|sure|enough information)"
    r"|(?:cannot|unable to) (?:answer|determine|find|tell|say)|unknown",
    re.IGNORECASE,
)


class Diagnosis(Entry):
    """One wrong or empty answer. `files` names (`root/path`) where the evidence stands, opened or not."""

    key: QuestionKey
    sample_id: str
    category: str
    cause: Cause
    evidence_turns: int = 0
    formed_turns: int = 0
    files: tuple[str, ...] = ()


def diagnose(
    reading: RunReading, evidence: Mapping[str, Sequence[str]], injected: Sequence[str] = ()
) -> tuple[Diagnosis, ...]:
    """One entry for each selected question whose answer was judged wrong or is empty, in selection order.

    `evidence` maps question ids to the texts of the marked turns; `injected` are patterns of file names that
    the agent sees without opening them (`MEMORY.md`, `*.index`). The cause given is the earliest in the
    chain: formed, then opened, then answered.
    """

    @lru_cache(maxsize=MEMORIES_KEPT)
    def memory_of(key: FormationKey) -> Memory:
        return read_memory(reading.path, reading.formations[key], injected)

    found = []
    for chosen in reading.selected:
        hypothesis = reading.hypotheses.get(chosen.key)
        if hypothesis is None or not _needs_diagnosis(reading, hypothesis):
            continue
        formation = reading.formation_of(chosen)
        memory = None if formation is None else memory_of(formation.key)
        found.append(_diagnose_one(chosen, hypothesis, memory, evidence.get(chosen.key.question_id, ())))
    return tuple(found)


def count_causes(diagnoses: Iterable[Diagnosis]) -> dict[Cause, Counter[str]]:
    """Counts by cause and category; causes that did not occur are left out."""
    counts: defaultdict[Cause, Counter[str]] = defaultdict(Counter)
    for diagnosis in diagnoses:
        counts[diagnosis.cause][diagnosis.category] += 1
    return {cause: counts[cause] for cause in CAUSES if cause in counts}


def write_diagnosis(run: Path, diagnoses: Iterable[Diagnosis]) -> Path:
    """Keeps a diagnosis in the run, in place of an earlier one."""
    path = run / FILE_NAME
    write_atomically(path, "".join(f"{json.dumps(entry.model_dump(mode='json'))}\n" for entry in diagnoses))
    return path


def read_diagnosis(run: Path) -> tuple[Diagnosis, ...] | None:
    """The diagnosis that was kept in the run; None where none was."""
    path = run / FILE_NAME
    return Journal(path, Diagnosis).read().entries if path.exists() else None


@dataclass(frozen=True, slots=True)
class Memory:
    """A frozen memory line by line: the lines that hold each word stem, and the file of each line."""

    lines: Mapping[str, tuple[int, ...]]
    files: tuple[str, ...]
    injected: frozenset[str]

    @property
    def is_text(self) -> bool:
        return bool(self.files)

    def where(self, text: str) -> frozenset[str] | None:
        """Files that hold a turn; None where the turn has no content words to look for."""
        stems = content_stems(text)
        if not stems:
            return None
        shared: Counter[int] = Counter()
        for stem in stems:
            shared.update(self.lines.get(stem, ()))
        least = FORMED_SHARE * len(stems)
        return frozenset(self.files[line] for line, count in shared.items() if count >= least)


def read_memory(run: Path, formation: Formation, injected: Sequence[str]) -> Memory:
    """Reads a formation's snapshot. Files that are not UTF-8 text are left out."""
    folder = RunDirectory(run).snapshot_folder(formation.key) / "files"
    lines: defaultdict[str, list[int]] = defaultdict(list)
    files: list[str] = []
    for file in formation.files:
        for line in _lines(folder / file.root / file.path):
            for stem in content_stems(line):
                lines[stem].append(len(files))
            files.append(f"{file.root}/{file.path}")
    return Memory(
        lines={stem: tuple(places) for stem, places in lines.items()},
        files=tuple(files),
        injected=frozenset(file for file in dict.fromkeys(files) if _matches(file, injected)),
    )


def content_stems(text: str) -> frozenset[str]:
    """The words that carry a text's meaning: numbers, and words of three letters or more, endings cut."""
    words = _WORD.findall(text.lower())
    return frozenset(
        _stem(word) for word in words if word.isdigit() or (len(word) > 2 and word not in _STOP_WORDS)
    )


def refuses(hypothesis: str) -> bool:
    """Whether an answer says, in one of the usual English ways, that it does not know."""
    return _REFUSAL.search(hypothesis) is not None


def _needs_diagnosis(reading: RunReading, hypothesis: Hypothesis) -> bool:
    verdict = reading.verdicts.get(hypothesis.key)
    is_wrong = verdict is not None and verdict.state == "judged" and verdict.correct is False
    return hypothesis.state == "empty" or (hypothesis.answered and is_wrong)


def _diagnose_one(
    chosen: Selected, hypothesis: Hypothesis, memory: Memory | None, turns: Sequence[str]
) -> Diagnosis:
    places = [] if memory is None else [place for turn in turns if (place := memory.where(turn)) is not None]
    return Diagnosis(
        key=chosen.key,
        sample_id=chosen.sample_id,
        category=chosen.category,
        cause=_cause(chosen, hypothesis, memory, places),
        evidence_turns=len(places),
        formed_turns=sum(bool(place) for place in places),
        files=tuple(sorted(frozenset[str]().union(*places))),
    )


def _cause(
    chosen: Selected, hypothesis: Hypothesis, memory: Memory | None, places: Sequence[frozenset[str]]
) -> Cause:
    if memory is None:
        return "no-memory"
    if not memory.is_text:
        return "not-text"
    if places and not chosen.abstention:
        if not all(places):
            return "never-formed"
        seen = memory.injected | frozenset(hypothesis.opened)
        if not all(place & seen for place in places):
            return "not-opened"
    if not hypothesis.answered:
        return "empty"
    if refuses(hypothesis.hypothesis):
        return "refused"
    return "answered-wrongly" if places or chosen.abstention else "no-evidence"


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return []
    except OSError as error:
        raise RecordError(f"cannot read {path} of the snapshot: {error.strerror or error}") from error
    return [line for line in text.splitlines() if line.strip()]


def _matches(file: str, patterns: Sequence[str]) -> bool:
    name = PurePosixPath(file).name
    return any(fnmatchcase(name, pattern) or fnmatchcase(file, pattern) for pattern in patterns)


@lru_cache(maxsize=WORDS_KEPT)
def _stem(word: str) -> str:
    stem = _ENDING.sub("", word)
    return stem if len(stem) >= _SHORTEST_STEM else word
