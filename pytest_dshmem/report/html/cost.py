"""What the run cost by phase, and what one question costs with and without the forming of its memory."""

from collections.abc import Iterable

from pytest_dshmem.report import numbers
from pytest_dshmem.report.html.charts import Segment, share_bar
from pytest_dshmem.report.html.content import PageContent
from pytest_dshmem.report.html.elements import Markup, element
from pytest_dshmem.report.html.tables import TableRow, table
from pytest_dshmem.report.ledger import PHASES, Ledger, Measure, PerQuestion, PhaseLedger
from pytest_dshmem.report.prices import Prices

TOKEN_COLUMNS = (
    "phase",
    "calls",
    "failed",
    "input",
    "cache read",
    "cache write",
    "output",
    "reasoning",
    "all",
    "money",
)
TIME_COLUMNS = (
    "phase",
    "items",
    "first token",
    "model time",
    "tool time",
    "end to end",
    "median",
    "90th percentile",
)


def cost_section(content: PageContent) -> Markup:
    """Tokens, money and time by phase for each condition, and for the whole run where there are several."""
    figures = content.figures
    ledgers = [(condition.condition, condition.ledger) for condition in figures.conditions]
    if len(ledgers) > 1:
        ledgers.append(("whole run", figures.ledger))
    return element(
        "section",
        element("h2", "Cost by phase"),
        element(
            "p",
            "Every attempt counts, failed and repeated ones too. Input is what was not cached; reasoning is "
            "a part of output and is not added again. ",
            _price_words(figures.prices),
            _unmetered_words(figures.ledger),
        ),
        _per_question(ledgers, figures.prices),
        (_condition(name, spent, figures.prices) for name, spent in ledgers),
    )


def _condition(name: str, spent: Ledger, prices: Prices | None) -> Markup:
    phases = [(phase, spent.phases[phase]) for phase in PHASES]
    rows = [(phase, ledger) for phase, ledger in phases if ledger.items]
    bar = share_bar(
        f"Tokens by phase: {name}",
        [
            Segment(
                PHASES.index(phase), phase, ledger.tokens.total or 0.0, _count(ledger.tokens, ledger.at_least)
            )
            for phase, ledger in rows
        ],
    )
    return element(
        "div",
        element("h3", name),
        bar if spent.whole.tokens.total else None,
        table(
            f"Tokens: {name}",
            TOKEN_COLUMNS,
            [_tokens(phase, ledger, prices) for phase, ledger in rows]
            + [_tokens("whole", spent.whole, prices, True)],
        ),
        table(
            f"Time: {name}",
            TIME_COLUMNS,
            [_times(phase, ledger) for phase, ledger in rows] + [_times("whole", spent.whole, True)],
        ),
    )


def _tokens(phase: str, ledger: PhaseLedger, prices: Prices | None, is_total: bool = False) -> TableRow:
    classes = (
        ledger.input,
        ledger.cache_read,
        ledger.cache_write,
        ledger.output,
        ledger.reasoning,
        ledger.tokens,
    )
    return TableRow(
        phase,
        (
            numbers.whole(ledger.calls.total),
            numbers.whole(ledger.failed.total),
            *(_count(measure, ledger.at_least) for measure in classes),
            _phase_money(ledger, prices),
        ),
        is_total,
    )


def _times(phase: str, ledger: PhaseLedger, is_total: bool = False) -> TableRow:
    return TableRow(
        phase,
        (
            f"{ledger.items:,}",
            numbers.duration(ledger.first_token_seconds.median),
            numbers.duration(ledger.model_seconds.total),
            numbers.duration(ledger.tool_seconds.total),
            numbers.duration(ledger.seconds.total),
            numbers.duration(ledger.seconds.median),
            numbers.duration(ledger.seconds.p90),
        ),
        is_total,
    )


def _count(measure: Measure, at_least: bool) -> str:
    return numbers.NOTHING if measure.total is None else numbers.whole(measure.total, at_least)


def _phase_money(ledger: PhaseLedger, prices: Prices | None) -> str:
    if prices is None or ledger.cost is None:
        return numbers.UNKNOWN
    return numbers.money(ledger.cost.known, prices.currency, not ledger.cost.complete)


def _per_question(ledgers: Iterable[tuple[str, Ledger]], prices: Prices | None) -> Markup | None:
    rows = []
    for name, spent in ledgers:
        if spent.question is not None and spent.question_with_formation is not None:
            rows.append(TableRow(f"{name}: asking", _question_cells(spent.question, prices)))
            rows.append(
                TableRow(f"{name}: with forming", _question_cells(spent.question_with_formation, prices))
            )
    columns = ["one question, on average", "tokens", "time", "money"]
    return table("Cost of a question, judging left out", columns, rows) if rows else None


def _question_cells(cost: PerQuestion, prices: Prices | None) -> tuple[str, ...]:
    return (
        numbers.whole(cost.tokens, cost.tokens_at_least),
        numbers.duration(cost.seconds),
        numbers.UNKNOWN
        if prices is None
        else numbers.money(cost.money, prices.currency, cost.money_at_least),
    )


def _price_words(prices: Prices | None) -> str:
    if prices is None:
        return "No prices were given, so money is unknown. "
    return f"Prices in {prices.currency}: {prices.source}, {prices.date.isoformat()}. "


def _unmetered_words(spent: Ledger) -> str:
    if not spent.whole.unmetered:
        return ""
    calls = numbers.plural(spent.whole.unmetered, "call")
    return f"{calls} could not be metered: sums with {numbers.AT_LEAST.strip()} are lower bounds."
