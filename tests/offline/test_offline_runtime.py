"""The real runtime on the embedded model: sessions are remembered, consolidated, and asked about."""

from pathlib import Path

import pytest

from pytest_dshmem.bundled import bundled_path
from pytest_dshmem.harness.composition import Composition, Policy
from pytest_dshmem.harness.endpoint import Endpoint
from pytest_dshmem.harness.memory_system import load_memory_system
from pytest_dshmem.harness.runtime import Runtime
from pytest_dshmem.harness.sandbox import Sandbox
from pytest_dshmem.offline.process import StandIn

pytestmark = pytest.mark.runtime

SESSION = """Keep what may be useful.

<session date="4:05 pm on 15 March, 2024">
Ines: Hi Otto! How are you?
Otto: Great, thanks! I bought a red canoe yesterday for 300 euros.
Ines: Wow, lovely! My sister Ada moved to Porto last year.
</session>"""
QUESTION = "Answer.\n\nCurrent date: 15 March, 2024\nQuestion: When did Otto buy the canoe?"
TURN_SECONDS = 60.0


def test_a_session_is_kept_consolidated_and_recalled(tmp_path: Path) -> None:
    system = load_memory_system("reference", bundled_path("memory"))
    home = Sandbox(tmp_path / "sandbox").home("formation", "ingest")
    roots = system.readable_roots(home.paths)
    for root in roots:
        root.mkdir(parents=True)
    with StandIn.start() as stand_in:
        endpoint = Endpoint(api_key="any", base_url=stand_in.url)
        composition = Composition(
            endpoint=endpoint,
            model="offline",
            policies={
                "ingest": Policy(tools=system.tools.ingest, read_roots=roots),
                "worker": Policy(tools=system.tools.worker),
                "question": Policy(tools=system.tools.qa, read_roots=roots),
            },
            memory_rows=system.patch_rows(home.paths, model="offline", provider=endpoint.provider),
            required_rows=system.rows,
        )
        with Runtime.start(home, composition) as runtime:
            with runtime.session("s1", "ingest"):
                kept = runtime.turn("s1", SESSION, TURN_SECONDS)
                receipt = runtime.request("memory/consolidate", {"sessionId": "s1"})
            with runtime.session("s2", "question"):
                recalled = runtime.turn("s2", QUESTION, TURN_SECONDS)
        served = stand_in.served()["messages"]

    assert (kept.finish_reason, kept.failure) == ("completed", None)
    assert receipt["status"] == "committed"
    assert {Path(file).name for file in receipt["files"]} == {"ines.md", "otto.md"}
    assert recalled.finish_reason == "completed"
    assert recalled.response.startswith("14 March 2024")
    assert any(file.endswith("otto.md") for file in recalled.opened)
    assert served["failed"] == 0
    assert served["requests"] == 2 + receipt["requests"] + 2
