"""A run's budget in tokens or money: what all its calls have come to, whoever made them, and when to stop.

The journals are followed, so that calls of earlier sessions and of other processes count like those of this
one. What nobody could meter is not in the sum; it is counted, and said beside it.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal

from pytest_dshmem.record.entries import Call, Consolidation
from pytest_dshmem.record.run_directory import RunDirectory

Price = Callable[[Call], Decimal | None]
"""What a metered call cost; None where that cannot be known."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What a run may use. `price` and `currency` belong to `cost`."""

    tokens: int | None = None
    cost: Decimal | None = None
    price: Price = lambda _call: None
    currency: str = ""


class Budget:
    """The account of one run, held against a limit. May be asked by several threads."""

    def __init__(self, run: RunDirectory, limit: Limit) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._steps = (run.ingestions.reader(), run.consolidations.reader())
        self._questions = (run.hypotheses.reader(), run.verdicts.reader())
        self._tokens = 0
        self._cost = Decimal(0)
        self._unseen = 0
        self._unpriced: str | None = None

    def why_stop(self) -> str | None:
        """Why nothing more may be begun, in one sentence; None while there is something left."""
        with self._lock:
            self._read_news()
            return self._over_tokens() or self._over_cost()

    def _read_news(self) -> None:
        for reader in self._steps:
            for step in reader.new_entries():
                self._take(step.calls)
                self._unseen += isinstance(step, Consolidation) and not step.metered
        for journal in self._questions:
            for entry in journal.new_entries():
                self._take(entry.calls)

    def _take(self, calls: Iterable[Call]) -> None:
        for call in calls:
            if call.usage is None:
                self._unseen += call.failure is None
                continue
            self._tokens += call.usage.tokens
            if self._limit.cost is not None:
                self._charge(call)

    def _charge(self, call: Call) -> None:
        amount = self._limit.price(call)
        if amount is None:
            self._unpriced = self._unpriced or call.model
        else:
            self._cost += amount

    def _over_tokens(self) -> str | None:
        most = self._limit.tokens
        if most is None or self._tokens < most:
            return None
        return (
            f"the budget of {most:,} tokens is used up: {self._tokens:,} were counted{self._beside()}; "
            "the same command with a larger budget continues"
        )

    def _over_cost(self) -> str | None:
        most, currency = self._limit.cost, self._limit.currency
        if most is None:
            return None
        if self._unpriced is not None:
            return (
                f"the cost cannot be known: the price file lacks a rate for a call of {self._unpriced}; add "
                "it, and the same command continues"
            )
        if self._cost < most:
            return None
        return (
            f"the budget of {most:,f} {currency} is used up: {self._cost:,.4f} {currency} were spent"
            f"{self._beside()}; the same command with a larger budget continues"
        )

    def _beside(self) -> str:
        return f" beside {self._unseen:,} calls or runs that nobody could meter" if self._unseen else ""
