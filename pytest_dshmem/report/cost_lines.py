"""Cost in the terminal: tokens and time by phase, money, and what one question costs."""

from collections.abc import Callable, Mapping

from pytest_dshmem.report.ledger import Ledger, PerQuestion, Phase, PhaseLedger
from pytest_dshmem.report.lines import WIDTH, Line, Row, entry, table, table_width
from pytest_dshmem.report.numbers import NOTHING, compact, duration, money, plural, whole
from pytest_dshmem.report.prices import Cost, Prices

Number = Callable[[float | None, bool], str]


def cost_section(spent: Ledger, prices: Prices | None, *, per_question: bool = True) -> list[Line]:
    """All phases and their sum: calls, failed attempts, tokens, time, money, and the cost of a question.

    `per_question` is for one condition: a mean over questions of several says nothing of any.
    """
    phases: Mapping[str, PhaseLedger] = {**_used(spent.phases), "whole": spent.whole}
    return [
        *_tokens(phases),
        Line(""),
        *_times(phases),
        Line(""),
        *(_per_question(spent, prices) if per_question else []),
        *_money(phases, prices),
        *_unmetered(spent.whole),
        *_wall_time(spent),
    ]


def _used(phases: Mapping[Phase, PhaseLedger]) -> dict[str, PhaseLedger]:
    return {name: phase for name, phase in phases.items() if phase.items}


def _tokens(phases: Mapping[str, PhaseLedger]) -> list[Line]:
    """In full where that fits the line, else in thousands and millions."""
    rows = _token_rows(phases, whole)
    return table(rows if table_width(rows) <= WIDTH else _token_rows(phases, compact))


def _token_rows(phases: Mapping[str, PhaseLedger], number: Number) -> list[Row]:
    writes = any(phase.cache_write.total for phase in phases.values())
    header = ("tokens", "calls", "failed", "input", "cached", *(["to cache"] if writes else []), "output")
    rows = [Row((*header, "reasoning"), "dim")]
    for name, phase in phases.items():
        bound = phase.at_least
        written = [number(phase.cache_write.total, bound)] if writes else []
        cells = (
            name,
            whole(phase.calls.total),
            whole(phase.failed.total),
            number(phase.input.total, bound),
            number(phase.cache_read.total, bound),
            *written,
            number(phase.output.total, bound),
            NOTHING if phase.reasoning.total is None else f"({number(phase.reasoning.total, bound)})",
        )
        rows.append(Row(cells, "heading" if name == "whole" else "plain"))
    return rows


def _times(phases: Mapping[str, PhaseLedger]) -> list[Line]:
    rows = [Row(("time", "items", "1st token", "model", "tools", "sum", "median", "p90"), "dim")]
    for name, phase in phases.items():
        cells = (
            name,
            whole(phase.items),
            duration(phase.first_token_seconds.median),
            duration(phase.model_seconds.total),
            duration(phase.tool_seconds.total),
            duration(phase.seconds.total),
            duration(phase.seconds.median),
            duration(phase.seconds.p90),
        )
        rows.append(Row(cells, "heading" if name == "whole" else "plain"))
    return table(rows)


def _per_question(spent: Ledger, prices: Prices | None) -> list[Line]:
    alone, together = spent.question, spent.question_with_formation
    if alone is None or together is None:
        return []
    lines = entry("a question", _average(alone, prices))
    formed = spent.phases["ingestion"].items or spent.phases["consolidation"].items
    return lines + (entry("with forming", _average(together, prices)) if formed else [])


def _average(question: PerQuestion, prices: Prices | None) -> str:
    parts = [f"{whole(question.tokens, question.tokens_at_least)} tokens", duration(question.seconds)]
    if prices is not None:
        parts.append(money(question.money, prices.currency, question.money_at_least))
    return ", ".join(parts) + " on average"


def _money(phases: Mapping[str, PhaseLedger], prices: Prices | None) -> list[Line]:
    if prices is None:
        return entry("money", "unknown: no prices were given", "dim")
    amounts = [f"{name} {_amount(phase.cost, prices)}" for name, phase in phases.items()]
    lines = entry("money", ", ".join(amounts))
    return lines + entry("prices", f"{prices.source}, {prices.date.isoformat()}", "dim")


def _amount(cost: Cost | None, prices: Prices) -> str:
    return money(
        None if cost is None else cost.known, prices.currency, cost is not None and not cost.complete
    )


def _unmetered(total: PhaseLedger) -> list[Line]:
    if not total.unmetered:
        return []
    seen = plural(total.unmetered, "call or run", "calls or runs")
    return entry(
        "unmetered", f"{seen} whose tokens nobody saw: sums marked ≥ are at least that much", "warning"
    )


def _wall_time(spent: Ledger) -> list[Line]:
    formation = spent.formation_seconds
    forming = f"; formations {duration(formation.total)} end to end" if formation.total else ""
    return entry("at work", f"{duration(spent.busy_seconds)} by the clock{forming}", "dim")
