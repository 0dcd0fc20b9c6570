"""The date texts of both data sets. Read without the machine's locale, which `strptime` would consult."""

import re
from datetime import datetime

_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_SPOKEN = re.compile(r"(\d{1,2}):(\d{2}) ([ap])m on (\d{1,2}) ([a-z]+), (\d{4})", re.IGNORECASE | re.ASCII)
_STAMP = re.compile(r"(\d{4})/(\d{2})/(\d{2}) \([A-Za-z]{3}\) (\d{2}):(\d{2})", re.ASCII)


def spoken_date(text: str) -> datetime:
    """LoCoMo's `1:56 pm on 8 May, 2023`. Raises ValueError for anything else."""
    match = _SPOKEN.fullmatch(text.strip())
    if match is None or match[5].lower() not in _MONTHS:
        raise ValueError(f"{text!r} is not a date like '1:56 pm on 8 May, 2023'")
    hour, minute, half, day, month, year = match.groups()
    if not 1 <= int(hour) <= 12:
        raise ValueError(f"{text!r} has no hour between 1 and 12")
    hours = int(hour) % 12 + (12 if half.lower() == "p" else 0)
    return datetime(int(year), _MONTHS.index(month.lower()) + 1, int(day), hours, int(minute))


def stamp_date(text: str) -> datetime:
    """LongMemEval's `2023/05/30 (Tue) 23:40`. Raises ValueError for anything else."""
    match = _STAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a date like '2023/05/30 (Tue) 23:40'")
    year, month, day, hour, minute = (int(part) for part in match.groups())
    return datetime(year, month, day, hour, minute)
