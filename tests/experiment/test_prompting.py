"""What the agent is told: the prompt holds its view of the data, word for word, and nothing else."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_experiment import SITTINGS, TinyBenchmark

from pytest_dshmem.datasets.views import History, Question, Session, Turn
from pytest_dshmem.experiment.condition import CONDITIONS
from pytest_dshmem.experiment.prompting import (
    fill,
    ingestion_prompt,
    prompt_hashes,
    question_prompt,
    session_text,
    sessions_text,
)

HISTORY = TinyBenchmark().history("pair-1")
QUESTION = TinyBenchmark().question("q1")
ODD_TEXT = st.text(min_size=1)


def test_an_ingestion_is_told_the_people_the_date_and_the_sitting() -> None:
    prompt = ingestion_prompt(HISTORY, SITTINGS[0])

    assert "Mira and Jonas" in prompt
    assert prompt.count("6:00 pm on 4 May, 2023") == 2
    assert session_text(SITTINGS[0]) in prompt
    assert SITTINGS[1].turns[0].text not in prompt, "one sitting at a time"


def test_a_sitting_is_a_dated_list_of_turns_with_pictures_marked_as_such() -> None:
    assert session_text(SITTINGS[0]) == (
        '<session date="6:00 pm on 4 May, 2023">\n'
        "Jonas: Anything new in that garden of yours?\n"
        "Mira: Yesterday I put in a quince tree, right where the shed stood. "
        "[shares an image: a young tree]\n"
        "</session>"
    )


def test_a_chat_with_an_assistant_has_a_prompt_of_its_own() -> None:
    chat = replace(HISTORY, setting="assistant-chat", participants=("user", "assistant"))
    assert "a user and an assistant" in ingestion_prompt(chat, SITTINGS[0])
    assert "a user and an assistant" not in ingestion_prompt(HISTORY, SITTINGS[0])


@pytest.mark.parametrize("name", list(CONDITIONS))
def test_a_question_brings_its_date_and_text_under_every_condition(name: str) -> None:
    condition = CONDITIONS[name]
    history = HISTORY if condition.history != "none" else None

    prompt = question_prompt(QUESTION, condition, history)

    assert prompt.endswith("Current date: 10 June, 2023\nQuestion: Which tree did Mira plant?")
    assert ("memory" in prompt) == condition.forms_memory
    assert (sessions_text(HISTORY.sessions) in prompt) == (history is not None)
    assert re.findall(r"\{[a-z]+\}", prompt) == []


@given(ODD_TEXT, ODD_TEXT)
def test_any_text_arrives_as_it_is(speech: str, asked: str) -> None:
    sitting = Session(1, SITTINGS[0].date, "today", (Turn("Mira", f"{speech} {{question}} {{date}}"),))
    history = History("x", "group-chat", ("Mira", "Jonas"), (sitting,))

    assert f"Mira: {speech} {{question}} {{date}}\n" in ingestion_prompt(history, sitting)
    prompt = question_prompt(
        Question("q", "x", "today", f"{asked} {{history}}"), CONDITIONS["oracle"], history
    )
    assert prompt.endswith(f"Question: {asked} {{history}}")
    assert prompt.count(f"Mira: {speech} {{question}} {{date}}\n") >= 1


def test_a_place_that_nobody_fills_stays_as_it_is() -> None:
    assert fill("{date}: {other} {x y} {}", {"date": "today"}) == "today: {other} {x y} {}"


def test_every_prompt_is_in_the_manifest_with_a_hash_of_its_own() -> None:
    hashes = prompt_hashes()
    assert set(hashes) == {
        "ingest-group-chat",
        "ingest-assistant-chat",
        "question-baseline",
        "question-history",
        "question-memory",
    }
    assert len(set(hashes.values())) == len(hashes)
    assert all(re.fullmatch(r"[0-9a-f]{16}", value) for value in hashes.values())
