"""What cannot be formed by replay is refused before anything is started."""

import pytest
from suite_project import OFFLINE, SuiteProject

REPLAY = ("--dshmem-ingestion", "replay")


@pytest.mark.parametrize(
    ("suite", "mode", "parts"),
    [
        ("suites/locomo", "memory-consolidate", ("two people", "use --dshmem-ingestion transcript")),
        ("suites/longmemeval", "memory", ("captures_replay", "use --mode memory-consolidate")),
        ("suites/longmemeval", "memory-consolidate,memory", ("--mode memory would form nothing",)),
    ],
)
def test_a_replay_that_would_form_nothing_is_refused(
    project: SuiteProject, suite: str, mode: str, parts: tuple[str, ...]
) -> None:
    outcome = project.run(suite, OFFLINE, "--mode", mode, *REPLAY)
    outcome.assert_usage_error("--dshmem-ingestion replay: ", *parts)


def test_conditions_without_a_memory_do_not_mind(project: SuiteProject) -> None:
    outcome = project.run("suites/locomo", OFFLINE, "--mode", "oracle", *REPLAY, "--collect-only", "-q")
    assert outcome.status == pytest.ExitCode.OK
