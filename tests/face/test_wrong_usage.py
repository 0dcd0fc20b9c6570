"""Wrong usage: one clear sentence, pytest's usage exit, no traceback; with workers as without."""

from pathlib import Path

import pytest
from suite_project import OFFLINE, SuiteProject

LOCOMO = "suites/locomo"

BAD_VALUES = {
    "a condition that there is not": (("--mode", "amnesia"), "no condition 'amnesia'", "memory-consolidate"),
    "no condition at all": (("--mode", ","), "there is no condition ','"),
    "a word for a number": (("--dshmem-limit", "many"), "--dshmem-limit: 'many' is not a whole number"),
    "nothing for a number": (("--dshmem-concurrency", "0"), "--dshmem-concurrency: 0 is not more than 0"),
    "an endless number": (("--dshmem-question-timeout", "inf"), "inf is not more than 0"),
    "more than all": (("--dshmem-fail-under", "101"), "101 is not between 0 and 100"),
    "a choice that there is not": (("--dshmem-split", "test"), "'test' is not one of all, dev, held-out"),
    "a price file that is not there": (("--dshmem-prices", "none.toml"), "there is no file", "none.toml"),
    "a judge prompt that is not there": (("--dshmem-judge-prompt", "none.txt"), "there is no file"),
    "an overlay that is not there": (("--dshmem-overlay", "none.json"), "there is no file"),
    "a run that is none": (("--dshmem-compare", "suites"), "suites holds no run"),
    "a gate on a run that is none": (("--dshmem-no-worse-than", "suites"), "suites holds no run"),
    "a report in a folder that is not there": (("--dshmem-html", "none/report.html"), "there is no folder"),
    "a report that is a folder": (("--dshmem-json", "suites"), "suites is a folder; name a file"),
    "a source home that is not there": (("--dshmem-source-home", "none"), "there is no folder"),
}


@pytest.mark.parametrize(
    ("args", "parts"), [(case[0], case[1:]) for case in BAD_VALUES.values()], ids=BAD_VALUES
)
def test_a_bad_value_is_refused_by_the_option_it_is_for(
    project: SuiteProject, args: tuple[str, str], parts: tuple[str, ...]
) -> None:
    outcome = project.run(LOCOMO, OFFLINE, *args)
    outcome.assert_usage_error(f"argument {args[0]}:", *parts)


BAD_INI = {
    "a word for a number": ("dshmem_limit = many", "ini value dshmem_limit: 'many' is not a whole number"),
    "a condition that there is not": (
        "dshmem_mode = amnesia",
        "ini value dshmem_mode: there is no condition",
    ),
    "a word for yes or no": ("dshmem_no_judge = perhaps", "'perhaps' is neither true nor false"),
    "a file that is not there": ("dshmem_prices = none.toml", "ini value dshmem_prices: there is no file"),
}


@pytest.mark.parametrize(("line", "sentence"), BAD_INI.values(), ids=BAD_INI)
def test_a_bad_ini_value_is_refused_by_its_name(project: SuiteProject, line: str, sentence: str) -> None:
    project.ini(line)
    project.run(LOCOMO, OFFLINE).assert_usage_error(sentence)


def test_a_bad_ini_value_concerns_nobody_without_a_suite(project: SuiteProject) -> None:
    project.ini("dshmem_limit = many")
    project.pytester.makepyfile(test_plain="def test_plain(): pass")
    assert project.run("test_plain.py").status == pytest.ExitCode.OK
    assert project.run_apart("test_plain.py", "-n", "1").status == pytest.ExitCode.OK


def test_no_model_credential_and_no_offline_is_refused(project: SuiteProject, real_data: Path) -> None:
    outcome = project.run(LOCOMO, "--dshmem-data", real_data)
    outcome.assert_usage_error("no model credential: set DEEPSEEK_API_KEY", "--offline")


def test_no_judge_credential_is_found_before_anything_is_paid_for(
    project: SuiteProject, real_data: Path
) -> None:
    project.monkeypatch.setenv("DEEPSEEK_API_KEY", "a key")
    outcome = project.run(LOCOMO, "--dshmem-data", real_data)
    outcome.assert_usage_error("no judge credential: set DSHMEM_JUDGE_API_KEY or OPENAI_API_KEY")
    assert project.left_behind() == []


def test_missing_data_names_the_command_that_fetches_it(project: SuiteProject) -> None:
    outcome = project.run(LOCOMO, OFFLINE, "--dshmem-data", project.temporary)
    outcome.assert_usage_error("locomo10.json is not in", "dshmem data fetch locomo")


def test_another_file_is_refused_and_a_broken_one_even_where_it_is_allowed(project: SuiteProject) -> None:
    file = project.temporary / "locomo10.json"
    file.write_text("{ broken", "utf-8")
    args = (LOCOMO, OFFLINE, "--dshmem-data", project.temporary)
    project.run(*args).assert_usage_error("is not the published locomo", "--dshmem-allow-unpinned")
    project.run(*args, "--dshmem-allow-unpinned").assert_usage_error(f"{file}: not valid JSON")


def test_a_category_that_there_is_not_is_refused(project: SuiteProject) -> None:
    outcome = project.run(LOCOMO, OFFLINE, "--dshmem-category", "gossip")
    outcome.assert_usage_error("locomo has no category 'gossip'; it has single-hop")


def test_a_selection_that_cannot_be_used_is_refused(project: SuiteProject) -> None:
    (project.folder / "list.txt").write_text("conv-z-q001\n", "utf-8")
    args = (LOCOMO, OFFLINE, "--dshmem-select")
    project.run(*args, "list.txt").assert_usage_error("names 'conv-z-q001', which the data set does not have")
    project.run(*args, "none.txt").assert_usage_error("none.txt cannot be read")


def test_a_memory_system_that_cannot_be_used_is_refused(project: SuiteProject) -> None:
    (project.folder / "broken.toml").write_text("name =", "utf-8")
    args = (LOCOMO, OFFLINE, "--dshmem-memory")
    project.run(*args, "oblivion").assert_usage_error("no memory system 'oblivion'", "reference-web")
    project.run(*args, "broken.toml").assert_usage_error("broken.toml: the profile is not valid TOML")


def test_a_system_without_a_consolidator_cannot_consolidate(project: SuiteProject) -> None:
    bundled = Path(__file__).resolve().parents[2] / "fixtures" / "memory"
    profile = (bundled / "reference.toml").read_text("utf-8")
    plain = project.folder / "plain.toml"
    head = profile.partition("[consolidation]")[0]
    assert head != profile
    text = head.replace("reference/plugin.mjs", f"{bundled}/reference/plugin.mjs")
    plain.write_text(f'{text}[consolidation]\ntrigger = "none"\n\n[usage]\nmetering = "recorder"\n', "utf-8")
    outcome = project.run(
        LOCOMO, OFFLINE, "--dshmem-memory", "plain.toml", "--mode", "memory,memory-consolidate"
    )
    outcome.assert_usage_error("--mode memory-consolidate: the memory system", "has no consolidator")


def test_a_judge_prompt_must_hold_what_is_judged(project: SuiteProject) -> None:
    (project.folder / "prompt.txt").write_text("Is it right?", "utf-8")
    outcome = project.run(LOCOMO, OFFLINE, "--dshmem-judge-prompt", "prompt.txt")
    outcome.assert_usage_error("prompt.txt lacks {question}, {reference}, {hypothesis}")


def test_prices_are_read_before_anything_is_paid_for(project: SuiteProject) -> None:
    (project.folder / "prices.toml").write_text("source =", "utf-8")
    outcome = project.run(LOCOMO, OFFLINE, "--dshmem-prices", "prices.toml")
    outcome.assert_usage_error("prices.toml is not valid TOML")
    assert project.left_behind() == []


def test_a_run_may_not_lie_in_a_repository(project: SuiteProject) -> None:
    (project.folder / ".git").mkdir()
    sentence = "lies inside a repository; name a folder outside of it"
    project.run(LOCOMO, OFFLINE, "--dshmem-run", "run").assert_usage_error(sentence)
    project.run(LOCOMO, OFFLINE, "--dshmem-sandbox", "box").assert_usage_error(sentence)
    project.ini("dshmem_run = run")
    project.run(LOCOMO, OFFLINE).assert_usage_error(sentence)


def test_a_folder_that_holds_something_else_is_no_run(project: SuiteProject) -> None:
    (project.temporary / "letter.txt").write_text("Dear all", "utf-8")
    outcome = project.run(LOCOMO, OFFLINE, "--dshmem-run", project.temporary)
    outcome.assert_usage_error("holds no run but is not empty (letter.txt")
    assert (project.temporary / "letter.txt").read_text("utf-8") == "Dear all"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that nobody can write to")
def test_a_folder_that_cannot_be_written_is_named(project: SuiteProject) -> None:
    outcome = project.run(LOCOMO, OFFLINE, "--dshmem-run", "/proc/run")
    outcome.assert_usage_error("cannot make the run directory /proc/run")


def test_a_marker_names_one_benchmark(project: SuiteProject) -> None:
    project.pytester.makepyfile(
        test_mine="""
        import pytest

        @pytest.mark.dshmem
        def test_question(question, ask):
            assert ask(question).answered
        """
    )
    project.run("test_mine.py", OFFLINE).assert_usage_error("the marker dshmem takes one name")


def test_a_benchmark_that_there_is_not_is_refused(project: SuiteProject) -> None:
    project.pytester.makepyfile(
        test_mine="""
        import pytest

        @pytest.mark.dshmem("trivia")
        def test_question(question, ask):
            assert ask(question).answered
        """
    )
    project.run("test_mine.py", OFFLINE).assert_usage_error("There is no benchmark 'trivia'")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--mode", "amnesia"), "there is no condition 'amnesia'"),
        (("--dshmem-data", "none"), "dshmem data fetch locomo"),
        (("--dshmem-memory", "oblivion"), "no memory system 'oblivion'"),
        (("--dshmem-run", "suites"), "holds no run but is not empty"),
        (("-o", "dshmem_limit=many"), "ini value dshmem_limit: 'many' is not a whole number"),
    ],
)
def test_workers_change_nothing_of_it(project: SuiteProject, args: tuple[str, str], sentence: str) -> None:
    project.run_apart(LOCOMO, OFFLINE, "-n", "2", *args).assert_usage_error(sentence)
    assert project.left_behind() == []
