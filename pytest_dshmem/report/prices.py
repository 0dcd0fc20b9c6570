"""Money, only from prices that somebody wrote down with their source and date.

A price file is TOML; rates are per million tokens:

    source = "the provider's price page"
    date = 2026-01-15
    currency = "USD"

    [models."some-model"]
    input = 0.28
    cache_read = 0.028
    output = 0.42

    [[models."some-model".windows]]     # optional: other rates at certain times of the day, in UTC
    from = 16:30:00
    to = 00:30:00
    input = 0.14
    cache_read = 0.014
    output = 0.21

A class of tokens without a rate has no known price: never free, never guessed, what it costs is None.
"""

import datetime
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pytest_dshmem.record.entries import Call, Usage

MILLION = Decimal(1_000_000)


class PriceError(Exception):
    """A price file that cannot be used: which file, what is wrong in it, and what to do."""


Rate = Annotated[Decimal, Field(ge=0)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Rates(_Table):
    """Money per million tokens of each class; None where it is not known."""

    input: Rate | None = None
    cache_read: Rate | None = None
    cache_write: Rate | None = None
    output: Rate | None = None

    def cost(self, usage: Usage) -> Decimal | None:
        """What these tokens cost; None where a class that was used has no rate. Output holds reasoning."""
        classes = (
            (usage.input, self.input),
            (usage.cache_read, self.cache_read),
            (usage.cache_write, self.cache_write),
            (usage.output, self.output),
        )
        total = Decimal(0)
        for tokens, rate in classes:
            if tokens and rate is None:
                return None
            total += tokens * (rate or Decimal(0)) / MILLION
        return total


class Window(Rates):
    """Rates for a part of the day in UTC, `from` included and `to` not; it may reach over midnight."""

    start: datetime.time = Field(alias="from")
    end: datetime.time = Field(alias="to")

    def holds(self, moment: datetime.time) -> bool:
        if self.start <= self.end:
            return self.start <= moment < self.end
        return moment >= self.start or moment < self.end


class ModelPrices(Rates):
    """The rates of one model, and those that replace them at certain times of the day."""

    windows: tuple[Window, ...] = ()

    def rates_at(self, started_at: float) -> Rates:
        moment = datetime.datetime.fromtimestamp(started_at, datetime.UTC).time()
        return next((window for window in self.windows if window.holds(moment)), self)


class Prices(_Table):
    """A price file."""

    source: str = Field(min_length=1)
    date: datetime.date
    currency: str = Field(min_length=1)
    models: dict[str, ModelPrices]

    def as_record(self) -> dict[str, Any]:
        """The prices as plain JSON values, to be stored with the run that they were used for."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


@dataclass(frozen=True, slots=True)
class Cost:
    """What some calls cost: the part that is known, and how many calls have no known price.

    `known` is None where there were calls and not one of them has a price. Where `unpriced` is not 0, the sum
    is a lower bound.
    """

    known: Decimal | None
    unpriced: int

    @property
    def complete(self) -> bool:
        return self.unpriced == 0


def load_prices(path: Path) -> Prices:
    """Reads a price file. Raises PriceError, which names the file and the place in it."""
    try:
        text = path.read_text(encoding="utf-8")
        return Prices.model_validate(tomllib.loads(text, parse_float=Decimal))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PriceError(f"the price file {path} cannot be read: {reason}") from None
    except tomllib.TOMLDecodeError as error:
        raise PriceError(f"the price file {path} is not valid TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise PriceError(f"the price file {path} cannot be used: {place}: {first['msg']}") from None


def money(call: Call, prices: Prices) -> Decimal | None:
    """What one call cost in the file's currency; None where its usage, model or a class's rate is unknown."""
    if call.usage is None or call.model not in prices.models:
        return None
    return prices.models[call.model].rates_at(call.started_at).cost(call.usage)


def total_cost(calls: Iterable[Call], prices: Prices, unseen: int = 0) -> Cost:
    """What calls cost together. `unseen` counts the calls or runs that nobody could meter at all."""
    amounts = [money(call, prices) for call in calls]
    known = [amount for amount in amounts if amount is not None]
    unpriced = len(amounts) - len(known) + unseen
    return Cost(sum(known, Decimal(0)) if known or not unpriced else None, unpriced)
