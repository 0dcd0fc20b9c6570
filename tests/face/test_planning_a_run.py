"""`--dshmem-plan`: what a run would take, without a key, a runtime, a call or a run directory."""

from pathlib import Path

import pytest
from answered_run import answered_run
from suite_project import SuiteProject

from pytest_dshmem.experiment.tokenizer import vocabulary_is_cached
from pytest_dshmem.harness.runtime import Runtime
from pytest_dshmem.offline.process import StandIn
from pytest_dshmem.record.run_directory import RunDirectory

PRICES = """
source = "a price page"
date = 2026-01-15
currency = "USD"
[models.offline-model]
input = 1.0
cache_read = 0.1
output = 2.0
"""


@pytest.fixture(scope="module")
def other_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of LongMemEval's sample corpus with settings of its own."""
    return answered_run(tmp_path_factory.mktemp("other") / "run").path


@pytest.fixture(autouse=True)
def nothing_starts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("runtime") is not None:
        return

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a plan starts nothing and opens nothing")

    monkeypatch.setattr(StandIn, "start", refuse)
    monkeypatch.setattr(Runtime, "start", refuse)
    monkeypatch.setattr(RunDirectory, "create", refuse)


def test_a_plan_counts_and_runs_nothing(project: SuiteProject) -> None:
    planned = project.run("suites/locomo", "--offline", "--dshmem-plan", "--mode", "baseline,memory")
    assert planned.status == pytest.ExitCode.OK
    assert "plan for locomo: nothing is run" in planned.text
    assert "baseline 0 0 30 memory 2 10 30" in planned.one_line
    assert "2 histories, 10 sessions" in planned.one_line
    assert "ingestion 10 40 160" in planned.one_line
    assert " passed" not in planned.text
    assert project.left_behind() == []
    said = [line for line in planned.lines if not line.startswith(("rootdir:", "configfile:"))]
    assert max(map(len, said)) <= 80


def test_a_plan_of_the_published_file_needs_no_key(project: SuiteProject, real_data: Path) -> None:
    named = ("--dshmem-data", real_data, "--dshmem-plan")
    planned = project.run(
        "suites/locomo", *named, "-k", "conv-26", "--mode", "memory-consolidate,full-history"
    )
    assert planned.status == pytest.ExitCode.OK
    assert "memory-consolidate 1 19 152" in planned.one_line
    assert "1 history, 19 sessions" in planned.one_line
    if vocabulary_is_cached():
        assert "counted with o200k_base" in planned.one_line


def test_selection_limit_and_repeat_are_in_the_plan(project: SuiteProject) -> None:
    planned = project.run(
        "suites/locomo", "--offline", "--dshmem-plan", "--dshmem-limit", "3", "--dshmem-repeat", "2"
    )
    assert "memory 2 10 6" in planned.one_line


def test_both_benchmarks_have_a_plan_each(project: SuiteProject) -> None:
    planned = project.run("suites", "--offline", "--dshmem-plan", "--mode", "oracle", "--dshmem-no-judge")
    assert "plan for locomo" in planned.text
    assert "plan for longmemeval" in planned.text
    assert planned.text.count("nothing is judged") == 2


def test_workers_are_not_needed_for_a_plan(project: SuiteProject) -> None:
    planned = project.run_apart("suites/locomo", "--offline", "--dshmem-plan", "-n", "2")
    assert planned.status == pytest.ExitCode.OK
    assert planned.text.count("plan for locomo") == 1
    assert "created: 2" not in planned.text


def test_prices_give_money(project: SuiteProject, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    planned = project.run("suites/locomo", "--offline", "--dshmem-plan", "--dshmem-prices", prices)
    assert " USD" in planned.text
    assert "no price, or not all rates, for offline-judge" in planned.one_line


def test_averages_of_a_run_with_other_settings_are_not_used(project: SuiteProject, other_run: Path) -> None:
    suite = ("suites/longmemeval", "--offline", "--dshmem-plan", "--mode", "baseline")
    refused = project.run(*suite, "--dshmem-plan-from", other_run)
    refused.assert_usage_error("--dshmem-plan-from: ", "was made with other settings")
    noted = project.run(*suite, "--dshmem-run", other_run)
    assert noted.status == pytest.ExitCode.OK
    assert "its averages were not used" in noted.one_line


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--dshmem-plan-from", "nowhere"), "holds no run"),
        (("--dshmem-prices", "nowhere.toml"), "nowhere.toml"),
        (("--dshmem-memory", "nowhere"), "nowhere"),
        (("--dshmem-judge-parameters", "{"), "are not JSON"),
    ],
)
def test_what_cannot_be_planned_is_a_usage_error(
    project: SuiteProject, words: tuple[str, str], part: str
) -> None:
    planned = project.run("suites/locomo", "--offline", "--dshmem-plan", *words)
    assert planned.status == pytest.ExitCode.USAGE_ERROR, planned.text
    planned.assert_no_crash()
    assert part in planned.one_line


@pytest.mark.runtime
def test_a_smoke_run_measures_what_the_plan_of_the_full_one_uses(
    project: SuiteProject, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    suite = ("suites/locomo", "--offline", "--mode", "baseline")
    small = ("--dshmem-select", "smoke", "--dshmem-run", run)
    assert project.run_apart(*suite, *small).status == pytest.ExitCode.OK
    planned = project.run(*suite, "--dshmem-plan", "--dshmem-run", run)
    assert f"averages of run {RunDirectory.open(run).manifest.run_id}" in planned.one_line
    assert "qa 30 30" in planned.one_line
    assert "assumed" not in planned.text
