"""LoCoMo: the file's traits as they really are, on chats of our own writing."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_dshmem.datasets.cache import file_sha256
from pytest_dshmem.datasets.locomo import LoCoMo
from pytest_dshmem.datasets.views import DataError, EvidencePlace

Json = dict[str, Any]
Open = Callable[..., LoCoMo]


def test_a_chat_becomes_a_dated_history_of_two_people(open_locomo: Open, chat: Json) -> None:
    history = open_locomo(chat).history("conv-x")
    assert (history.sample_id, history.setting, history.participants) == (
        "conv-x",
        "group-chat",
        ("Ann", "Bo"),
    )
    assert [session.number for session in history.sessions] == [1, 2]
    assert history.sessions[0].date == datetime(2023, 5, 8, 13, 56)
    assert history.sessions[1].date == datetime(2023, 5, 9, 0, 9)
    assert history.sessions[1].date_text == "12:09 am on 9 May, 2023"
    assert history.sessions[0].turns[0].text == "I have a boat."


def test_captions_are_shown_by_default_and_search_words_never(open_locomo: Open, chat: Json) -> None:
    shown = open_locomo(chat).history("conv-x")
    hidden = open_locomo(chat, captions=False).history("conv-x")
    assert [turn.caption for turn in shown.sessions[0].turns] == [None, "a red kite"]
    assert [turn.caption for turn in hidden.sessions[0].turns] == [None, None]
    assert "secretword" not in repr(shown)


def test_an_id_is_the_index_among_all_questions_and_adversarial_ones_are_not_asked(
    open_locomo: Open, chat: Json
) -> None:
    chat["qa"].insert(1, {"question": "?", "adversarial_answer": "x", "evidence": ["D1:1"], "category": 5})
    benchmark = open_locomo(chat)
    assert [listing.question_id for listing in benchmark.listings()] == ["conv-x-q000", "conv-x-q002"]
    assert [listing.category for listing in benchmark.listings()] == ["single-hop", "multi-hop"]
    assert benchmark.oddities()["adversarial questions left out"] == 1


def test_a_question_is_asked_on_the_date_of_the_latest_session(open_locomo: Open, chat: Json) -> None:
    question = open_locomo(chat).question("conv-x-q000")
    assert question.asked_on == "12:09 am on 9 May, 2023"
    assert question.text == "What has Ann?"


def test_sessions_are_ordered_by_number_and_dates_alone_make_no_session(
    open_locomo: Open, chat: Json
) -> None:
    conversation = chat["conversation"]
    conversation["session_10"] = [{"speaker": "Ann", "dia_id": "D10:1", "text": "Last."}]
    conversation["session_10_date_time"] = "1:00 pm on 1 June, 2023"
    conversation["session_11_date_time"] = "1:00 pm on 2 June, 2023"
    chat["qa"][0]["evidence"] = ["D10:1"]
    benchmark = open_locomo(chat)
    assert [session.turns[0].text for session in benchmark.history("conv-x").sessions][-1] == "Last."
    assert benchmark.reference("conv-x-q000").evidence == (EvidencePlace(3, 1),)
    assert benchmark.oddities()["dates without a session"] == 1


def test_integer_answers_become_text_and_golds_stay_as_they_are(open_locomo: Open, chat: Json) -> None:
    chat["qa"][0]["answer"] = " runtogether words ; why"
    benchmark = open_locomo(chat)
    assert benchmark.reference("conv-x-q001").gold == "1"
    assert benchmark.reference("conv-x-q000").gold == " runtogether words ; why"
    assert benchmark.oddities()["answers that are numbers"] == 1


@pytest.mark.parametrize(
    ("marks", "places", "stray"),
    [
        (["D1:1"], [(1, 1)], 0),
        (["D1:1; D2:1"], [(1, 1), (2, 1)], 0),
        (["D1:1 D1:2 D2:1"], [(1, 1), (1, 2), (2, 1)], 0),
        (["D:2:1"], [(2, 1)], 0),
        (["D1:02"], [(1, 2)], 0),
        (["D"], [], 1),
        (["D1:9"], [(1, None)], 1),
        (["D7:1"], [], 1),
        (["D1:1", "D1:1"], [(1, 1)], 0),
        ([], [], 0),
    ],
)
def test_no_way_of_writing_evidence_costs_the_question(
    open_locomo: Open, chat: Json, marks: list[str], places: list[tuple[int, int | None]], stray: int
) -> None:
    chat["qa"][0]["evidence"] = marks
    benchmark = open_locomo(chat)
    assert benchmark.reference("conv-x-q000").evidence == tuple(EvidencePlace(*place) for place in places)
    assert benchmark.oddities().get("evidence marks without a turn", 0) == stray
    assert len(benchmark.listings()) == 2


def test_a_question_that_stands_twice_is_two_questions(open_locomo: Open, chat: Json) -> None:
    chat["qa"].append(dict(chat["qa"][0]))
    benchmark = open_locomo(chat)
    assert len(benchmark.listings()) == 3
    assert benchmark.oddities()["questions that stand twice in a sample"] == 1


def drop(path: str) -> Callable[[Json], None]:
    def change(chat: Json) -> None:
        *steps, last = path.split(".")
        for step in steps:
            chat = chat[int(step)] if isinstance(chat, list) else chat[step]
        del chat[last]

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (drop("sample_id"), "'sample_id' is missing"),
        (drop("conversation.speaker_b"), "'speaker_b' is missing"),
        (drop("conversation.session_2_date_time"), "'session_2_date_time' is missing"),
        (drop("conversation.session_1.0.text"), "session_1[0]: the field 'text' is missing"),
        (drop("qa.1.evidence"), "qa[1]: the field 'evidence' is missing"),
        (drop("qa.0.answer"), "qa[0]: the field 'answer' is missing"),
        (lambda chat: chat["qa"][0].update(category=7), "the category is 7"),
        (lambda chat: chat["qa"][0].update(question=" "), "'question' is blank"),
        (lambda chat: chat["qa"][0].update(answer=True), "'answer' should be a text, not a truth value"),
        (lambda chat: chat.update(qa={}), "'qa' should be a list, not an object"),
        (lambda chat: chat["conversation"].update(session_1=None), "'session_1' should be a list, not null"),
        (lambda chat: chat["conversation"].update(session_1=[3]), "session_1[0]: expected an object"),
        (lambda chat: chat["conversation"].update(session_1_date_time="8 May"), "'8 May' is not a date like"),
        (lambda chat: chat["conversation"]["session_1"][0].update(text="\ud800"), "half a surrogate pair"),
        (lambda chat: chat.update(sample_id="ö/x"), "only ASCII letters"),
    ],
)
def test_a_bad_structure_is_named_with_file_and_field(
    open_locomo: Open, chat: Json, change: Callable[[Json], None], named: str
) -> None:
    change(chat)
    with pytest.raises(DataError) as raised:
        open_locomo(chat).listings()
    assert "chats.json, sample 0" in str(raised.value)
    assert named in str(raised.value)


def test_two_samples_of_one_id_are_refused(open_locomo: Open, chat: Json) -> None:
    with pytest.raises(DataError, match="'conv-x' occurs twice"):
        open_locomo(chat, chat).listings()


@pytest.mark.parametrize("text", ["", "{", "[]", "[1", '"x"', "\x00", "[" * 100_000])
def test_broken_json_is_one_sentence(open_locomo: Open, chat: Json, tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    file = replace(open_locomo(chat).file, sha256=file_sha256(path))
    with pytest.raises(DataError, match=r"broken\.json"):
        LoCoMo(path, file).listings()


def test_a_file_that_changed_after_it_was_hashed_is_refused(
    open_locomo: Open, chat: Json, tmp_path: Path
) -> None:
    benchmark = open_locomo(chat)
    (tmp_path / "chats.json").write_text("[]")
    with pytest.raises(DataError, match="has changed since it was opened"):
        benchmark.listings()


def test_an_unknown_id_is_named(open_locomo: Open, chat: Json) -> None:
    with pytest.raises(DataError, match="no question 'conv-x-q999'"):
        open_locomo(chat).question("conv-x-q999")
