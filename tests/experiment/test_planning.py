"""What a run would take: counts are exact, estimates follow assumptions until a run has measured averages."""

from dataclasses import replace

import pytest
from memory_home import bundled_system

from pytest_dshmem.experiment import estimating
from pytest_dshmem.experiment.condition import CONDITIONS
from pytest_dshmem.experiment.estimating import (
    Spending,
    assumed_consolidation,
    assumed_ingestion,
    assumed_question,
    total,
)
from pytest_dshmem.experiment.history_sizes import HistorySize
from pytest_dshmem.experiment.planning import ConditionPlan, PhasePlan, Plan, PlannedQuestion, plan_of
from pytest_dshmem.experiment.settings import Limits, Settings
from pytest_dshmem.harness.endpoint import Endpoint

SIZES = {"orchard": HistorySize((100, 200)), "harbour": HistorySize((400,)), "unused": HistorySize((9_000,))}


@pytest.fixture(scope="module")
def settings() -> Settings:
    limits = Limits(ingest_steps=5, question_steps=7, context_window=1_000)
    return Settings(Endpoint(api_key=""), "some-model", bundled_system("reference"), limits=limits)


def questions(condition: str, *, repeats: int = 1, shown: int = 0) -> list[PlannedQuestion]:
    """Three of the one sample, one of the other."""
    samples = ("orchard", "orchard", "orchard", "harbour")
    return [
        PlannedQuestion(sample, condition, repeat, shown)
        for repeat in range(1, repeats + 1)
        for sample in samples
    ]


def only(plan: Plan) -> ConditionPlan:
    (condition,) = plan.conditions
    return condition


def phases(plan: Plan) -> dict[str, PhasePlan]:
    return {phase.phase: phase for phase in only(plan).phases}


def test_a_memory_is_formed_once_a_sample_and_repeat(settings: Settings) -> None:
    plan = plan_of(questions("memory", repeats=2), SIZES, settings, {}, judged=True)
    condition = only(plan)
    assert (condition.formations, condition.sessions, condition.questions) == (4, 6, 8)
    assert {name: phase.units for name, phase in phases(plan).items()} == {
        "ingestion": 6,
        "qa": 8,
        "judge": 8,
    }


def test_histories_count_once_and_only_those_that_are_needed(settings: Settings) -> None:
    asked = [*questions("memory"), *questions("baseline")]
    plan = plan_of(asked, SIZES, settings, {}, judged=True)
    assert (plan.histories, plan.history_sessions, plan.history_tokens) == (2, 3, 700)
    assert [condition.condition for condition in plan.conditions] == ["memory", "baseline"]


def test_conditions_without_memory_form_nothing(settings: Settings) -> None:
    plan = plan_of(questions("oracle", shown=300), SIZES, settings, {}, judged=False)
    assert only(plan).formations == 0
    assert list(phases(plan)) == ["qa"]
    spending = phases(plan)["qa"].spending
    assert spending.calls == 4
    assert spending.input == 4 * (estimating.PROMPT_TOKENS + 300)


def test_consolidation_is_a_phase_of_its_own(settings: Settings) -> None:
    found = phases(plan_of(questions("memory-consolidate"), SIZES, settings, {}, judged=True))
    assert list(found) == ["ingestion", "consolidation", "qa", "judge"]
    assert found["consolidation"].units == 3
    assert found["consolidation"].most_calls is None


def test_limits_bound_the_calls(settings: Settings) -> None:
    found = phases(plan_of(questions("memory"), SIZES, settings, {}, judged=True))
    assert found["ingestion"].most_calls == 3 * 5
    assert found["qa"].most_calls == 4 * 7
    assert found["judge"].most_calls is None


def test_estimates_of_sessions_add_up_over_their_sizes(settings: Settings) -> None:
    found = phases(plan_of(questions("memory"), SIZES, settings, {}, judged=True))
    expected = total(assumed_ingestion("transcript", tokens) for tokens in (100, 200, 400))
    assert found["ingestion"].spending == expected
    assert found["qa"].spending == assumed_question(CONDITIONS["memory"], 0).times(4)


def test_a_replayed_session_needs_no_model(settings: Settings) -> None:
    replayed = replace(settings, ingestion="replay")
    found = phases(plan_of(questions("memory-consolidate"), SIZES, replayed, {}, judged=True))
    assert found["ingestion"].spending == Spending()
    assert found["ingestion"].most_calls == 0
    assert found["consolidation"].spending.calls > 0


def test_questions_that_do_not_fit_the_model_cost_nothing_and_are_counted(settings: Settings) -> None:
    asked = [*questions("full-history", shown=1_000), PlannedQuestion("harbour", "full-history", 1, 1_001)]
    plan = plan_of(asked, SIZES, settings, {}, judged=True)
    assert (only(plan).questions, only(plan).overflowing) == (5, 1)
    assert phases(plan)["qa"].units == phases(plan)["judge"].units == 4


def test_measured_averages_replace_assumptions_phase_by_phase(settings: Settings) -> None:
    average = Spending(calls=2.5, input=10, cache_read=20, cache_write=5, output=4)
    averages = {("memory", "qa"): average, ("baseline", "qa"): Spending(calls=99)}
    found = phases(plan_of(questions("memory"), SIZES, settings, averages, judged=True))
    assert found["qa"].measured
    assert found["qa"].spending == Spending(10, 40, 80, 20, 16)
    assert not found["ingestion"].measured
    assert found["qa"].most_calls == 28


def test_nothing_to_ask_is_a_plan_of_nothing(settings: Settings) -> None:
    assert plan_of([], SIZES, settings, {}, judged=True) == Plan(0, 0, 0, ())
    assert total([]) == Spending()


def test_every_call_of_a_turn_reads_what_was_before_it_from_the_cache() -> None:
    prompt, step = estimating.PROMPT_TOKENS + 50, estimating.STEP_TOKENS
    spending = assumed_question(CONDITIONS["memory"], 50)
    assert estimating.MEMORY_QUESTION_CALLS == 3
    assert spending.calls == 3
    assert spending.input == prompt + 2 * step
    assert spending.cache_read == prompt + (prompt + step)
    assert spending.tokens == spending.input + spending.cache_read + spending.output
    assert assumed_consolidation(0).calls == estimating.CONSOLIDATION_CALLS


def test_the_assumptions_are_said_with_the_figures_that_are_used() -> None:
    said = " ".join(estimating.ASSUMPTIONS)
    for figure in ("4 calls", "3 to consolidate", "1,500", "600", "150", "15%", "400", "250", "60"):
        assert figure in said
