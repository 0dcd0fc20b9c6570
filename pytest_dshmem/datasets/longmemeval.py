"""LongMemEval: one history of assistant chats a question, in three sizes (oracle, S, M) of one format.

The file is one JSON list of instances. An index is built over it once; an instance is read when it is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path

from pytest_dshmem.datasets.dates import stamp_date
from pytest_dshmem.datasets.fields import Record, known
from pytest_dshmem.datasets.instance_index import Entry, InstanceIndex, Survey, open_index, read_record
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

_TYPES = (
    "single-session-user",
    "single-session-assistant",
    "single-session-preference",
    "multi-session",
    "temporal-reasoning",
    "knowledge-update",
)
_PARTICIPANTS = ("user", "assistant")
# An instance of M takes some ten megabytes as objects, and its history, question and reference are asked for
# close together.
_KEPT_INSTANCES = 4


@dataclass(frozen=True, slots=True)
class _Instance:
    """One instance as sealed views, and what was odd in it."""

    history: History
    question: Question
    reference: Reference
    oddities: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Sitting:
    """One session with its evaluation marks, before they are taken off."""

    id: str
    date: datetime
    date_text: str
    turns: tuple[Turn, ...]
    marked_turns: tuple[int, ...]


class LongMemEval:
    """LongMemEval as a benchmark: sample and question share one id. `cache` is where the index is kept.

    Nothing is read before it is asked for. Listings come from the index alone.
    """

    name: str = "longmemeval"
    categories: tuple[str, ...] = _TYPES

    def __init__(self, path: Path, file: DataFile, cache: Path | None) -> None:
        self._path = path
        self._file = file
        self._cache = cache
        self._instance = lru_cache(_KEPT_INSTANCES)(self._read)

    @property
    def file(self) -> DataFile:
        return self._file

    def listings(self) -> Sequence[Listing]:
        return tuple(
            Listing(entry.id, entry.id, entry.category, _is_abstention(entry.id))
            for entry in self._index.entries
        )

    def history(self, sample_id: str) -> History:
        return self._instance(sample_id).history

    def question(self, question_id: str) -> Question:
        return self._instance(question_id).question

    def reference(self, question_id: str) -> Reference:
        return self._instance(question_id).reference

    def oddities(self) -> dict[str, int]:
        """What is unusual in the file and how often, as counted when the index was built."""
        return dict(self._index.oddities)

    @cached_property
    def _index(self) -> InstanceIndex:
        return open_index(self._path, self._file, self._cache, _survey)

    @cached_property
    def _entries(self) -> Mapping[str, Entry]:
        return {entry.id: entry for entry in self._index.entries}

    def _read(self, instance_id: str) -> _Instance:
        entry = known(self._entries, instance_id, "instance", self._path)
        instance = _read_instance(read_record(self._path, entry))
        if instance.question.id != instance_id:
            raise DataError(f"{self._path} has changed since it was indexed: start again.")
        return instance


def _survey(record: Record) -> Survey:
    instance = _read_instance(record)
    return Survey(instance.question.id, instance.reference.category, instance.oddities)


def _read_instance(record: Record) -> _Instance:
    question_id = record.identifier("question_id")
    record = record.named(question_id)
    given = _read_sittings(record)
    # Stable: sessions of the same minute stay as the file has them.
    sittings = sorted(given, key=lambda sitting: sitting.date)
    answer_ids = record.texts("answer_session_ids")
    history = History(
        sample_id=question_id,
        setting="assistant-chat",
        participants=_PARTICIPANTS,
        sessions=tuple(
            Session(number, sitting.date, sitting.date_text, sitting.turns)
            for number, sitting in enumerate(sittings, start=1)
        ),
    )
    question = Question(
        question_id, question_id, record.text("question_date"), record.filled_text("question")
    )
    reference = Reference(
        question_id=question_id,
        gold=record.gold("answer"),
        category=_category(record),
        evidence=_evidence(sittings, answer_ids),
        abstention=_is_abstention(question_id),
    )
    return _Instance(history, question, reference, _odd_in_instance(record, given, answer_ids))


def _is_abstention(question_id: str) -> bool:
    return "_abs" in question_id


def _category(record: Record) -> str:
    category = record.text("question_type")
    if category not in _TYPES:
        raise record.fault(f"the question_type {category!r} is not one of {', '.join(_TYPES)}")
    return category


def _read_sittings(record: Record) -> list[_Sitting]:
    """The sessions in file order, each joined to its date and id out of the parallel lists."""
    dates, ids = record.texts("haystack_dates"), record.texts("haystack_session_ids")
    sessions = record.lists_of_records("haystack_sessions")
    if not len(dates) == len(ids) == len(sessions):
        raise record.fault(
            f"there are {len(dates)} haystack_dates, {len(ids)} haystack_session_ids and {len(sessions)} "
            "haystack_sessions, which should be equally many"
        )
    if not sessions:
        raise record.fault("there is no session")
    return [
        _Sitting(
            id=session_id,
            date=_date(record, f"haystack_dates[{index}]", date_text),
            date_text=date_text,
            turns=tuple(_read_turn(turn) for turn in turns),
            marked_turns=tuple(
                place for place, turn in enumerate(turns, start=1) if turn.get("has_answer", False)
            ),
        )
        for index, (session_id, date_text, turns) in enumerate(zip(ids, dates, sessions, strict=True))
    ]


def _read_turn(turn: Record) -> Turn:
    role = turn.text("role")
    if role not in _PARTICIPANTS:
        raise turn.fault(f"the role {role!r} is neither user nor assistant")
    return Turn(role, turn.text("content"))


def _date(record: Record, field: str, text: str) -> datetime:
    try:
        return stamp_date(text)
    except ValueError as error:
        raise record.fault(f"the field {field!r}: {error}") from None


def _evidence(sittings: Sequence[_Sitting], answer_ids: Sequence[str]) -> tuple[EvidencePlace, ...]:
    """The turns that are marked; of an answer session without a marked turn, the session."""
    places: list[EvidencePlace] = []
    for number, sitting in enumerate(sittings, start=1):
        places += (EvidencePlace(number, turn) for turn in sitting.marked_turns)
        if sitting.id in answer_ids and not sitting.marked_turns:
            places.append(EvidencePlace(number))
    return tuple(places)


def _odd_in_instance(
    record: Record, given: Sequence[_Sitting], answer_ids: Sequence[str]
) -> Mapping[str, int]:
    asked = _date(record, "question_date", record.text("question_date"))
    dates = [sitting.date for sitting in given]
    ids = [sitting.id for sitting in given]
    turns = [turn for sitting in given for turn in sitting.turns]
    return +Counter(
        {
            "answers that are numbers": int(not isinstance(record.value("answer"), str)),
            "instances whose sessions are not in order of date": int(dates != sorted(dates)),
            "instances with a session after the question": int(max(dates) > asked),
            "instances with a repeated session id": int(len(set(ids)) < len(ids)),
            "answer sessions that are not in the history": len(set(answer_ids) - set(ids)),
            "sessions without turns": sum(not sitting.turns for sitting in given),
            "sessions opened by the assistant": sum(
                bool(sitting.turns) and sitting.turns[0].speaker == "assistant" for sitting in given
            ),
            "sessions in which one side speaks twice in a row": sum(
                _speaks_twice(sitting.turns) for sitting in given
            ),
            "blank turns": sum(not turn.text.strip() for turn in turns),
        }
    )


def _speaks_twice(turns: Sequence[Turn]) -> bool:
    return any(earlier.speaker == later.speaker for earlier, later in pairwise(turns))
