"""A plan in the terminal, and the averages of a run that a plan can stand on."""

import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from synthetic_run import synthetic_run

from pytest_dshmem.experiment.estimating import ASSUMPTIONS, Spending
from pytest_dshmem.experiment.planning import ConditionPlan, PhasePlan, Plan
from pytest_dshmem.report.measured import measured_averages
from pytest_dshmem.report.plan_lines import PlanContext, plan_lines
from pytest_dshmem.report.prices import ModelPrices, Prices
from pytest_dshmem.report.reading import read_run

MILLION = 1_000_000
PRICES = Prices(
    source="a price page",
    date=datetime.date(2026, 1, 15),
    currency="USD",
    models={"agent": ModelPrices(input=Decimal(1), cache_read=Decimal("0.1"), output=Decimal(2))},
)


def phase(name: str, units: int, *, measured: bool = False, most: int | None = None) -> PhasePlan:
    spending = Spending(calls=2 * units, input=MILLION, cache_read=MILLION, output=MILLION)
    return PhasePlan(name, units, spending, measured, most)  # type: ignore[arg-type]


def plan(*, measured: bool = False, overflowing: int = 0) -> Plan:
    forming = (phase("ingestion", 12, measured=measured, most=192),)
    asking = (phase("qa", 40, measured=measured, most=400), phase("judge", 40, measured=measured))
    return Plan(
        histories=3,
        history_sessions=12,
        history_tokens=45_678,
        conditions=(
            ConditionPlan("baseline", 0, 0, 40, overflowing, asking),
            ConditionPlan("memory", 3, 12, 40, 0, (*forming, *asking)),
        ),
    )


def context(**changes: object) -> PlanContext:
    fields: dict[str, object] = {
        "benchmark": "locomo",
        "data": "locomo",
        "tokenizer": "o200k_base",
        "model": "agent",
        "judge": "a-judge",
    }
    return PlanContext(**{**fields, **changes})  # type: ignore[arg-type]


def text(found: Plan, **changes: object) -> str:
    """The lines as one text in which it does not matter where they break."""
    return " ".join(" ".join(line.text for line in plan_lines(found, context(**changes))).split())


def test_counts_and_tokens_are_said_with_the_tokenizer() -> None:
    said = text(plan())
    assert "plan for locomo: nothing is run" in said
    assert "3 histories, 12 sessions, 45,678 tokens counted with o200k_base" in said
    assert "baseline 0 0 40" in said
    assert "memory 3 12 40" in said


def test_phases_and_their_sums_stand_in_columns() -> None:
    said = text(plan())
    assert "ingestion 12 24 192 1.0M 1.0M 1.0M" in said
    assert "judge 40 80 - 1.0M" in said
    assert "whole - 184 - 3.0M 3.0M 3.0M" in said
    assert "all units calls at most input cached output whole - 344 - 5.0M" in said


def test_every_assumption_is_said_unless_all_is_measured() -> None:
    assumed, measured = text(plan()), text(plan(measured=True), measured_in="run 0123 in runs/smoke")
    for assumption in ASSUMPTIONS:
        assert assumption in assumed
        assert assumption not in measured
    assert "averages of run 0123 in runs/smoke" in measured


def test_money_is_known_model_by_model() -> None:
    said = text(plan(), prices=PRICES)
    assert "qa 40 80 400 1.0M 1.0M 1.0M 3.10 USD" in said
    assert "judge 40 80 - 1.0M 1.0M 1.0M unknown" in said
    assert "≥6.20 USD" in said
    assert "no price, or not all rates, for a-judge" in said
    assert "a price page, 2026-01-15" in said
    assert "money unknown: no prices were given" in text(plan())


def test_questions_that_do_not_fit_and_notes_are_said() -> None:
    said = text(plan(overflowing=7), notes=("its averages were not used",), judge=None)
    assert "baseline 7 questions will not fit the model and not be asked" in said
    assert "note its averages were not used" in said
    assert "judge nothing is judged" in said


@pytest.mark.parametrize("prices", [None, PRICES])
def test_lines_have_80_columns_at_most(prices: Prices | None) -> None:
    large = Plan(
        500,
        2_345_678,
        9_876_543_210,
        tuple(
            ConditionPlan(name, 500, 2_345_678, 500, 3, (phase("consolidation", 2_345_678, most=99_999_999),))
            for name in ("memory-consolidate", "full-history")
        ),
    )
    lines = plan_lines(large, context(prices=prices, data="x" * 100, notes=("word " * 60,)))
    assert len(lines) > 20
    assert max(len(line.text) for line in lines) <= 80


def test_averages_are_those_of_a_condition_phase_by_phase(tmp_path: Path) -> None:
    averages = measured_averages(read_run(synthetic_run(tmp_path / "run").path))
    assert averages["memory-consolidate", "ingestion"] == Spending(2, 400, 1_200, 80, 160)
    assert averages["baseline", "qa"] == Spending(1, 100, 300, 20, 40)
    assert averages["memory-consolidate", "consolidation"].calls == 1
    assert averages["baseline", "judge"].calls == 1
    assert ("baseline", "ingestion") not in averages


def test_what_was_not_metered_in_full_is_no_average(tmp_path: Path) -> None:
    averages = measured_averages(read_run(synthetic_run(tmp_path / "run", trouble=True).path))
    assert ("memory-consolidate", "qa") not in averages
    assert ("baseline", "qa") in averages
