"""What a run cost: calls, tokens and time by phase, from the records of every attempt.

Cost is what was spent, so failed attempts and repeated units count like all others. `calls` are all requests,
`failed` are those among them that failed. `input` is uncached input: a call's tokens are input + cache_read
+ cache_write + output; `reasoning` is a part of output, shown and never added. A call whose usage nobody
saw is `unmetered`: then sums of tokens are lower bounds and say "at least".
"""

import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Any, Literal, TypeVar

from pytest_dshmem.record.entries import (
    Call,
    Consolidation,
    Formation,
    Hypothesis,
    Ingestion,
    QuestionKey,
    Usage,
    Verdict,
)
from pytest_dshmem.report.prices import Cost, Prices, total_cost
from pytest_dshmem.report.reading import RunReading

Phase = Literal["ingestion", "consolidation", "qa", "judge"]
PHASES: tuple[Phase, ...] = ("ingestion", "consolidation", "qa", "judge")

Attempt = Ingestion | Consolidation | Hypothesis | Verdict
AttemptType = TypeVar("AttemptType", bound=Attempt)
Unit = TypeVar("Unit", bound=Hashable)


@dataclass(frozen=True, slots=True)
class WorkItem:
    """All attempts at one unit of work: a session ingested or consolidated, a question asked or judged.

    `unseen` counts the attempts of which no call could be metered at all.
    """

    calls: tuple[Call, ...]
    seconds: float
    tool_seconds: float
    attempts: int
    unseen: int

    @property
    def unmetered(self) -> int:
        return self.unseen + sum(call.usage is None for call in self.calls)


@dataclass(frozen=True, slots=True)
class Measure:
    """A quantity of a phase: its sum, and what one item took. None where there was nothing to measure.

    `p90` is interpolated linearly between the closest ranks.
    """

    total: float | None
    median: float | None = None
    p90: float | None = None


@dataclass(frozen=True, slots=True)
class PhaseLedger:
    """One phase. Tokens are counts, times are seconds.

    Medians of tokens are over the items that were metered in full. `first_token_seconds` is per call, over
    the calls that came to a first token; all else is per item. `seconds` is end to end, and for the judge it
    is the time of its calls. `cost` is None where no prices were given.
    """

    items: int
    repeated: int
    unmetered: int
    calls: Measure
    failed: Measure
    input: Measure
    cache_read: Measure
    cache_write: Measure
    output: Measure
    reasoning: Measure
    tokens: Measure
    first_token_seconds: Measure
    model_seconds: Measure
    tool_seconds: Measure
    seconds: Measure
    cost: Cost | None

    @property
    def at_least(self) -> bool:
        """Whether token sums are lower bounds."""
        return self.unmetered > 0


@dataclass(frozen=True, slots=True)
class PerQuestion:
    """What one question costs on average, judging left out: the asking alone, or its share of forming too."""

    tokens: float | None
    tokens_at_least: bool
    seconds: float
    money: Decimal | None
    money_at_least: bool


@dataclass(frozen=True, slots=True)
class Ledger:
    """All phases of a reading, and the whole.

    `formation_seconds` is the end-to-end time of the formations, starts and freezing included. `busy_seconds`
    is wall-clock time in which at least one record was in the making, so breaks between resumed runs are not
    in it. `question` and `question_with_formation` are None where no question was asked.
    """

    phases: Mapping[Phase, PhaseLedger]
    whole: PhaseLedger
    formation_seconds: Measure
    busy_seconds: float
    question: PerQuestion | None
    question_with_formation: PerQuestion | None


def ledger(reading: RunReading, prices: Prices | None = None) -> Ledger:
    """The cost of everything that a reading holds."""
    items = work_items(reading)
    asking = items["qa"]
    forming = [*items["ingestion"], *items["consolidation"]]
    phases = {phase: account(items[phase], prices) for phase in PHASES}
    return Ledger(
        phases=phases,
        whole=_totals_only(account([*forming, *asking, *items["judge"]], prices)),
        formation_seconds=measure([formation.seconds for formation in reading.all_formations]),
        busy_seconds=_busy_seconds(reading),
        question=_per_question(phases["qa"], len(asking)),
        question_with_formation=_per_question(account([*forming, *asking], prices), len(asking)),
    )


def work_items(reading: RunReading) -> Mapping[Phase, Sequence[WorkItem]]:
    """Every unit of work of each phase, all attempts at a unit together."""
    return {
        "ingestion": list(_gathered(reading.all_ingestions, lambda e: (e.key, e.session)).values()),
        "consolidation": list(_gathered(reading.all_consolidations, lambda e: (e.key, e.session)).values()),
        "qa": list(question_items(reading).values()),
        "judge": list(_gathered(reading.all_verdicts, lambda e: (e.key, e.protocol)).values()),
    }


def question_items(reading: RunReading) -> Mapping[QuestionKey, WorkItem]:
    """The asking of each question that was asked."""
    return _gathered(reading.all_hypotheses, lambda e: e.key)


def account(items: Sequence[WorkItem], prices: Prices | None = None) -> PhaseLedger:
    """The ledger of some units of work."""
    calls = [call for item in items for call in item.calls]
    first_tokens = [c.first_token_seconds for c in calls if c.first_token_seconds is not None]
    unseen = sum(item.unseen for item in items)
    return PhaseLedger(
        items=len(items),
        repeated=sum(item.attempts > 1 for item in items),
        unmetered=sum(item.unmetered for item in items),
        calls=measure([len(item.calls) for item in items]),
        failed=measure([sum(call.failure is not None for call in item.calls) for item in items]),
        input=_token_measure(items, lambda usage: usage.input),
        cache_read=_token_measure(items, lambda usage: usage.cache_read),
        cache_write=_token_measure(items, lambda usage: usage.cache_write),
        output=_token_measure(items, lambda usage: usage.output),
        reasoning=_token_measure(items, lambda usage: usage.reasoning),
        tokens=_token_measure(items, lambda usage: usage.tokens),
        first_token_seconds=measure(first_tokens) if first_tokens else Measure(None),
        model_seconds=measure([sum(call.seconds for call in item.calls) for item in items]),
        tool_seconds=measure([item.tool_seconds for item in items]),
        seconds=measure([item.seconds for item in items]),
        cost=None if prices is None else total_cost(calls, prices, unseen),
    )


def _totals_only(spent: PhaseLedger) -> PhaseLedger:
    """Sums without medians: sessions and questions are no items of one kind."""
    measures: dict[str, Any] = {
        field.name: Measure(value.total)
        for field in fields(spent)
        if isinstance(value := getattr(spent, field.name), Measure)
    }
    return replace(spent, **measures)


def _gathered(records: Iterable[AttemptType], unit: Callable[[AttemptType], Unit]) -> dict[Unit, WorkItem]:
    attempts: dict[Unit, list[AttemptType]] = {}
    for record in records:
        attempts.setdefault(unit(record), []).append(record)
    return {name: _work_item(records) for name, records in attempts.items()}


def _work_item(attempts: Sequence[Attempt]) -> WorkItem:
    return WorkItem(
        calls=tuple(call for attempt in attempts for call in attempt.calls),
        seconds=sum(_seconds(attempt) for attempt in attempts),
        tool_seconds=sum(a.tool_seconds for a in attempts if isinstance(a, Ingestion | Hypothesis)),
        attempts=len(attempts),
        unseen=sum(isinstance(a, Consolidation) and not a.metered for a in attempts),
    )


def _seconds(attempt: Attempt) -> float:
    if isinstance(attempt, Verdict):
        return sum(call.seconds for call in attempt.calls)
    return attempt.seconds


def _token_measure(items: Sequence[WorkItem], tokens: Callable[[Usage], int | None]) -> Measure:
    """The sum of what was seen; median and 90th percentile over the items of which all was seen."""
    seen, of_whole_items = [], []
    for item in items:
        counts = [None if call.usage is None else tokens(call.usage) for call in item.calls]
        known = [count for count in counts if count is not None]
        seen += known
        if len(known) == len(counts) and not item.unseen:
            of_whole_items.append(sum(known))
    nothing_spent = not any(item.calls or item.unseen for item in items)
    return replace(measure(of_whole_items), total=sum(seen) if seen or nothing_spent else None)


def measure(values: Sequence[float]) -> Measure:
    """The sum, the median and the 90th percentile of some values; the sum of none is 0."""
    if not values:
        return Measure(0)
    return Measure(sum(values), statistics.median(values), percentile_90(values))


def percentile_90(values: Sequence[float]) -> float:
    """The 90th percentile of at least one value, interpolated linearly between the closest ranks."""
    return values[0] if len(values) == 1 else statistics.quantiles(values, n=10, method="inclusive")[-1]


def _per_question(spent: PhaseLedger, asked: int) -> PerQuestion | None:
    if not asked:
        return None
    tokens, seconds, cost = spent.tokens.total, spent.seconds.total, spent.cost
    return PerQuestion(
        tokens=None if tokens is None else tokens / asked,
        tokens_at_least=spent.at_least,
        seconds=(seconds or 0) / asked,
        money=None if cost is None or cost.known is None else cost.known / asked,
        money_at_least=cost is not None and not cost.complete,
    )


def _busy_seconds(reading: RunReading) -> float:
    """The length of the union of all intervals in which something was done."""
    records: list[Ingestion | Consolidation | Formation | Hypothesis | Call] = [
        *reading.all_ingestions,
        *reading.all_consolidations,
        *reading.all_formations,
        *reading.all_hypotheses,
        *(call for verdict in reading.all_verdicts for call in verdict.calls),
    ]
    busy, until = 0.0, -math.inf
    for start, end in sorted((record.started_at, record.started_at + record.seconds) for record in records):
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    return busy
