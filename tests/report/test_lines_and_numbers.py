"""Text for 80 columns and numbers for people."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_dshmem.report.lines import WIDTH, Row, clip, columns, entry, heading, paragraph, table
from pytest_dshmem.report.numbers import compact, duration, money, percent, plural, size, whole

texts = st.text(max_size=200)
rows = st.lists(st.lists(texts, min_size=1, max_size=8).map(lambda cells: Row(tuple(cells))), max_size=5)


@given(texts, texts, rows)
def test_no_line_is_wider_than_the_terminal_or_broken(label: str, text: str, cells: list[Row]) -> None:
    for line in [heading(label), *paragraph(text), *entry(label, text), *table(cells)]:
        assert columns(line.text) <= WIDTH
        assert len(line.text.splitlines()) <= 1
        assert "\x1b" not in line.text


@given(texts, st.integers(1, 100))
def test_clipping_keeps_what_fits_and_marks_what_it_cut(text: str, width: int) -> None:
    cut = clip(text, width)
    assert columns(cut) <= width
    assert cut == text if columns(text) <= width else cut.endswith("…")


def test_columns_line_up_and_numbers_stand_to_the_right() -> None:
    lines = table([Row(("", "calls")), Row(("qa", "7")), Row(("ingestion", "1,234"))])
    assert [line.text for line in lines] == ["             calls", "  qa             7", "  ingestion  1,234"]


def test_a_table_that_is_too_wide_is_set_close_before_a_label_is_cut() -> None:
    cells = ("x" * 20,) * 3
    fits = table([Row(("a" * 17, *cells))])[0].text
    assert "a" * 17 in fits
    assert len(fits) == WIDTH
    assert "…" in table([Row(("a" * 18, *cells))])[0].text


def test_wide_and_invisible_characters_take_the_columns_that_they_take() -> None:
    assert columns("記憶") == 4
    assert columns("e\u0301\u200b") == 1


def test_a_row_with_fewer_cells_is_filled() -> None:
    assert [line.text for line in table([Row(("a", "b")), Row(("c",))])] == ["  a  b", "  c"]


def test_no_rows_make_no_table() -> None:
    assert table([]) == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0 s"),
        (0.0841, "84 ms"),
        (0.9996, "1.0 s"),
        (3.54, "3.5 s"),
        (59.96, "1m00s"),
        (725, "12m05s"),
        (3599.7, "1h00m"),
        (12_000, "3h20m"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (whole(1234567), "1,234,567"),
        (whole(1234, at_least=True), "≥1,234"),
        (whole(None), "unknown"),
        (whole(None, at_least=True), "unknown"),
        (compact(999), "999"),
        (compact(12_345), "12.3k"),
        (compact(4_100_000, at_least=True), "≥4.1M"),
        (percent(0.73051), "73.1 %"),
        (percent(None), "-"),
        (size(812), "812 bytes"),
        (size(12_400), "12.4 kB"),
        (size(3_100_000), "3.1 MB"),
        (size(None), "unknown"),
        (money(Decimal("12.345"), "USD"), "12.34 USD"),
        (money(Decimal("0.00213"), "USD", at_least=True), "≥0.0021 USD"),
        (money(Decimal("0.0000602"), "USD"), "0.000060 USD"),
        (money(Decimal(0), "EUR"), "0.00 EUR"),
        (money(None, "USD"), "unknown"),
        (plural(1, "call"), "1 call"),
        (plural(2, "run or so", "runs or so"), "2 runs or so"),
    ],
)
def test_numbers(written: str, text: str) -> None:
    assert written == text
