"""What the ledger says was spent is what the endpoint was seen to serve."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from suite_project import SuiteProject

from pytest_dshmem.offline.process import StandIn
from pytest_dshmem.record.entries import Call
from pytest_dshmem.report.ledger import ledger
from pytest_dshmem.report.reading import read_run

pytestmark = pytest.mark.runtime

MODES = "baseline,memory,memory-consolidate,oracle,full-history"
TROUBLE = {
    "rules": [
        {"api": "messages", "rate": 0.15, "seed": 1, "status": 429},
        {"api": "messages", "rate": 0.15, "seed": 2, "status": 500},
        {"api": "chat", "rate": 0.2, "seed": 3, "status": 429},
    ]
}


def totals(calls: Iterable[Call]) -> dict[str, int]:
    made = list(calls)
    used = [call.usage for call in made if call.usage is not None]
    return {
        "requests": len(made),
        "failed": sum(call.failure is not None for call in made),
        "input": sum(usage.input for usage in used),
        "cache_read": sum(usage.cache_read for usage in used),
        "cache_write": sum(usage.cache_write for usage in used),
        "output": sum(usage.output for usage in used),
        "reasoning": sum(usage.reasoning or 0 for usage in used),
    }


def test_every_token_is_counted_once_under_all_conditions_with_failures(
    project: SuiteProject, tmp_path: Path
) -> None:
    trouble, run = tmp_path / "trouble.json", project.temporary / "run"
    trouble.write_text(json.dumps(TROUBLE))
    with StandIn.start(trouble=trouble) as endpoint:
        options = (*project.real_endpoints(endpoint.url), "--dshmem-run", run, "--dshmem-limit", "4")
        outcome = project.run_apart("suites/locomo", "--mode", MODES, *options)
        served = endpoint.served()
    assert outcome.status == pytest.ExitCode.OK, outcome.text
    reading = read_run(run)
    agent = [
        call
        for entry in (*reading.all_ingestions, *reading.all_consolidations, *reading.all_hypotheses)
        for call in entry.calls
    ]
    judge = [call for verdict in reading.all_verdicts for call in verdict.calls]
    assert served["messages"]["failed"] > 0
    assert served["chat"]["failed"] > 0
    for seen, calls in ((served["messages"], agent), (served["chat"], judge)):
        recorded = totals(calls)
        assert recorded == {name: seen[name] for name in recorded}
    whole = ledger(reading).whole
    assert (whole.calls.total, whole.failed.total) == (
        served["messages"]["requests"] + served["chat"]["requests"],
        served["messages"]["failed"] + served["chat"]["failed"],
    )
    assert whole.output.total == served["messages"]["output"] + served["chat"]["output"]
