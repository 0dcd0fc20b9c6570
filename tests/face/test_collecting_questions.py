"""Which tests there are: a question each, in a stable order, narrowed by options."""

from pathlib import Path

import pytest
from suite_project import OFFLINE, SuiteProject

SAMPLE_SIZE = 30


def test_every_question_of_locomo_is_collected_in_a_stable_order(
    project: SuiteProject, real_data: Path
) -> None:
    ids = project.collected("suites/locomo", OFFLINE, "--dshmem-data", real_data)
    assert len(ids) == 1540
    assert len(set(ids)) == 1540
    assert all(each.isascii() for each in ids)
    assert ids[:2] == ["conv-26-q000", "conv-26-q001"]
    assert ids == sorted(ids)
    of_one = project.collected("suites/locomo", OFFLINE, "--dshmem-data", real_data, "-k", "conv-26")
    assert of_one == ids[:152]


def test_every_instance_of_longmemeval_is_collected(project: SuiteProject, real_data: Path) -> None:
    project.monkeypatch.setenv("DSHMEM_DATA", str(real_data))
    args = ("suites/longmemeval", OFFLINE, "--dshmem-variant", "oracle")
    ids = project.collected(*args)
    assert len(ids) == len(set(ids)) == 500
    assert all(each.isascii() for each in ids)
    assert len(project.collected(*args, "--dshmem-category", "temporal-reasoning")) == 133
    only = project.collected(*args, "--dshmem-abstention", "only")
    assert len(only) == 30
    assert all("_abs" in each for each in only)
    assert len(project.collected(*args, "--dshmem-abstention", "without")) == 470
    assert len(project.collected(*args, "--dshmem-select", "smoke")) == 7


def test_a_sample_corpus_stands_in_offline_where_no_data_is_named(project: SuiteProject) -> None:
    ids = project.collected("suites/locomo", OFFLINE)
    assert len(ids) == SAMPLE_SIZE
    assert ids[0] == "conv-a-q000"


def test_ids_name_the_condition_and_the_repeat_only_where_there_are_several(project: SuiteProject) -> None:
    ids = project.collected(
        "suites/locomo", OFFLINE, "--mode", "baseline,memory", "--dshmem-repeat", "2", "--dshmem-limit", "1"
    )
    assert ids == [
        "conv-a-q000-baseline",
        "conv-a-q000-memory",
        "conv-a-q000-baseline-r2",
        "conv-a-q000-memory-r2",
    ]
    assert project.collected("suites/locomo", OFFLINE, "--dshmem-limit", "1") == ["conv-a-q000"]


def test_a_limit_counts_what_the_keyword_has_left(project: SuiteProject) -> None:
    ids = project.collected("suites/locomo", OFFLINE, "-k", "conv-b", "--dshmem-limit", "2")
    assert ids == ["conv-b-q000", "conv-b-q001"]


def test_a_limit_holds_for_each_condition(project: SuiteProject) -> None:
    ids = project.collected("suites/locomo", OFFLINE, "--mode", "oracle,baseline", "--dshmem-limit", "3")
    assert sum(each.endswith("-oracle") for each in ids) == 3
    assert sum(each.endswith("-baseline") for each in ids) == 3


def test_categories_add_up_to_all_questions(project: SuiteProject) -> None:
    single = project.collected("suites/locomo", OFFLINE, "--dshmem-category", "single-hop")
    others = project.collected(
        "suites/locomo", OFFLINE, "--dshmem-category", "multi-hop, temporal,open-domain"
    )
    assert 0 < len(single) < SAMPLE_SIZE
    assert len(single) + len(others) == SAMPLE_SIZE
    assert not set(single) & set(others)


def test_selections_are_fixed(project: SuiteProject) -> None:
    smoke = project.collected("suites/locomo", OFFLINE, "--dshmem-select", "smoke")
    assert len(smoke) == 4, "one question of each category"
    assert project.collected("suites/locomo", OFFLINE, "--dshmem-select", "smoke") == smoke
    assert len(project.collected("suites/locomo", OFFLINE, "--dshmem-select", "stratified")) == SAMPLE_SIZE
    (project.folder / "mine.txt").write_text("conv-b-q003\nconv-a-q001  # a comment\n", "utf-8")
    chosen = project.collected("suites/locomo", OFFLINE, "--dshmem-select", "mine.txt")
    assert chosen == ["conv-a-q001", "conv-b-q003"]


def test_the_splits_have_no_question_in_common(project: SuiteProject) -> None:
    dev = project.collected("suites/locomo", OFFLINE, "--dshmem-split", "dev")
    held_out = project.collected("suites/locomo", OFFLINE, "--dshmem-split", "held-out")
    assert dev
    assert held_out
    assert sorted(dev + held_out) == project.collected("suites/locomo", OFFLINE)


def test_collecting_both_benchmarks_leaves_nothing_behind(project: SuiteProject) -> None:
    outcome = project.run("suites", OFFLINE, "--collect-only", "-q")
    assert outcome.status == pytest.ExitCode.OK
    assert outcome.lines[-1].startswith("40 tests collected")
    assert project.left_behind() == []


def test_collecting_does_not_touch_a_run_that_is_there(project: SuiteProject) -> None:
    run = project.temporary / "run"
    run.mkdir()
    (run / "run.json").write_text("{}", "utf-8")
    outcome = project.run("suites/locomo", OFFLINE, "--collect-only", "-q", "--dshmem-run", run)
    assert outcome.status == pytest.ExitCode.OK
    assert [path.name for path in run.iterdir()] == ["run.json"]
    assert outcome.lines[-1].startswith("30 tests collected")


def test_nothing_left_to_ask_is_no_error_of_ours(project: SuiteProject) -> None:
    outcome = project.run("suites/locomo", OFFLINE, "-k", "nothing-of-that-name")
    assert outcome.status == pytest.ExitCode.NO_TESTS_COLLECTED
    outcome.assert_no_crash()
    assert project.left_behind() == []
