"""Numbers as people read them, the same in the terminal and in HTML. What is not known is never 0."""

from decimal import Decimal

UNKNOWN = "unknown"
NOTHING = "-"
AT_LEAST = "≥"


def whole(value: float | None, at_least: bool = False) -> str:
    """A count with thousands separators: 12,345."""
    return UNKNOWN if value is None else _bound(at_least) + f"{value:,.0f}"


def percent(fraction: float | None) -> str:
    """A share with one decimal: 73.1 %."""
    return NOTHING if fraction is None else f"{100 * fraction:.1f} %"


def percent_range(low: float, high: float) -> str:
    """An interval of shares: 65.7-79.3 %."""
    return f"{100 * low:.1f}-{100 * high:.1f} %"


def compact(value: float | None, at_least: bool = False) -> str:
    """A count in few characters: 812, 12.3k, 4.1M."""
    if value is None:
        return UNKNOWN
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return _bound(at_least) + f"{value / scale:.1f}{unit}"
    return whole(value, at_least)


def duration(seconds: float | None) -> str:
    """A time in few characters: 84 ms, 3.5 s, 12m05s, 3h20m."""
    if seconds is None:
        return NOTHING
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours:,}h{minutes:02d}m"


def size(count: float | None) -> str:
    """A number of bytes: 812 bytes, 12.4 kB, 3.1 MB."""
    if count is None:
        return UNKNOWN
    for unit, scale in (("MB", 1_000_000), ("kB", 1_000)):
        if count >= scale:
            return f"{count / scale:,.1f} {unit}"
    return f"{count:,.0f} bytes"


def money(amount: Decimal | None, currency: str, at_least: bool = False) -> str:
    """An amount with two decimals, or with two digits that are not zero: 12.34 USD, 0.0021 USD."""
    if amount is None:
        return UNKNOWN
    decimals = 2 if amount == 0 else max(2, 1 - amount.adjusted())
    return _bound(at_least) + f"{amount:,.{decimals}f} {currency}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 call`, `3 calls`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _bound(at_least: bool) -> str:
    return AT_LEAST if at_least else ""
