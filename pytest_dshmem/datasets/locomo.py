"""LoCoMo: ten long chats between two people, and questions about what they said.

The file is one JSON list of samples. What it holds besides the chat and the questions (summaries,
observations, the annotators' search words) is never read.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pytest_dshmem.datasets.dates import spoken_date
from pytest_dshmem.datasets.evidence import Evidence, EvidenceMap, find_evidence
from pytest_dshmem.datasets.fields import Record, known, parse_json
from pytest_dshmem.datasets.views import (
    DataError,
    DataFile,
    EvidencePlace,
    History,
    Listing,
    Question,
    Reference,
    Session,
    Turn,
)

_CATEGORY_NUMBERS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
_ADVERSARIAL = 5
_SESSION = re.compile(r"session_(\d{1,6})", re.ASCII)
_SESSION_DATE = re.compile(r"session_(\d{1,6})_date_time", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Sample:
    """One sample as sealed views, and what was odd in it."""

    history: History
    questions: tuple[Question, ...]
    references: tuple[Reference, ...]
    oddities: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Corpus:
    """The whole file as sealed views, each kind by its id and in file order."""

    histories: Mapping[str, History]
    questions: Mapping[str, Question]
    references: Mapping[str, Reference]
    listings: tuple[Listing, ...]
    oddities: Mapping[str, int]


class LoCoMo:
    """LoCoMo as a benchmark. The file is read when something of it is first asked for.

    `captions` decides whether a turn carries the caption of the picture that was shared in it.
    """

    name: str = "locomo"
    categories: tuple[str, ...] = ("single-hop", "multi-hop", "temporal", "open-domain")

    def __init__(self, path: Path, file: DataFile, captions: bool = True) -> None:
        self._path = path
        self._file = file
        self._captions = captions

    @property
    def file(self) -> DataFile:
        return self._file

    def listings(self) -> Sequence[Listing]:
        """All askable questions in file order. Adversarial ones are left out, before any limit applies."""
        return self._corpus.listings

    def history(self, sample_id: str) -> History:
        return known(self._corpus.histories, sample_id, "sample", self._path)

    def question(self, question_id: str) -> Question:
        return known(self._corpus.questions, question_id, "question", self._path)

    def reference(self, question_id: str) -> Reference:
        return known(self._corpus.references, question_id, "question", self._path)

    def oddities(self) -> dict[str, int]:
        """What is unusual in the file and how often, adversarial questions included."""
        return dict(self._corpus.oddities)

    @cached_property
    def _corpus(self) -> _Corpus:
        return _gather(_read_samples(self._path, self._file.sha256, self._captions), self._path)


def _read_samples(path: Path, sha256: str, captions: bool) -> list[_Sample]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): check its permissions.") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise DataError(f"{path} has changed since it was opened: start again.")
    samples = parse_json(data, str(path))
    if not isinstance(samples, list) or not samples:
        raise DataError(f"{path} should be a list of samples: repair the file or fetch the published one.")
    return [
        _read_sample(Record(sample, f"{path}, sample {index}"), captions)
        for index, sample in enumerate(samples)
    ]


def _gather(samples: Sequence[_Sample], path: Path) -> _Corpus:
    histories = {sample.history.sample_id: sample.history for sample in samples}
    if len(histories) < len(samples):
        repeated = Counter(sample.history.sample_id for sample in samples).most_common(1)[0][0]
        raise DataError(f"{path}: the sample id {repeated!r} occurs twice. Ids must be unique in the file.")
    questions = [question for sample in samples for question in sample.questions]
    references = [reference for sample in samples for reference in sample.references]
    oddities: Counter[str] = Counter()
    for sample in samples:
        oddities.update(sample.oddities)
    return _Corpus(
        histories=histories,
        questions={question.id: question for question in questions},
        references={reference.question_id: reference for reference in references},
        listings=tuple(
            Listing(question.id, question.sample_id, reference.category)
            for question, reference in zip(questions, references, strict=True)
        ),
        oddities={what: count for what, count in sorted(oddities.items()) if count},
    )


def _read_sample(sample: Record, captions: bool) -> _Sample:
    sample_id = sample.identifier("sample_id")
    sample = sample.named(sample_id)
    conversation = sample.record("conversation")
    numbers = _session_numbers(conversation)
    history = History(
        sample_id=sample_id,
        setting="group-chat",
        participants=(conversation.filled_text("speaker_a"), conversation.filled_text("speaker_b")),
        sessions=tuple(
            _read_session(conversation, number, position, captions)
            for position, number in enumerate(numbers, start=1)
        ),
    )
    items = sample.records("qa")
    marks = _evidence_map(conversation, numbers)
    evidence = [find_evidence(item.texts("evidence"), marks) for item in items]
    asked_on = max(history.sessions, key=lambda session: session.date).date_text
    questions: list[Question] = []
    references: list[Reference] = []
    for index, (item, found) in enumerate(zip(items, evidence, strict=True)):
        if (category := _category(item)) is not None:
            question_id = f"{sample_id}-q{index:03d}"
            questions.append(Question(question_id, sample_id, asked_on, item.filled_text("question")))
            references.append(Reference(question_id, item.gold("answer"), category, found.places))
    oddities = _odd_in_chat(conversation, history) + _odd_in_questions(items, evidence)
    return _Sample(history, tuple(questions), tuple(references), oddities)


def _session_numbers(conversation: Record) -> list[int]:
    """The numbers of the sessions, in order of number: ordered as text, 10 would come before 2."""
    numbers = sorted(_numbered(conversation, _SESSION))
    if not numbers:
        raise conversation.fault("there is no session")
    return numbers


def _numbered(conversation: Record, pattern: re.Pattern[str]) -> set[int]:
    return {int(match[1]) for key in conversation if (match := pattern.fullmatch(key))}


def _read_session(conversation: Record, number: int, position: int, captions: bool) -> Session:
    date_field = f"session_{number}_date_time"
    date_text = conversation.text(date_field)
    try:
        date = spoken_date(date_text)
    except ValueError as error:
        raise conversation.fault(f"the field {date_field!r}: {error}") from None
    turns = tuple(_read_turn(turn, captions) for turn in conversation.records(f"session_{number}"))
    return Session(position, date, date_text, turns)


def _read_turn(turn: Record, captions: bool) -> Turn:
    caption = turn.text("blip_caption") if captions and "blip_caption" in turn else None
    return Turn(turn.filled_text("speaker"), turn.text("text"), caption)


def _evidence_map(conversation: Record, numbers: Sequence[int]) -> EvidenceMap:
    sessions = {number: position for position, number in enumerate(numbers, start=1)}
    turns = {
        turn.text("dia_id"): EvidencePlace(position, index)
        for number, position in sessions.items()
        for index, turn in enumerate(conversation.records(f"session_{number}"), start=1)
    }
    return EvidenceMap(turns, sessions)


def _category(item: Record) -> str | None:
    """The category's name, None for an adversarial question, which is not asked."""
    number = item.integer("category")
    if number == _ADVERSARIAL:
        return None
    if number not in _CATEGORY_NUMBERS:
        raise item.fault(f"the category is {number}, which is not one of 1 to {_ADVERSARIAL}")
    return _CATEGORY_NUMBERS[number]


def _odd_in_chat(conversation: Record, history: History) -> Counter[str]:
    turns = [turn for session in history.sessions for turn in session.turns]
    return Counter(
        {
            "dates without a session": len(
                _numbered(conversation, _SESSION_DATE) - _numbered(conversation, _SESSION)
            ),
            "sessions opened by the second speaker": sum(
                session.turns[:1] != () and session.turns[0].speaker == history.participants[1]
                for session in history.sessions
            ),
            "sessions without turns": sum(not session.turns for session in history.sessions),
            "blank turns": sum(not turn.text.strip() for turn in turns),
            "turns by a third speaker": sum(turn.speaker not in history.participants for turn in turns),
        }
    )


def _odd_in_questions(items: Sequence[Record], evidence: Sequence[Evidence]) -> Counter[str]:
    texts = Counter(item.text("question") for item in items)
    return Counter(
        {
            "adversarial questions left out": sum(_category(item) is None for item in items),
            "answers that are numbers": sum(not isinstance(item.get("answer", ""), str) for item in items),
            "questions that stand twice in a sample": sum(count - 1 for count in texts.values()),
            "questions without evidence": sum(not item.items("evidence") for item in items),
            "questions with irregular evidence": sum(found.irregular for found in evidence),
            "evidence marks without a turn": sum(found.stray for found in evidence),
        }
    )
