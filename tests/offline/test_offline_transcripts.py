"""Sessions in tags, what is kept of them, and memory files as they are read back."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_dshmem.offline.keeping import best_lines, description_of, file_name_of, kept_lines, name_of
from pytest_dshmem.offline.language import declines, is_small_talk, sentences, stems
from pytest_dshmem.offline.transcript import Line, Remark, finished_session_in, lines_in, sessions_in

CHAT = """<session date="4:05 pm on 15 March, 2024">
Ines: Hi Otto! How are you?
Otto: Great, thanks! I bought a red canoe yesterday for 300 euros.
We named it Heron. [shares an image: a canoe on a jetty]
Ines: Wow, lovely!
Ines: My sister Ada moved to Porto last year, so I am learning Portuguese. See you!
Note: this line has a label that nobody speaks under.
</session>"""


def test_a_session_has_a_date_speakers_and_remarks_of_several_lines() -> None:
    (session,) = sessions_in(f"Read this.\n\n{CHAT}\nThat was all.")

    assert session.said_on == date(2024, 3, 15)
    assert session.speakers == ("Ines", "Otto")
    assert session.remarks[1] == Remark(
        "Otto",
        "Great, thanks! I bought a red canoe yesterday for 300 euros.\n"
        "We named it Heron. [shares an image: a canoe on a jetty]",
    )
    assert session.remarks[-1].text.endswith("speaks under.")


def test_an_assistant_chat_has_its_two_roles_whatever_labels_the_texts_hold() -> None:
    (session,) = sessions_in(
        '<session date="2024/03/15 (Fri) 10:00">\nuser: A recipe?\nassistant: Sure.\n'
        "Flour: 200 g\nFlour: sifted\nSalt: a pinch\n</session>"
    )
    assert session.speakers == ("user", "assistant")
    assert "Flour: 200 g" in session.remarks[1].text


def test_what_is_kept_is_dated_resolved_and_without_courtesies() -> None:
    (session,) = sessions_in(CHAT)
    text = "\n".join(line.written() for line in kept_lines(session))

    assert "- (15 March 2024) Otto: I bought a red canoe yesterday [14 March 2024] for 300 euros." in text
    assert "moved to Porto last year [2023]" in text
    assert "How are you" not in text
    assert "Wow, lovely" not in text


def test_about_half_of_the_sentences_are_kept() -> None:
    (session,) = sessions_in(CHAT)
    said = sum(len(sentences(remark.text)) for remark in session.remarks)
    kept = sum(len(sentences(line.text)) for line in kept_lines(session))
    assert kept == round(said / 2)


def test_no_more_is_kept_than_a_memory_file_can_hold() -> None:
    chatter = " ".join(f"I bought number {number} of my {number * 7} canoes." for number in range(900))
    endless = "rowing further " * 5_000
    (session,) = sessions_in(
        f'<session date="2 May, 2024">\nuser: {chatter}\nassistant: {endless}\n</session>'
    )
    assert 5_000 < sum(len(line.text) for line in kept_lines(session)) < 8_000
    (line,) = best_lines(session, 1, "assistant")
    assert len(line.text) <= 600


def test_the_best_of_one_speaker_are_that_speaker_s_own() -> None:
    (session,) = sessions_in(CHAT)
    (line,) = best_lines(session, 1, "Ines")
    assert (line.speaker, "Porto" in line.text) == ("Ines", True)


def test_two_sessions_of_a_day_have_names_of_their_own_and_an_undated_one_has_a_name() -> None:
    names = [
        name_of(sessions_in(f'<session date="{when}">\nIna: I row.\n</session>')[0])
        for when in ("1 pm on 2 May, 2024", "7 pm on 2 May, 2024", "one day")
    ]
    assert [name.rpartition("-")[0] for name in names] == ["2024-05-02", "2024-05-02", "undated"]
    assert len(set(names)) == 3


@pytest.mark.parametrize(
    ("person", "name"), [("Ines", "ines"), ("Jean-Luc O'Neil", "jean-luc-o-neil"), ("你好", "")]
)
def test_a_person_s_file_name_is_plain(person: str, name: str) -> None:
    assert file_name_of(person) == name


def test_a_description_names_the_telling_words_and_is_short() -> None:
    (session,) = sessions_in(CHAT)
    description = description_of(kept_lines(session), "facts: ")
    assert description.startswith("facts: ")
    assert {"canoe", "portuguese"} <= set(description.replace(",", "").split())
    assert "otto" not in description
    assert len(description_of(tuple(Line(None, "", f"word{n}x") for n in range(500)))) <= 280


def test_written_lines_read_back_with_or_without_line_numbers() -> None:
    lines = (Line(date(2024, 3, 15), "Otto", "I row: often."), Line(date(2023, 1, 2), "Ines", "Me too."))
    text = "---\ndescription: boats\n---\n\n" + "\n".join(line.written() for line in lines)

    assert lines_in(text) == lines
    for mark in (": ", "\t", "→", "|"):
        numbered = "\n".join(f"{number:6}{mark}{line}" for number, line in enumerate(text.split("\n"), 1))
        assert lines_in(numbered) == lines


def test_a_foreign_memory_gives_undated_lines() -> None:
    assert lines_in("# Boats\n\nOtto owns a canoe.\n") == (Line(None, "", "Otto owns a canoe."),)


def test_a_finished_session_is_the_session_told_in_it_or_else_its_own_messages() -> None:
    finished = '<finished_session recorded_on="2025-01-01">\n{}\n</finished_session>'
    told = finished.format(f'<message from="user">\n{CHAT}\n</message>')
    said = finished.format(
        '<message from="user">\nI row.\n</message>\n<message from="assistant">\nNice.\n</message>'
    )
    assert finished_session_in(told) == sessions_in(CHAT)[0]
    found = finished_session_in(said)
    assert found is not None
    assert found.remarks == (Remark("user", "I row."), Remark("assistant", "Nice."))
    assert found.said_on == date(2025, 1, 1)
    assert finished_session_in("nothing") is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("camping", "camped"),
        ("children", "kids"),
        ("bought", "purchases"),
        ("two paintings", "2 painted"),
        ("planned hikes", "plan hiking"),
        ("Ada’s cities", "ada city"),
    ],
)
def test_forms_of_a_word_share_a_stem(one: str, other: str) -> None:
    assert stems(one) == stems(other) != []


def test_courtesy_and_refusal_are_recognised() -> None:
    assert is_small_talk("Wow, that's great!")
    assert not is_small_talk("Great canoe!")
    assert declines("I don’t know.")
    assert declines("There is not enough information.")
    assert not declines("In Porto.")


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_any_body_makes_a_session(body: str) -> None:
    for session in sessions_in(f'<session date="2 May, 2024">{body}</session>'):
        lines = kept_lines(session)
        assert name_of(session)
        assert description_of(lines)
