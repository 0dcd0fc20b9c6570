"""A whole run as a user sees it: alone, with workers, over gateways, again, and for both benchmarks."""

import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from suite_project import JUDGE_KEY, MODEL_KEY, OFFLINE, SuiteProject, entries, states

from pytest_dshmem.offline.process import StandIn

pytestmark = pytest.mark.runtime

LISTENING = """
from pathlib import Path

HEARD = Path(__file__).parent / "heard"

def pytest_dshmem_hypothesis(config, nodeid, hypothesis):
    worker = hasattr(config, "workerinput")
    with HEARD.open("a") as file:
        print("hypothesis", nodeid, hypothesis.state, bool(hypothesis.calls), worker, file=file)

def pytest_dshmem_summary(config, run, reading):
    with HEARD.open("a") as file:
        print("summary", (run / "run.json").is_file(), len(reading.selected), file=file)
"""


def junit_properties(file: Path) -> dict[str, dict[str, str]]:
    """The properties of every test in a JUnit file, by the test's name."""
    tests = ElementTree.parse(file).iter("testcase")
    return {
        test.attrib["name"]: {each.attrib["name"]: each.attrib["value"] for each in test.iter("property")}
        for test in tests
    }


def test_a_run_shows_its_progress_its_answers_and_its_summary(project: SuiteProject) -> None:
    project.pytester.makeconftest(LISTENING)
    limited = ("suites/locomo", OFFLINE, "--mode", "baseline,memory", "--dshmem-limit", "2")
    alone = project.run_apart(*limited, "-v", "--junitxml", "alone.xml", "--durations", "1")
    assert alone.status == pytest.ExitCode.OK, alone.text
    assert re.search(r"::test_question\[conv-a-q000-memory\] ANSWERED \d+\.\d s", alone.text)
    assert re.search(
        r"^conv-a memory: session 1 ingested, \d+\.\d s, [\d,]+ tokens$", alone.text, re.MULTILINE
    )
    assert re.search(r"^conv-a memory: memory frozen, \d+ files, ", alone.text, re.MULTILINE)
    assert alone.text.count("offline: these figures are not benchmark results") == 2
    assert len(alone.figures) >= 4
    assert project.left_behind() == [], "sandbox and run go after success"

    heard = (project.folder / "heard").read_text("utf-8").splitlines()
    (project.folder / "heard").unlink()
    assert sorted(heard) == [
        "hypothesis suites/locomo/test_locomo.py::test_question[conv-a-q000-baseline] answered True False",
        "hypothesis suites/locomo/test_locomo.py::test_question[conv-a-q000-memory] answered True False",
        "hypothesis suites/locomo/test_locomo.py::test_question[conv-a-q001-baseline] answered True False",
        "hypothesis suites/locomo/test_locomo.py::test_question[conv-a-q001-memory] answered True False",
        "summary True 4",
    ]

    shared = project.run_apart(*limited, "-n", "2", "--junitxml", "shared.xml")
    assert shared.status == pytest.ExitCode.OK, shared.text
    assert shared.figures == alone.figures
    assert re.search(r"^conv-a memory: session 1 ingested, ", shared.text, re.MULTILINE)
    assert project.left_behind() == []
    again = (project.folder / "heard").read_text("utf-8").splitlines()
    assert sorted(again) == sorted(heard)

    for file in ("alone.xml", "shared.xml"):
        properties = junit_properties(project.folder / file)
        assert len(properties) == 4
        for told in properties.values():
            assert told["dshmem_state"] == "answered"
            assert int(told["dshmem_calls"]) >= 1
            assert int(told["dshmem_input_tokens"]) > 0
            assert "dshmem" not in told, "the whole record is not a property"
            assert max(map(len, told.values())) < 1000


def test_a_second_run_on_the_same_directory_asks_nobody(project: SuiteProject) -> None:
    run, other = project.temporary / "run", project.temporary / "other"
    with StandIn.start() as model:
        args = ("suites/locomo", *project.real_endpoints(model.url), "--dshmem-limit", "3")
        first = project.run_apart(*args, "--dshmem-run", run)
        assert first.status == pytest.ExitCode.OK, first.text
        served = model.served()
        assert served["messages"]["requests"] >= 3
        assert served["chat"]["requests"] == 3
        second = project.run_apart(*args, "--dshmem-run", run, "-q")
        assert second.status == pytest.ExitCode.OK, second.text
        assert model.served() == served
        assert second.figures == first.figures
        third = project.run_apart(*args, "--dshmem-run", other, "-n", "2", "--dist", "worksteal")
        assert third.status == pytest.ExitCode.OK, third.text
    assert first.figures
    assert third.figures == first.figures
    assert (run / "hypotheses.jsonl").read_bytes() == (other / "hypotheses.jsonl").read_bytes()
    for path in run.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert MODEL_KEY.encode() not in content
            assert JUDGE_KEY.encode() not in content
    changed = project.run("suites/locomo", OFFLINE, "--dshmem-run", run, "--dshmem-question-steps", "3")
    changed.assert_usage_error(
        "was made with other settings",
        "limits.question_steps (was 10, now 3)",
        "offline (was False, now True)",
    )
    assert not (run / "failure.json").exists(), "a run that is refused is left alone"


def test_gateways_with_folders_of_their_own_share_a_run(project: SuiteProject) -> None:
    limited = (OFFLINE, "--dshmem-limit", "4", "--mode", "memory")
    alone = project.run_apart("suites/locomo", *limited)
    places = [project.temporary / name for name in ("here", "there")]
    for place in places:
        shutil.copytree(project.folder / "suites", place / "suites")
        shutil.copy(project.folder / "pytest.ini", place)
    gateways = [f"--tx=popen//chdir={place}" for place in places]
    args = ("-d", *gateways, "-o", "testpaths=suites/locomo", *limited, "--dshmem-run=run")
    shared = project.run_apart(*args)
    assert shared.status == pytest.ExitCode.OK, shared.text
    assert shared.figures == alone.figures != []
    again = project.run_apart(*args)
    assert again.status == pytest.ExitCode.OK, again.text
    assert again.figures == alone.figures
    assert len(entries(project.folder / "run", "formation.jsonl")) == 1
    assert states(project.folder / "run") == ["answered"] * 4


def test_both_benchmarks_in_one_session_have_a_run_each(project: SuiteProject) -> None:
    run = project.temporary / "runs"
    outcome = project.run_apart(
        "suites", OFFLINE, "--mode", "baseline", "--dshmem-limit", "2", "--dshmem-run", run
    )
    assert outcome.status == pytest.ExitCode.OK, outcome.text
    assert "memory benchmark locomo" in outcome.text
    assert "memory benchmark longmemeval" in outcome.text
    assert sorted(path.name for path in run.iterdir()) == ["locomo", "longmemeval"]
    assert states(run / "locomo") == states(run / "longmemeval") == ["answered"] * 2


def test_repeats_show_their_spread_and_gates_decide_the_exit_status(project: SuiteProject) -> None:
    outcome = project.run_apart(
        *("suites/locomo", OFFLINE, "--mode", "baseline", "--dshmem-limit", "2", "--dshmem-repeat", "2"),
        *("--dshmem-fail-under", "99.5", "--dshmem-html", "report.html", "--dshmem-json", "report.json"),
        *("-p", "no:cacheprovider"),
    )
    assert outcome.status == pytest.ExitCode.TESTS_FAILED, outcome.text
    assert "4 passed" in outcome.text
    assert "gate FAILED: " in outcome.text
    assert "repeats" in outcome.text
    assert (project.folder / "report.html").read_text("utf-8").startswith("<!doctype html>")
    assert (project.folder / "report.json").is_file()
    kept = re.search(r"^  --dshmem-run (\S+)$", outcome.text, re.MULTILINE)
    assert kept is not None
    assert (Path(kept[1]) / "failure.json").is_file()


def test_without_a_terminal_the_run_stays_and_the_sandbox_goes(project: SuiteProject) -> None:
    run = project.temporary / "run"
    args = ("suites/locomo", OFFLINE, "--mode", "memory", "--dshmem-limit", "1", "--dshmem-run", run)
    outcome = project.run_apart(*args, "-p", "no:terminal", "-p", "no:xdist")
    assert outcome.status == pytest.ExitCode.OK
    assert outcome.text.strip() == ""
    assert states(run) == ["answered"]
    assert project.left_behind() == []
