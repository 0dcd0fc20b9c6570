"""How a judge's reply is read: well-formed or not at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_dshmem.experiment.judging.parse import read_json_verdict, read_yes_no, writable


@pytest.mark.parametrize(
    ("reply", "correct", "reason"),
    [
        ('{"reason": "same day", "verdict": "correct"}', True, "same day"),
        ('{"reason": "other day", "verdict": "wrong"}', False, "other day"),
        ('\n  {"verdict": "correct"}\n', True, None),
        ('{"verdict": "Correct", "reason": 3}', True, None),
        ('```json\n{"verdict": "wrong"}\n```', False, None),
        ('```\n{"verdict": "wrong"}\n```\n', False, None),
    ],
)
def test_one_json_object_is_read(reply: str, correct: bool, reason: str | None) -> None:
    reading = read_json_verdict(reply)
    assert (reading.correct, reading.reason, reading.readable) == (correct, reason, True)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "correct",
        '"correct"',
        "null",
        '["correct"]',
        '{"verdict": "correct"} {"verdict": "wrong"}',
        '{"verdict": "correct", "verdict": "wrong"}',
        '{"verdict": "correct", "verdict": "correct"}',
        'Here it is: {"verdict": "correct"}',
        '{"verdict": "correct"} I hope that helps.',
        '```json\n{"verdict": "wrong"}\n```\n```json\n{"verdict": "correct"}\n```',
        '{"verdict": "incorrect"}',
        '{"verdict": "yes"}',
        '{"verdict": true}',
        '{"verdict": ["correct"]}',
        '{"reason": "verdict: correct"}',
        '{"inner": {"verdict": "correct"}}',
        '{"verdict": "correct"',
        "[" * 100_000,
    ],
)
def test_anything_else_is_unparsed_with_a_reason(reply: str) -> None:
    reading = read_json_verdict(reply)
    assert reading.correct is None
    assert reading.reason


@given(st.text())
def test_arbitrary_text_never_raises_and_never_yields_a_verdict(reply: str) -> None:
    assert read_json_verdict(reply).correct is None


@given(
    st.dictionaries(st.text(), st.text() | st.integers() | st.none()).filter(lambda d: "verdict" not in d),
    st.sampled_from(["correct", "wrong"]),
    st.text(" \n\t"),
)
def test_a_verdict_is_found_among_whatever_else_the_object_holds(
    others: dict[str, object], word: str, around: str
) -> None:
    reply = around + json.dumps({**others, "verdict": word}) + around
    assert read_json_verdict(reply).correct is (word == "correct")


@given(st.text(min_size=1).filter(str.strip), st.sampled_from(["correct", "wrong"]))
def test_text_beside_the_object_spoils_it(beside: str, word: str) -> None:
    whole = json.dumps({"verdict": word})
    assert read_json_verdict(beside + whole).correct is None
    assert read_json_verdict(whole + beside).correct is None


@pytest.mark.parametrize(
    ("reply", "official", "strict"),
    [
        ("yes", True, True),
        ("Yes.", True, True),
        (" **YES** \n", True, True),
        ("no", False, False),
        ("No!", False, False),
        ("Yes, it is.", True, None),
        ("No, although yesterday fits.", True, None),
        ("Correct.", False, None),
        ("...", False, None),
    ],
)
def test_official_and_strict_label(reply: str, official: bool, strict: bool | None) -> None:
    reading = read_yes_no(reply)
    assert (reading.correct, reading.strict) == (official, strict)


@pytest.mark.parametrize("reply", ["", " \n"])
def test_a_blank_reply_says_neither_yes_nor_no(reply: str) -> None:
    assert read_yes_no(reply).correct is None


@given(st.text().filter(str.strip))
def test_the_official_label_is_whether_yes_occurs(reply: str) -> None:
    reading = read_yes_no(reply)
    assert reading.correct is ("yes" in reply.lower())
    assert reading.strict in {None, reading.correct}


@given(st.text(st.characters(codec=None)))
def test_what_is_written_is_utf_8_and_unchanged_where_it_was(text: str) -> None:
    written = writable(text)
    written.encode("utf-8")
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert written == text
