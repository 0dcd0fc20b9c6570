"""Evidence marks in every spelling, and dates without the machine's locale."""

from calendar import month_name
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_dshmem.datasets.dates import spoken_date, stamp_date
from pytest_dshmem.datasets.evidence import EvidenceMap, find_evidence, read_marks
from pytest_dshmem.datasets.views import EvidencePlace

NUMBERS = st.integers(0, 99_999)
MARKS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=6)
KNOWN = EvidenceMap({"D3:1": EvidencePlace(1, 1), "D3:2": EvidencePlace(1, 2)}, {3: 1})


@given(MARKS, st.sampled_from([" ", ";", "; ", ", "]), st.sampled_from(["D", "D:"]))
def test_joined_marks_are_read_as_each_alone(marks: list[tuple[int, int]], joint: str, prefix: str) -> None:
    assert read_marks(joint.join(f"{prefix}{session}:{turn}" for session, turn in marks)) == marks


@given(st.lists(st.text(alphabet="D:;0123 x", max_size=20), max_size=5))
def test_any_text_gives_known_places_only(marks: list[str]) -> None:
    found = find_evidence(marks, KNOWN)
    assert set(found.places) <= {EvidencePlace(1), EvidencePlace(1, 1), EvidencePlace(1, 2)}
    assert len(set(found.places)) == len(found.places)
    assert found.irregular == any(mark not in KNOWN.turns for mark in marks)


@given(st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31)))
def test_dates_are_read_back(moment: datetime) -> None:
    moment = moment.replace(second=0, microsecond=0)
    half = "am" if moment.hour < 12 else "pm"
    spoken = (
        f"{moment.hour % 12 or 12}:{moment.minute:02} {half} on {moment.day} {month_name[moment.month]}, "
    )
    assert spoken_date(f"{spoken}{moment.year}") == moment
    assert stamp_date(f"{moment:%Y/%m/%d} (Tue) {moment:%H:%M}") == moment


@pytest.mark.parametrize(
    "text", ["", "13:00 pm on 8 May, 2023", "0:10 am on 8 May, 2023", "1:56 pm on 8 Mai, 2023"]
)
def test_a_spoken_date_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a date like|has no hour"):
        spoken_date(text)


@pytest.mark.parametrize("text", ["", "2023-05-30 23:40", "2023/13/30 (Tue) 23:40", "2023/05/30 (Tue) 24:00"])
def test_a_stamp_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        stamp_date(text)
