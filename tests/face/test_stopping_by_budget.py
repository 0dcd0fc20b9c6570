"""Budgets by option: a run stops in good order when one is used up, and a larger one continues it."""

import json
from pathlib import Path

import pytest
from suite_project import SuiteProject, entries

PRICES = """
source = "a price page"
date = 2026-01-15
currency = "USD"
[models.offline-model]
input = 1.0
cache_read = 0.1
cache_write = 1.0
output = 2.0
[models.offline-judge]
input = 1.0
cache_read = 0.1
{judge_output}
"""
BASELINE = ("suites/locomo", "--offline", "--mode", "baseline", "--dshmem-concurrency", "2")


def prices(folder: Path, judge_output: str = "output = 2.0") -> Path:
    path = folder / "prices.toml"
    path.write_text(PRICES.format(judge_output=judge_output))
    return path


def test_a_limit_in_money_needs_prices(project: SuiteProject) -> None:
    project.run(*BASELINE, "--dshmem-max-cost", "1").assert_usage_error(
        "--dshmem-max-cost needs to know what a call costs", "--dshmem-prices"
    )


def test_a_model_without_a_price_is_named(project: SuiteProject, tmp_path: Path) -> None:
    words = ("--dshmem-max-cost", "1", "--dshmem-prices", prices(tmp_path, judge_output=""))
    project.run(*BASELINE, *words).assert_usage_error("has no rate for output of offline-judge")


def test_prices_of_the_judge_are_not_needed_where_nothing_is_judged(
    project: SuiteProject, tmp_path: Path
) -> None:
    words = ("--dshmem-max-cost", "0.00001", "--dshmem-prices", prices(tmp_path, judge_output=""))
    assert "has no rate" not in project.run(*BASELINE, *words, "--dshmem-no-judge", "--collect-only").text


@pytest.mark.runtime
def test_tokens_used_up_stop_the_run_and_a_larger_budget_continues(
    project: SuiteProject, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    stopped = project.run_apart(*BASELINE, "--dshmem-run", run, "--dshmem-max-tokens", "1000", "-rs")
    assert stopped.status == pytest.ExitCode.TESTS_FAILED, stopped.text
    stopped.assert_no_crash()
    asked = entries(run, "qa.jsonl")
    spent = sum(call["usage"]["input"] for entry in asked for call in entry["calls"])
    assert 0 < len(asked) < 30
    assert spent < 2_000
    reason = "the budget of 1,000 tokens is used up"
    assert f"{len(asked)} passed, {30 - len(asked)} skipped" in stopped.text
    assert f"not asked: {reason}" in stopped.one_line
    assert f"the run was stopped: {reason}" in stopped.one_line
    assert "memory benchmark locomo" in stopped.text
    assert not (run / "judge.jsonl").exists()
    failure = json.loads((run / "failure.json").read_text())
    assert failure["halted"].startswith(reason)
    assert failure["exit_status"] == pytest.ExitCode.TESTS_FAILED
    again = project.run_apart(*BASELINE, "--dshmem-run", run, "--dshmem-max-tokens", "1000")
    assert len(entries(run, "qa.jsonl")) == len(asked)
    assert f"{len(asked)} passed" in again.text
    done = project.run_apart(*BASELINE, "--dshmem-run", run, "--dshmem-max-tokens", "1000000")
    assert done.status == pytest.ExitCode.OK, done.text
    questions = [entry["key"]["question_id"] for entry in entries(run, "qa.jsonl")]
    assert len(questions) == len(set(questions)) == 30


@pytest.mark.runtime
def test_money_used_up_stops_workers_and_the_judge_too(project: SuiteProject, tmp_path: Path) -> None:
    run = tmp_path / "run"
    limited = ("--dshmem-prices", prices(tmp_path), "--dshmem-run", run, "--dshmem-max-cost")
    stopped = project.run_apart(*BASELINE, *limited, "0.0015", "-n", "2")
    assert stopped.status == pytest.ExitCode.TESTS_FAILED, stopped.text
    stopped.assert_no_crash()
    assert "the run was stopped: the budget of 0.0015 USD is used up" in stopped.one_line
    assert 0 < len(entries(run, "qa.jsonl")) < 30
    judging = project.run_apart(*BASELINE, *limited, "0.01", "--dshmem-judge-concurrency", "2")
    assert judging.status == pytest.ExitCode.TESTS_FAILED, judging.text
    assert "30 passed" in judging.text
    assert "judging was stopped: the budget of 0.01 USD is used up" in judging.one_line
    assert 0 < len(entries(run, "judge.jsonl")) < 30
    done = project.run_apart(*BASELINE, *limited, "1")
    assert done.status == pytest.ExitCode.OK, done.text
