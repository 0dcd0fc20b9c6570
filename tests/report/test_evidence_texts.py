"""Diagnosis gets the texts of the marked turns, and nothing where a mark is no use."""

from collections.abc import Sequence
from datetime import datetime

from pytest_dshmem.datasets.views import (
    DataFile,
    EvidencePlace,
    History,
    Listing,
    Question,
    Reference,
    Session,
    Turn,
)
from pytest_dshmem.record.entries import QuestionKey, Selected
from pytest_dshmem.report.evidence import evidence_texts

TURNS = (Turn("Ines", "The shed is green."), Turn("Pavel", "Look!", caption="a goat on a roof"))


class OneSample:
    """A benchmark of one session and one question that is marked as told."""

    name = "one"
    categories: tuple[str, ...] = ("single-hop",)
    file = DataFile(name="one.json", sha256="0" * 64, bytes=1, pinned=False)

    def __init__(self, *marks: EvidencePlace) -> None:
        self._marks = marks

    def listings(self) -> Sequence[Listing]:
        return [Listing("s-q001", "s", "single-hop")]

    def history(self, sample_id: str) -> History:
        session = Session(1, datetime(2023, 5, 8), "8 May, 2023", TURNS)
        return History(sample_id, "group-chat", ("Ines", "Pavel"), (session,))

    def question(self, question_id: str) -> Question:
        return Question(question_id, "s", "9 May, 2023", "What colour is the shed?")

    def reference(self, question_id: str) -> Reference:
        return Reference(question_id, "green", "single-hop", self._marks)

    def oddities(self) -> dict[str, int]:
        return {}


def texts(*marks: EvidencePlace) -> tuple[str, ...]:
    chosen = Selected(
        id="s-q001",
        key=QuestionKey(question_id="s-q001", condition="memory"),
        sample_id="s",
        category="single-hop",
    )
    return evidence_texts(OneSample(*marks), [chosen])["s-q001"]


def test_a_turn_is_its_text_and_its_caption() -> None:
    assert texts(EvidencePlace(1, 1), EvidencePlace(1, 2)) == ("The shed is green.", "Look! a goat on a roof")


def test_marks_that_name_no_turn_or_none_that_is_there_give_nothing() -> None:
    assert texts(EvidencePlace(1), EvidencePlace(1, 3), EvidencePlace(1, 0), EvidencePlace(2, 1)) == ()
    assert texts() == ()
