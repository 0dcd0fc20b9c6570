"""Dates: read in many spellings, written in one, relative ones made absolute."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_dshmem.offline.dates import first_date, with_dates_resolved, with_dates_written_alike, written

FRIDAY = date(2024, 3, 15)


@pytest.mark.parametrize(
    "spelling",
    [
        "1:56 pm on 15 March, 2024",
        "2024/03/15 (Fri) 23:40",
        "2024-03-15",
        "March 15, 2024",
        "Mar. 15th 2024",
        "the 15th of March 2024",
        "15 MARCH 2024",
    ],
)
def test_a_date_is_read_in_any_common_spelling(spelling: str) -> None:
    assert first_date(spelling) == FRIDAY


@pytest.mark.parametrize("text", ["", "soon", "31 February 2024", "2024/13/40", "in March"])
def test_what_is_no_full_date_is_none(text: str) -> None:
    assert first_date(text) is None


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("yesterday", "14 March 2024"),
        ("last night", "14 March 2024"),
        ("the day before yesterday", "13 March 2024"),
        ("this morning", "15 March 2024"),
        ("tomorrow", "16 March 2024"),
        ("3 days ago", "12 March 2024"),
        ("two weeks ago", "1 March 2024"),
        ("a month ago", "February 2024"),
        ("ten years ago", "2014"),
        ("last Friday", "8 March 2024, the Friday before 15 March 2024"),
        ("next Friday", "22 March 2024, the Friday after 15 March 2024"),
        ("this past Sunday", "10 March 2024, the Sunday before 15 March 2024"),
        ("last week", "the week before 15 March 2024"),
        ("this weekend", "the weekend of 15 March 2024"),
        ("next week", "the week after 15 March 2024"),
        ("last month", "February 2024"),
        ("next month", "April 2024"),
        ("last year", "2023"),
        ("last June", "June 2023"),
        ("next January", "January 2025"),
        ("this March", "March 2024"),
    ],
)
def test_a_relative_date_gets_its_meaning_in_brackets(said: str, meant: str) -> None:
    assert with_dates_resolved(f"We met {said}.", FRIDAY) == f"We met {said} [{meant}]."


@pytest.mark.parametrize("text", ["I may come.", "the past year was hard", "at last we won", "in ages"])
def test_what_is_no_relative_date_stays_alone(text: str) -> None:
    assert with_dates_resolved(text, FRIDAY) == text


def test_a_meaning_outside_of_the_calendar_is_left_out() -> None:
    assert with_dates_resolved("yesterday", date.min) == "yesterday"
    assert with_dates_resolved("next month", date(9999, 12, 1)) == "next month"


def test_dates_are_written_alike_and_the_rest_is_untouched() -> None:
    assert (
        with_dates_written_alike("From 2024-03-15 to June 1st, 2024!") == "From 15 March 2024 to 1 June 2024!"
    )


@given(st.dates())
def test_a_written_date_reads_back(day: date) -> None:
    assert first_date(f"On {written(day)}.") == (day if day.year >= 1000 else None)


@given(st.text(), st.dates())
def test_any_text_can_be_resolved(text: str, day: date) -> None:
    with_dates_resolved(text, day)
    with_dates_written_alike(text)
