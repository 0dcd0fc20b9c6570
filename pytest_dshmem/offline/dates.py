"""Dates in English text: read in several spellings, written in one, and relative ones made absolute."""

import re
from collections.abc import Callable
from datetime import date, timedelta
from functools import lru_cache

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_MONTH_NUMBERS = {month[:3].lower(): number for number, month in enumerate(MONTHS, 1)}
_MONTH = "(?P<{}>" + "|".join(f"{month[:3]}(?:{month[3:]})?" for month in MONTHS) + r")\.?"
_DATE = re.compile(
    r"\b(?:(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})"
    rf"|(?P<day_first>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH.format('month_name')},?"
    r" (?P<year_after>\d{4})"
    rf"|{_MONTH.format('name_first')} (?P<day_after>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year_last>\d{{4}}))\b",
    re.IGNORECASE,
)
_COUNT = {
    "a": 1,
    "one": 1,
    "a couple of": 2,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
}
_COUNT |= {"eight": 8, "nine": 9, "ten": 10}
_WEEKDAY = "|".join(WEEKDAYS)
_RELATIVE = re.compile(
    r"\b(?:(?P<near>the day before yesterday|yesterday|last night|today|tonight|this morning|this afternoon"
    r"|this evening|tomorrow)"
    rf"|(?P<count>\d{{1,2}}|{'|'.join(sorted(_COUNT, key=len, reverse=True))})"
    r" (?P<unit>day|week|month|year)s? ago"
    rf"|(?P<side>last|this past|past|this coming|coming|this|next) "
    rf"(?P<what>week(?:end)?|month|year|{_WEEKDAY}|{'|'.join(m for m in MONTHS if m != 'May')}))\b",
    re.IGNORECASE,
)
_NEAR_DAYS = {"the day before yesterday": -2, "yesterday": -1, "last night": -1, "tomorrow": 1}


def written(day: date) -> str:
    """A date as this model writes it: `8 May 2023`."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


@lru_cache(maxsize=4_096)
def first_date(text: str) -> date | None:
    """The first full date in a text, in any of the spellings that are read."""
    for match in _DATE.finditer(text):
        found = _date_of(match)
        if found is not None:
            return found
    return None


def with_dates_written_alike(text: str) -> str:
    """The text with each full date spelled as `written` spells it."""

    def rewrite(match: re.Match[str]) -> str:
        found = _date_of(match)
        return match[0] if found is None else written(found)

    return _DATE.sub(rewrite, text)


def with_dates_resolved(text: str, said_on: date) -> str:
    """The text with an absolute date in brackets behind each relative one, seen from the day it was said."""

    def annotate(match: re.Match[str]) -> str:
        meaning = _meaning(match, said_on)
        return match[0] if meaning is None else f"{match[0]} [{meaning}]"

    return _RELATIVE.sub(annotate, text)


def _date_of(match: re.Match[str]) -> date | None:
    parts = match.groupdict()
    name = parts["month_name"] or parts["name_first"]
    month = _MONTH_NUMBERS[name[:3].lower()] if name else int(parts["month"])
    year = parts["year"] or parts["year_after"] or parts["year_last"]
    day = parts["day"] or parts["day_first"] or parts["day_after"]
    try:
        return date(int(year), month, int(day))
    except ValueError:
        return None


def _meaning(match: re.Match[str], said_on: date) -> str | None:
    try:
        if match["near"]:
            return written(said_on + timedelta(days=_NEAR_DAYS.get(match["near"].lower(), 0)))
        if match["unit"]:
            return _some_time_ago(match["count"].lower(), match["unit"].lower(), said_on)
        return _beside(match["side"].lower(), match["what"].capitalize(), said_on)
    except (OverflowError, ValueError):  # before year 1 or after 9999
        return None


def _some_time_ago(count: str, unit: str, said_on: date) -> str:
    number = int(count) if count.isdigit() else _COUNT[count]
    if unit == "year":
        return str(said_on.year - number)
    if unit == "month":
        return _month_and_year(said_on, -number)
    return written(said_on - timedelta(days=number * (7 if unit == "week" else 1)))


def _beside(side: str, what: str, said_on: date) -> str | None:
    step = {"last": -1, "this past": -1, "past": -1, "this": 0}.get(side, 1)
    if what in WEEKDAYS:
        return _weekday(step or 1, WEEKDAYS.index(what), said_on)
    if what in MONTHS:
        return _named_month(step, MONTHS.index(what) + 1, said_on)
    if side in ("past", "coming"):  # "the past year" is a span, not a date
        return None
    calendar: dict[str, Callable[[], str]] = {
        "Year": lambda: str(said_on.year + step),
        "Month": lambda: _month_and_year(said_on, step),
    }
    if what in calendar:
        return calendar[what]()
    place = {-1: "before", 0: "of", 1: "after"}[step]
    return f"the {what.lower()} {place} {written(said_on)}"


def _weekday(step: int, weekday: int, said_on: date) -> str:
    distance = (step * (weekday - said_on.weekday())) % 7 or 7
    place = "before" if step < 0 else "after"
    there = said_on + timedelta(days=step * distance)
    return f"{written(there)}, the {WEEKDAYS[weekday]} {place} {written(said_on)}"


def _named_month(step: int, month: int, said_on: date) -> str:
    year = said_on.year
    if step < 0 and month >= said_on.month:
        year -= 1
    if step > 0 and month <= said_on.month:
        year += 1
    return f"{MONTHS[month - 1]} {year}"


def _month_and_year(said_on: date, step: int) -> str:
    year, month = divmod(said_on.year * 12 + said_on.month - 1 + step, 12)
    return f"{MONTHS[month]} {date(year, month + 1, 1).year}"
