"""The published data sets, whole, on the real runtime with the embedded model and judge."""

import re
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from suite_project import OFFLINE, Outcome, SuiteProject, entries, states

from pytest_dshmem.offline.process import StandIn
from pytest_dshmem.report.reading import read_run

pytestmark = [pytest.mark.runtime, pytest.mark.slow]

PATIENCE_SECONDS = 400.0
HAYSTACKS = 3
SESSIONS = 120


@pytest.fixture
def patient(project: SuiteProject, monkeypatch: pytest.MonkeyPatch) -> SuiteProject:
    monkeypatch.setattr("suite_project.RUN_SECONDS", PATIENCE_SECONDS)
    return project


def accuracy(run: Path, condition: str) -> float:
    reading = read_run(run).narrowed(condition)
    verdicts = [verdict.correct for verdict in reading.verdicts.values()]
    return sum(map(bool, verdicts)) / len(verdicts)


def test_a_real_conversation_under_all_three_modes(patient: SuiteProject, real_data: Path) -> None:
    run = patient.temporary / "run"
    with StandIn.start() as model:
        patient.real_endpoints(model.url)
        options = ("--dshmem-data", real_data, "-k", "conv-26", "--dshmem-run", run, "-q")
        modes = ("--mode", "baseline,memory,memory-consolidate", "--dshmem-concurrency", "8")
        first = patient.run_apart("suites/locomo", *options, *modes)
        assert first.status == pytest.ExitCode.OK, first.text
        assert Counter(states(run)) == {"answered": 3 * 152}
        assert accuracy(run, "memory") > accuracy(run, "baseline") + 0.2
        assert accuracy(run, "memory-consolidate") > accuracy(run, "baseline") + 0.2
        served = model.served()
        again = patient.run_apart("suites/locomo", *options, *modes)
        assert again.status == pytest.ExitCode.OK, again.text
        assert model.served() == served, "nothing is asked a second time"
    assert again.figures == first.figures


def test_all_of_longmemeval_with_its_evidence_and_without(patient: SuiteProject, real_data: Path) -> None:
    run = patient.temporary / "run"
    patient.monkeypatch.setenv("DSHMEM_DATA", str(real_data))
    modes = ("--mode", "baseline,oracle", "--dshmem-concurrency", "8")
    outcome = patient.run_apart(
        "suites/longmemeval", OFFLINE, "--dshmem-variant", "oracle", *modes, "--dshmem-run", run, "-q"
    )
    assert outcome.status == pytest.ExitCode.OK, outcome.text
    assert Counter(states(run)) == {"answered": 1000}
    assert accuracy(run, "oracle") > accuracy(run, "baseline") + 0.2


def test_haystacks_of_full_size_reach_a_verdict_across_an_interruption(
    patient: SuiteProject, real_data: Path
) -> None:
    run = patient.temporary / "run"
    args = (
        "suites/longmemeval",
        OFFLINE,
        "--dshmem-data",
        str(real_data / "longmemeval" / "s_size_real3.json"),
        "--dshmem-allow-unpinned",
        "--mode",
        "memory-consolidate",
        "--dshmem-run",
        str(run),
    )
    process = patient.start(*args)
    end = time.monotonic() + PATIENCE_SECONDS
    while (
        not (run / "consolidation.jsonl").exists() or len(entries(run, "consolidation.jsonl")) < SESSIONS / 3
    ):
        assert time.monotonic() < end
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    resumed = patient.run_apart(*args)
    assert resumed.status == pytest.ExitCode.OK, resumed.text
    assert_everything_once(run, resumed)


def assert_everything_once(run: Path, resumed: Outcome) -> None:
    ingested = Counter(
        (entry["key"]["sample_id"], entry["session"])
        for entry in entries(run, "ingestion.jsonl")
        if entry["state"] == "ingested"
    )
    assert len(ingested) == SESSIONS
    assert set(ingested.values()) == {1}
    told = re.findall(r"session \d+ ingested", resumed.text)
    assert len(told) < SESSIONS, "what was done before the interruption is not done again"
    assert len(read_run(run).verdicts) == HAYSTACKS
