"""For work on prompts: selecting questions by the last verdicts, which pytest's cache keeps."""

import json

import pytest
from suite_project import OFFLINE, SuiteProject

LAST_VERDICTS = {
    "conv-a-q000": ["right", "right"],
    "conv-a-q001": ["right", "wrong"],
    "conv-a-q002": ["wrong"],
    "conv-a-q003": ["wrong", "error"],
    "conv-a-q004": ["timeout", "timeout"],
}


@pytest.fixture
def remembered(project: SuiteProject) -> SuiteProject:
    """A project whose cache holds verdicts of two earlier runs."""
    cache = project.folder / ".pytest_cache" / "v" / "dshmem"
    cache.mkdir(parents=True)
    known = {f"locomo/{name}": verdicts for name, verdicts in LAST_VERDICTS.items()}
    (cache / "verdicts").write_text(json.dumps(known), "utf-8")
    return project


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ("wrong", ["conv-a-q001", "conv-a-q002"]),
        ("failed", ["conv-a-q003", "conv-a-q004"]),
        ("changed", ["conv-a-q001", "conv-a-q003"]),
    ],
)
def test_questions_are_selected_by_their_last_verdicts(
    remembered: SuiteProject, wanted: str, ids: list[str]
) -> None:
    assert remembered.collected("suites/locomo", OFFLINE, "--dshmem-rerun", wanted) == ids


def test_a_limit_counts_what_the_verdicts_have_left(remembered: SuiteProject) -> None:
    ids = remembered.collected("suites/locomo", OFFLINE, "--dshmem-rerun", "wrong", "--dshmem-limit", "1")
    assert ids == ["conv-a-q001"]


def test_tests_that_are_none_of_ours_stay(remembered: SuiteProject) -> None:
    remembered.pytester.makepyfile(test_plain="def test_plain(): pass")
    outcome = remembered.run("--collect-only", "-q", ".", OFFLINE, "--dshmem-rerun", "failed")
    assert "test_plain.py::test_plain" in outcome.lines


def test_without_the_cache_nothing_can_be_selected_by_it(remembered: SuiteProject) -> None:
    outcome = remembered.run("suites/locomo", OFFLINE, "--dshmem-rerun", "wrong", "-p", "no:cacheprovider")
    outcome.assert_usage_error("--dshmem-rerun needs the verdicts in pytest's cache")


def test_nothing_known_yet_is_said(project: SuiteProject) -> None:
    outcome = project.run("suites/locomo", OFFLINE, "--dshmem-rerun", "wrong")
    outcome.assert_usage_error("--dshmem-rerun: there are no verdicts of an earlier run")


@pytest.mark.runtime
def test_a_question_that_was_right_and_is_wrong_now_is_named(project: SuiteProject) -> None:
    cache = project.folder / ".pytest_cache" / "v" / "dshmem"
    cache.mkdir(parents=True)
    (cache / "verdicts").write_text(json.dumps({"locomo/conv-a-q000": ["right"]}), "utf-8")
    args = ("suites/locomo", OFFLINE, "--mode", "baseline", "--dshmem-limit", "1")
    outcome = project.run_apart(*args)
    assert outcome.status == pytest.ExitCode.OK, outcome.text
    assert "right the last time, wrong now: conv-a-q000" in outcome.text
    assert project.collected(*args, "--dshmem-rerun", "changed") == ["conv-a-q000"]
