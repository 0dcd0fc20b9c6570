"""A plan in the terminal, as lines of at most 80 columns: what is counted, what is estimated, and on what."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from pytest_dshmem.experiment.estimating import ASSUMPTIONS, Spending, total
from pytest_dshmem.experiment.planning import ConditionPlan, PhasePlan, Plan
from pytest_dshmem.record.entries import Usage
from pytest_dshmem.report.lines import BLANK, WIDTH, Line, Row, entry, heading, table, table_width
from pytest_dshmem.report.numbers import NOTHING, compact, money, plural, whole
from pytest_dshmem.report.prices import Prices


@dataclass(frozen=True, slots=True)
class PlanContext:
    """What a plan is of. `judge` is None where nothing is judged.

    `measured_in` names the run whose averages were used, and is empty without one; `notes` are further
    sentences that belong to the estimate.
    """

    benchmark: str
    data: str
    tokenizer: str
    model: str
    judge: str | None
    prices: Prices | None = None
    measured_in: str = ""
    notes: tuple[str, ...] = ()


def plan_lines(plan: Plan, context: PlanContext) -> list[Line]:
    """The plan of one benchmark."""
    histories = plural(plan.histories, "history", "histories")
    counted = f"{plan.history_tokens:,} tokens counted with {context.tokenizer}"
    lines = [
        heading(f"plan for {context.benchmark}: nothing is run"),
        *entry("data", context.data),
        *entry("histories", f"{histories}, {plural(plan.history_sessions, 'session')}, {counted}"),
        *entry("model", context.model),
        *entry("judge", context.judge or "nothing is judged"),
        BLANK,
        *table(_counts(plan.conditions)),
        *_overflowing(plan),
    ]
    for condition in plan.conditions:
        lines += [BLANK, *_condition(condition, context)]
    if len(plan.conditions) > 1:
        lines += [BLANK, *table([_head("all", context), _row("whole", None, plan.phases, context)])]
    return [*lines, BLANK, *_basis(plan, context), *_money(plan, context)]


def _counts(conditions: Sequence[ConditionPlan]) -> list[Row]:
    rows = [Row(("", "formations", "sessions", "questions"), "dim")]
    for condition in conditions:
        counts = (condition.formations, condition.sessions, condition.questions)
        rows.append(Row((condition.condition, *(f"{count:,}" for count in counts))))
    return rows


def _overflowing(plan: Plan) -> list[Line]:
    lines: list[Line] = []
    for condition in plan.conditions:
        if condition.overflowing:
            text = f"{plural(condition.overflowing, 'question')} will not fit the model and not be asked"
            lines += entry(condition.condition, text, "warning")
    return lines


def _condition(condition: ConditionPlan, context: PlanContext) -> list[Line]:
    rows = [_head(condition.condition, context)]
    rows += [_row(phase.phase, phase.units, [phase], context) for phase in condition.phases]
    rows.append(_row("whole", None, condition.phases, context))
    return table(rows if table_width(rows) <= WIDTH else [_short(row) for row in rows])


def _head(label: str, context: PlanContext) -> Row:
    amount = ("money",) if context.prices else ()
    return Row((label, "units", "calls", "at most", "input", "cached", "output", *amount), "dim")


def _row(label: str, units: int | None, phases: Sequence[PhasePlan], context: PlanContext) -> Row:
    spending = total(phase.spending for phase in phases)
    limits = [phase.most_calls for phase in phases]
    most = None if None in limits else sum(limit for limit in limits if limit is not None)
    amount = (_amount(phases, context),) if context.prices else ()
    return Row(
        (
            label,
            NOTHING if units is None else f"{units:,}",
            whole(spending.calls),
            NOTHING if most is None else f"{most:,}",
            compact(spending.input + spending.cache_write),
            compact(spending.cache_read),
            compact(spending.output),
            *amount,
        ),
        "heading" if units is None else "plain",
    )


def _short(row: Row) -> Row:
    """Without the column of limits, where all would not fit the line."""
    return Row((*row.cells[:3], *row.cells[4:]), row.style)


def _amount(phases: Sequence[PhasePlan], context: PlanContext) -> str:
    if context.prices is None:
        return NOTHING
    amounts = [_cost(phase, context, context.prices) for phase in phases]
    known = [amount for amount in amounts if amount is not None]
    return money(
        sum(known, Decimal(0)) if known or not amounts else None,
        context.prices.currency,
        at_least=len(known) < len(amounts),
    )


def _cost(phase: PhasePlan, context: PlanContext, prices: Prices) -> Decimal | None:
    model = context.judge if phase.phase == "judge" else context.model
    rates = prices.models.get(model or "")
    return None if rates is None else rates.cost(_usage(phase.spending))


def _usage(spending: Spending) -> Usage:
    return Usage(
        input=round(spending.input),
        cache_read=round(spending.cache_read),
        cache_write=round(spending.cache_write),
        output=round(spending.output),
    )


def _basis(plan: Plan, context: PlanContext) -> list[Line]:
    measured = [phase for phase in plan.phases if phase.measured]
    lines: list[Line] = []
    if measured:
        lines += entry("measured", f"calls and tokens are the averages of {context.measured_in}")
    if len(measured) < len(plan.phases):
        what = _named(plan) if measured else "calls and tokens are estimates"
        lines += entry("assumed", f"{what}; a smoke run on the same settings measures them", "warning")
        for text in ASSUMPTIONS:
            lines += entry("", text, "dim")
    lines += entry("at most", "is what the limits on steps allow, without attempts that are repeated", "dim")
    for note in context.notes:
        lines += entry("note", note, "warning")
    return lines


def _named(plan: Plan) -> str:
    """The phases that no run has measured."""
    unmeasured = [
        f"{condition.condition} {phase.phase}"
        for condition in plan.conditions
        for phase in condition.phases
        if not phase.measured
    ]
    return f"estimates for {', '.join(unmeasured)}"


def _money(plan: Plan, context: PlanContext) -> list[Line]:
    prices = context.prices
    if prices is None:
        return entry("money", "unknown: no prices were given", "dim")
    text = f"{prices.source}, {prices.date.isoformat()}; rates at other times of the day are left out"
    unknown = sorted(
        {
            (context.judge if phase.phase == "judge" else context.model) or ""
            for phase in plan.phases
            if _cost(phase, context, prices) is None
        }
    )
    missing = f"no price, or not all rates, for {', '.join(unknown)}: sums with ≥ are lower bounds"
    return entry("prices", text, "dim") + (entry("money", missing, "warning") if unknown else [])
