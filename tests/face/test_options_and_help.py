"""Options: one group, one line of help each, an ini value each, and a precedence."""

import dataclasses
import re

import pytest
from suite_project import OFFLINE, SuiteProject

from pytest_dshmem.face.options import Options

FLAGS = {
    field.name: field.metadata["flag"] or f"--dshmem-{field.name.replace('_', '-')}"
    for field in dataclasses.fields(Options)
}


def test_every_option_has_one_line_of_help_in_one_group(project: SuiteProject) -> None:
    project.monkeypatch.setenv("COLUMNS", "240")
    lines = project.run_apart("--help").lines
    begin = lines.index("memory benchmarks for DeepSeek Harness:")
    group = lines[begin + 1 : lines.index("", begin)]
    flag = re.compile(r"  (--[a-z-]+)")
    told = {found.group(1): line for line in group if (found := flag.match(line))}
    assert list(told) == list(FLAGS.values())
    # argparse puts the text on a line of its own where the option itself is long.
    assert len(group) <= 2 * len(told)
    for name, line in told.items():
        text = re.split(r"\s{2,}", line.strip())[1:] or [group[group.index(line) + 1].strip()]
        assert len(text) == 1, (name, text)
        assert len(text[0]) > 10, (name, text)


def test_every_option_of_ours_begins_alike_but_two() -> None:
    assert {flag for flag in FLAGS.values() if not flag.startswith("--dshmem-")} == {"--mode", "--offline"}


def test_every_option_has_an_ini_value(project: SuiteProject) -> None:
    text = project.run("--help").text
    for name in FLAGS:
        assert re.search(rf"^  dshmem_{name} \(string\):", text, flags=re.MULTILINE), name


def test_the_marker_is_registered(project: SuiteProject) -> None:
    assert "@pytest.mark.dshmem(benchmark):" in project.run("--markers").text
    assert len(project.collected("suites/locomo", OFFLINE, "--strict-markers")) == 30


def test_the_command_line_comes_before_the_ini_file(project: SuiteProject) -> None:
    project.ini("dshmem_limit = 2", "dshmem_offline = true", "dshmem_mode = baseline,oracle")
    assert len(project.collected("suites/locomo")) == 4
    assert len(project.collected("suites/locomo", "--dshmem-limit", "1", "--mode", "memory")) == 1


def test_the_ini_file_comes_before_the_environment(project: SuiteProject) -> None:
    elsewhere = project.temporary / "elsewhere"
    project.monkeypatch.setenv("DSHMEM_DATA", str(elsewhere))
    project.run("suites/locomo", OFFLINE).assert_usage_error(f"is not in {elsewhere}")
    project.ini("dshmem_data = data")
    project.run("suites/locomo", OFFLINE).assert_usage_error(f"is not in {project.folder / 'data'}:")


def test_paths_in_the_ini_file_are_relative_to_it(project: SuiteProject) -> None:
    project.ini("dshmem_select = lists/mine.txt", "dshmem_offline = yes")
    (project.folder / "lists").mkdir()
    (project.folder / "lists" / "mine.txt").write_text("conv-b-q002\n", "utf-8")
    project.monkeypatch.chdir(project.folder / "suites")
    assert project.collected("-c", project.folder / "pytest.ini", "locomo") == ["conv-b-q002"]


def test_paths_on_the_command_line_are_relative_to_where_one_stands(project: SuiteProject) -> None:
    (project.folder / "suites" / "mine.txt").write_text("conv-a-q002\n", "utf-8")
    project.monkeypatch.chdir(project.folder / "suites")
    assert project.collected("locomo", OFFLINE, "--dshmem-select", "mine.txt") == ["conv-a-q002"]


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "with workers"])
def test_nothing_of_ours_shows_where_there_is_no_suite(
    project: SuiteProject, workers: tuple[str, ...]
) -> None:
    project.ini("dshmem_offline = true")
    project.pytester.makepyfile(
        test_plain="""
        import sys

        OURS = {"pydantic", "openai", "tiktoken", "deepseek_harness", "yaml", "filelock"}

        def test_plain():
            assert not OURS & set(sys.modules)
            layers = {name.split(".")[1] for name in sys.modules if name.startswith("pytest_dshmem.")}
            assert "harness" not in layers
            assert "datasets" not in layers
            assert "report" not in layers
        """
    )
    project.pytester.makeconftest(
        """
        import sys

        def pytest_unconfigure(config):
            print("at the end:", "pydantic" in sys.modules, "filelock" in sys.modules)
        """
    )
    outcome = project.run_apart("test_plain.py", *workers)
    assert outcome.status == pytest.ExitCode.OK, outcome.text
    assert "at the end: False False" in outcome.text
    told = [line for line in outcome.lines if not line.startswith("plugins:")]
    assert "dshmem" not in "\n".join(told)
    assert project.left_behind() == []


def test_the_suites_do_not_crash_pytest_where_the_plugin_is_off(project: SuiteProject) -> None:
    outcome = project.run_apart("suites/locomo", "-p", "no:dshmem")
    assert outcome.status == pytest.ExitCode.TESTS_FAILED
    assert "fixture 'question' not found" in outcome.text
    outcome.assert_no_crash()
