"""Runs that do not go well: states instead of tracebacks, a sentence a test, and everything to go on with."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from scripted_model import Reply, ScriptedModel
from suite_project import MODEL_KEY, OFFLINE, RUN_SECONDS, SuiteProject, entries, states

from pytest_dshmem.command.main import main as dshmem
from pytest_dshmem.offline.process import StandIn

pytestmark = pytest.mark.runtime

BASELINE = ("suites/locomo", "--mode", "baseline")


def test_a_wrong_key_ends_the_run_early(project: SuiteProject) -> None:
    run = project.temporary / "run"
    with ScriptedModel(lambda _: Reply(status=401, error=f"{MODEL_KEY} is not a key")) as model:
        args = (*BASELINE, *project.real_endpoints(model.url), "--dshmem-run", str(run))
        outcome = project.run_apart(*args)
        asked = len(model.requests)
        shared = project.run_apart(*args, "-n", "2")
    for each in (outcome, shared):
        assert each.status == pytest.ExitCode.TESTS_FAILED, each.text
        each.assert_no_crash()
        assert "the run was stopped: " in each.text
        assert "memory benchmark locomo" in each.text
        assert MODEL_KEY not in each.text
    assert asked <= 4, "no more than were in flight"
    failed = [line for line in outcome.lines if line.startswith("error: AUTH: ")]
    assert 1 <= len(failed) <= 4
    assert set(states(run)) == {"error"}
    failure = json.loads((run / "failure.json").read_text("utf-8"))
    assert dshmem(["verify", str(run)]) == 0, "a run that failed is as sound as one that did not"
    assert "AUTH" in failure["halted"]
    assert failure["failures"][0]["state"] == "error"
    assert MODEL_KEY not in (run / "failure.json").read_text("utf-8")


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "with workers"])
def test_rate_limits_slow_the_run_down_and_fail_nothing(
    project: SuiteProject, tmp_path: Path, workers: tuple[str, ...]
) -> None:
    trouble = tmp_path / "trouble.json"
    busy = {"api": "messages", "rate": 0.4, "seed": 3, "status": 429}
    trouble.write_text(json.dumps({"rules": [busy]}))
    with StandIn.start(trouble=trouble) as endpoint:
        run = project.temporary / "run"
        options = (*project.real_endpoints(endpoint.url), "--dshmem-run", str(run))
        outcome = project.run_apart(*BASELINE, *options, *workers)
    assert outcome.status == pytest.ExitCode.OK, outcome.text
    assert set(states(run)) == {"answered"}
    assert re.search(r"rate limits lowered the number of calls in flight \d+ times", outcome.text)
    calls = [call for entry in entries(run, "qa.jsonl") for call in entry["calls"]]
    assert sum(call["failure"] == "RATE_LIMIT" for call in calls) > 3, "each failed attempt is recorded"


def test_answers_that_do_not_come_fail_with_their_state(project: SuiteProject) -> None:
    run = project.temporary / "run"

    with ScriptedModel(lambda _: Reply(text="It was in", stop_reason="max_tokens")) as model:
        options = (*project.real_endpoints(model.url), "--dshmem-run", str(run), "--dshmem-no-judge")
        outcome = project.run_apart(*BASELINE, *options, "-x", "-v", "--dshmem-limit", "3")
    assert outcome.status == pytest.ExitCode.TESTS_FAILED, outcome.text
    outcome.assert_no_crash()
    assert "1 failed" in outcome.text, "-x stops at the first"
    assert "not judged; `dshmem judge" in outcome.text
    assert re.search(r"::test_question\[conv-a-q000\] MAX-TOKENS \d+\.\d s", outcome.text)
    assert any(line.startswith("max-tokens: ") for line in outcome.lines)
    assert set(states(run)) == {"max-tokens"}


def test_a_plugin_that_does_not_load_is_named_in_a_sentence(project: SuiteProject) -> None:
    bundled = Path(__file__).resolve().parents[2] / "fixtures" / "memory"
    profile = (bundled / "reference.toml").read_text("utf-8")
    (project.folder / "broken.toml").write_text(
        profile.replace("reference/plugin.mjs", "broken.mjs"), "utf-8"
    )
    (project.folder / "broken.mjs").write_text("throw new Error('this plugin is broken')\n", "utf-8")
    outcome = project.run_apart(
        "suites/locomo", OFFLINE, "--dshmem-memory", "broken.toml", "--dshmem-limit", "2"
    )
    assert outcome.status == pytest.ExitCode.TESTS_FAILED, outcome.text
    outcome.assert_no_crash()
    sentence = "conv-a was not formed: not active in the harness: reference-memory"
    assert sum(line.startswith(sentence) for line in outcome.lines) == 2
    assert "2 not-formed" in outcome.text
    assert len(project.left_behind()) == 2, "run and sandbox stay after a failure"


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "with workers"])
def test_an_interrupted_run_is_left_in_order_and_can_be_continued(
    project: SuiteProject, workers: tuple[str, ...]
) -> None:
    run = project.temporary / "run"
    with StandIn.start(latency=0.2) as model:
        args = (
            *("suites/locomo", *project.real_endpoints(model.url), "--dshmem-run", str(run)),
            *("--mode", "memory", "-k", "conv-a", "--dshmem-concurrency", "1", *workers),
        )
        process = project.start(*args)
        wait_for_answers(run, 2, process)
        os.kill(process.pid, signal.SIGINT)
        text, _ = process.communicate(timeout=RUN_SECONDS)
        assert process.returncode == pytest.ExitCode.INTERRUPTED, text
        assert "Traceback" not in text
        assert "INTERNALERROR" not in text
        assert f"--dshmem-run {run}" in text
        assert "not judged" in text
        assert still_running(project.temporary) == []
        assert json.loads((run / "failure.json").read_text("utf-8"))["exit_status"] == 2
        assert len(project.left_behind()) == 1, "the sandbox stays"
        assert 2 <= len(set(answered(run))) < 15
        continued = project.run_apart(*args)
    assert continued.status == pytest.ExitCode.OK, continued.text
    assert sorted(answered(run)) == [f"conv-a-q{number:03}" for number in range(15)], "each exactly once"
    assert len([each for each in entries(run, "formation.jsonl") if each["state"] == "frozen"]) == 1
    assert not (run / "failure.json").exists()
    assert project.left_behind() == []


def test_an_interrupt_does_not_wait_for_a_runtime_that_never_gets_ready(project: SuiteProject) -> None:
    bundled = Path(__file__).resolve().parents[2] / "fixtures" / "memory"
    profile = (bundled / "reference.toml").read_text("utf-8").replace("reference/plugin.mjs", "slow.mjs")
    (project.folder / "slow.toml").write_text(profile, "utf-8")
    (project.folder / "slow.mjs").write_text(
        "await new Promise((done) => setTimeout(done, 600000))\n", "utf-8"
    )
    run = project.temporary / "run"

    process = project.start(
        "suites/locomo", OFFLINE, "--dshmem-memory=slow.toml", f"--dshmem-run={run}", "--dshmem-limit=2"
    )
    end = time.monotonic() + RUN_SECONDS
    while not still_running(project.temporary):
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(1.0)
    began = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    text, _ = process.communicate(timeout=RUN_SECONDS)

    assert process.returncode == pytest.ExitCode.INTERRUPTED, text
    assert time.monotonic() - began < RUN_SECONDS / 2, "a start may take 180 s"
    assert still_running(project.temporary) == []
    assert "Traceback" not in text
    assert not (run / "formation.jsonl").exists(), "it did not fail, it was not tried to the end"


def answered(run: Path) -> list[str]:
    found = entries(run, "qa.jsonl") if (run / "qa.jsonl").exists() else []
    return [entry["key"]["question_id"] for entry in found if entry["state"] == "answered"]


def wait_for_answers(run: Path, count: int, process: "subprocess.Popen[str]") -> None:
    end = time.monotonic() + RUN_SECONDS
    while len(answered(run)) < count:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.05)


def still_running(folder: Path) -> list[str]:
    """The command lines of processes that have to do with a folder, or work in it."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            environment = (place / "environ").read_bytes().decode(errors="replace")
            cwd = str((place / "cwd").readlink())
        except OSError:
            continue
        boxes = f"{folder}/dshmem-"
        if boxes in command or boxes in environment or cwd.startswith(boxes):
            found.append(command)
    return found
