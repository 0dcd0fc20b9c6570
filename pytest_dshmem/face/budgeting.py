"""Budgets by option: what they need to hold, and the account that they are held against."""

from __future__ import annotations

import os
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_dshmem.experiment.budget import Budget
    from pytest_dshmem.face.workbench import Workbench
    from pytest_dshmem.record.entries import Call
    from pytest_dshmem.record.run_directory import RunDirectory
    from pytest_dshmem.report.prices import Prices

NEEDED_RATES = ("input", "cache_read", "output")


def budget_of(bench: Workbench, run: RunDirectory) -> Budget | None:
    """The account of a run, earlier sessions included; None where no option limits it."""
    from pytest_dshmem.experiment.budget import Budget, Limit
    from pytest_dshmem.report.prices import money

    options, prices = bench.options, bench.prices
    if options.max_tokens is None and options.max_cost is None:
        return None
    if options.max_cost is None or prices is None:
        return Budget(run, Limit(tokens=options.max_tokens))
    limit = Limit(
        tokens=options.max_tokens,
        cost=Decimal(str(options.max_cost)),
        price=lambda call: money(call, prices),
        currency=prices.currency,
    )
    return Budget(run, limit)


def watcher_of(budget: Budget | None) -> Callable[[Sequence[Call]], str | None]:
    """What the engine asks whenever calls were recorded: why to stop, if there is a reason."""
    return lambda _calls: None if budget is None else budget.why_stop()


def require_prices(bench: Workbench) -> None:
    """Refuses a limit in money where it cannot be known what the models of the run cost."""
    options, prices = bench.options, bench.prices
    if options.max_cost is None:
        return
    if prices is None:
        raise pytest.UsageError(
            "--dshmem-max-cost needs to know what a call costs: name a price file with --dshmem-prices"
        )
    models = [bench.settings.model]
    if not options.no_judge:
        models.append(bench.named_judge.model_in(os.environ))
    for model in models:
        missing = _missing_rates(prices, model)
        if missing:
            raise pytest.UsageError(
                f"--dshmem-max-cost: {options.prices} has no rate for {', '.join(missing)} of {model}, so "
                "what the run costs cannot be known; add it, or use --dshmem-max-tokens"
            )


def _missing_rates(prices: Prices, model: str) -> list[str]:
    rates = prices.models.get(model)
    return [name for name in NEEDED_RATES if rates is None or getattr(rates, name) is None]
