"""Conditions: what each lets the answering agent know."""

from datetime import datetime
from typing import Any, cast

import pytest

from pytest_dshmem.datasets.views import EvidencePlace, History, Question, Reference, Session, Turn
from pytest_dshmem.experiment.assembly import context_history, work_item
from pytest_dshmem.experiment.condition import CONDITIONS, Condition, ConditionError, parse_conditions
from pytest_dshmem.experiment.prompting import question_prompt
from pytest_dshmem.record.entries import FormationKey, QuestionKey

SESSIONS = tuple(
    Session(number, datetime(2024, 1, number), f"{number} January, 2024", (Turn("Ana", f"sitting {number}"),))
    for number in (1, 2, 3)
)
QUESTION = Question(id="s-q1", sample_id="s", asked_on="9 January, 2024", text="What was said?")


class OneSample:
    """A benchmark with one question: its evidence is in two sessions, and in one that is not there."""

    def history(self, sample_id: str) -> History:
        return History(sample_id, "group-chat", ("Ana", "Ben"), SESSIONS)

    def question(self, _question_id: str) -> Question:
        return QUESTION

    def reference(self, question_id: str) -> Reference:
        places = (EvidencePlace(3, 1), EvidencePlace(1), EvidencePlace(9))
        return Reference(question_id, "gold", "multi-hop", places)


def prompt_under(name: str) -> str:
    condition = CONDITIONS[name]
    shown = condition.history != "none"
    history = context_history(cast(Any, OneSample()), "s-q1", condition) if shown else None
    return question_prompt(QUESTION, condition, history)


def test_the_five_conditions_are_there() -> None:
    assert list(CONDITIONS) == ["baseline", "memory", "memory-consolidate", "oracle", "full-history"]
    assert all(condition.meaning for condition in CONDITIONS.values())
    assert {name for name, condition in CONDITIONS.items() if condition.forms_memory} == {
        "memory",
        "memory-consolidate",
    }
    assert [name for name, condition in CONDITIONS.items() if condition.consolidates] == [
        "memory-consolidate"
    ]


def test_no_condition_gives_both_a_memory_and_a_history() -> None:
    assert not any(c.forms_memory and c.history != "none" for c in CONDITIONS.values())


@pytest.mark.parametrize(
    ("name", "sittings"),
    [
        ("baseline", []),
        ("memory", []),
        ("memory-consolidate", []),
        ("oracle", [1, 3]),
        ("full-history", [1, 2, 3]),
    ],
)
def test_the_prompt_holds_as_much_of_the_history_as_the_condition_says(
    name: str, sittings: list[int]
) -> None:
    prompt = prompt_under(name)
    assert [number for number in (1, 2, 3) if f"sitting {number}" in prompt] == sittings
    assert QUESTION.text in prompt
    assert QUESTION.asked_on in prompt
    assert "gold" not in prompt


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=list(CONDITIONS))
def test_a_question_needs_a_formation_only_where_a_memory_is_formed(condition: Condition) -> None:
    work = work_item("s-q1", "s", condition, 2)
    assert work.question == QuestionKey(question_id="s-q1", condition=condition.name, repeat=2)
    expected = FormationKey(sample_id="s", condition=condition.name, repeat=2)
    assert work.formation == (expected if condition.forms_memory else None)


def test_modes_are_read_in_order_and_once_each() -> None:
    names = [condition.name for condition in parse_conditions("memory, baseline,memory,,")]
    assert names == ["memory", "baseline"]


@pytest.mark.parametrize("text", ["", " , ", "memory,dreams", "Memory"])
def test_an_unknown_mode_is_named_with_those_that_there_are(text: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse_conditions(text)
    assert "full-history" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert ("dreams" in str(caught.value)) == ("dreams" in text)
