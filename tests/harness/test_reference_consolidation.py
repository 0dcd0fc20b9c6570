"""The reference plugin's consolidator on the real runtime, over JSON-RPC and over the web profile's route."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from memory_home import API_KEY, MemoryHome, bundled_system, commit, in_turn, memory_home
from scripted_model import Reply, Request, ToolUse

from pytest_dshmem.harness.consolidation import Consolidator
from pytest_dshmem.harness.endpoint import HarnessError

pytestmark = pytest.mark.runtime

TEA = {"scope": "workspace", "name": "tea", "description": "What Mira drinks", "mode": "append"}
JOB = {"scope": "workspace", "name": "job", "description": "Where Mira works", "mode": "append"}
WORDS = Reply(text="Nothing comes to mind.")


@pytest.fixture(scope="module", params=["reference", "reference-web"])
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[MemoryHome, Consolidator]]:
    with (
        memory_home(tmp_path_factory.mktemp(request.param), bundled_system(request.param)) as home,
        Consolidator(home.system, home.runtime) as consolidator,
    ):
        yield home, consolidator


@pytest.fixture
def home(opened: tuple[MemoryHome, Consolidator]) -> MemoryHome:
    return opened[0]


@pytest.fixture
def consolidator(opened: tuple[MemoryHome, Consolidator]) -> Consolidator:
    return opened[1]


@pytest.fixture
def workspace(home: MemoryHome, request: pytest.FixtureRequest) -> Path:
    return home.workspace(re.sub(r"\W+", "-", request.node.name).strip("-"))


@pytest.fixture
def session(home: MemoryHome, workspace: Path) -> str:
    return home.finished_session(workspace, "8 May 2023. Mira: I drink oolong now.", "Good to know.")


def raw(receipt: Any) -> dict[str, Any]:
    assert receipt.raw is not None
    return dict(receipt.raw)


def test_committed(home: MemoryHome, consolidator: Consolidator, workspace: Path, session: str) -> None:
    home.model.handler = in_turn(commit({**TEA, "content": "Since 8 May 2023 Mira drinks oolong."}))

    receipt = consolidator.consolidate(session)

    assert (receipt.state, receipt.reason) == ("committed", None)
    assert home.files_of(workspace)["tea.md"].endswith("Since 8 May 2023 Mira drinks oolong.\n")
    assert "- [tea](tea.md)" in home.files_of(workspace)["MEMORY.md"]
    seen = raw(receipt)
    assert seen.pop("seconds") > 0
    assert seen.pop("worker_session_id").startswith("memory-worker-")
    assert seen == {
        "session_id": session,
        "status": "committed",
        "finish_reason": "completed",
        "changed": 1,
        "files": [f"workspaces/{home.folder(workspace).name}/tea.md"],
        "diagnosis": None,
        "usage": {"input": 100, "output": 20, "cache_read": 0, "cache_write": 0},
        "requests": 1,
    }


def test_the_receipt_is_kept_outside_of_the_memory(
    home: MemoryHome, consolidator: Consolidator, session: str
) -> None:
    home.model.handler = in_turn(commit({**TEA, "content": "Mira drinks oolong."}))
    receipt = consolidator.consolidate(session)
    assert home.receipts(session) == [raw(receipt)]
    assert not [path for path in home.files() if not path.endswith(".md")]


def test_the_worker_sees_the_session_and_the_memory_and_one_tool(
    home: MemoryHome, consolidator: Consolidator, workspace: Path, session: str
) -> None:
    home.update(workspace, **JOB, content="Mira works at a bakery.")
    home.model.handler = in_turn(commit())

    consolidator.consolidate(session)

    request = home.last_request
    assert request.tools == ["memory_commit"]
    assert "long-term memory of an assistant" in request.system
    text = request.user_text
    assert '<message from="user">\n8 May 2023. Mira: I drink oolong now.\n</message>' in text
    assert '<message from="assistant">\nGood to know.\n</message>' in text
    assert re.search(
        r'<detail name="job" revision="[0-9a-f]{12}">\nWhere Mira works\n\nMira works at a bakery', text
    )
    assert "workspace_memory" not in text, "runtime context is no part of what was said"


@pytest.mark.parametrize("edits", [(), ({**TEA, "content": "Mira drinks oolong."},)])
def test_no_change(
    home: MemoryHome,
    consolidator: Consolidator,
    workspace: Path,
    session: str,
    edits: tuple[dict[str, Any], ...],
) -> None:
    home.update(workspace, **TEA, content="Mira drinks oolong.")
    before = home.files()
    revision = re.findall(r"rev ([0-9a-f]{12})", home.files_of(workspace)["MEMORY.md"])[0]
    again = [{**edit, "mode": "replace", "expected_revision": revision} for edit in edits]
    home.model.handler = in_turn(commit(*again))

    receipt = consolidator.consolidate(session)

    assert (receipt.state, raw(receipt)["changed"]) == ("no-change", 0)
    assert home.files() == before


def test_truncated(home: MemoryHome, consolidator: Consolidator, workspace: Path, session: str) -> None:
    home.model.handler = in_turn(Reply(text="Let me think, and think", stop_reason="max_tokens"))

    receipt = consolidator.consolidate(session)

    assert receipt.state == "truncated"
    assert receipt.reason == "the worker ran out of output tokens before it made a proposal"
    assert raw(receipt)["finish_reason"] == "max-tokens"
    assert raw(receipt)["usage"]["output"] == 20
    assert home.files_of(workspace) == {}


def test_failed_when_the_model_fails(home: MemoryHome, consolidator: Consolidator, session: str) -> None:
    home.model.handler = lambda _request: Reply(status=401, error="no such key")
    receipt = consolidator.consolidate(session)
    assert receipt.state == "failed"
    assert receipt.reason is not None
    assert receipt.reason.startswith("the model call failed: ")
    assert home.receipts(session)[-1]["status"] == "failed"


def test_failed_when_the_worker_says_nothing_but_words(
    home: MemoryHome, consolidator: Consolidator, session: str
) -> None:
    home.model.handler = in_turn(WORDS, WORDS)
    receipt = consolidator.consolidate(session)
    assert (receipt.state, receipt.reason) == ("failed", "the worker ended without a proposal")
    assert raw(receipt)["requests"] == 2, "it was reminded once"


def test_a_worker_that_is_reminded_can_still_succeed(
    home: MemoryHome, consolidator: Consolidator, session: str
) -> None:
    home.model.handler = in_turn(WORDS, commit({**TEA, "content": "Mira drinks oolong."}))
    assert consolidator.consolidate(session).state == "committed"


def test_a_refused_proposal_changes_nothing_and_can_be_corrected(
    home: MemoryHome, consolidator: Consolidator, workspace: Path, session: str
) -> None:
    good, bad = {**TEA, "content": "Mira drinks oolong."}, {**JOB, "name": "memory", "content": "A bakery."}
    seen_after_refusal: list[dict[str, str]] = []

    def model(request: Request) -> Reply:
        if not request.tool_results:
            return commit(good, bad)
        seen_after_refusal.append(home.files_of(workspace))
        return commit(good, {**bad, "name": "job"})

    home.model.handler = model
    receipt = consolidator.consolidate(session)

    assert seen_after_refusal == [{}], "all edits of a proposal are applied, or none"
    assert receipt.state == "committed"
    assert sorted(home.files_of(workspace)) == ["MEMORY.md", "job.md", "tea.md"]


def test_a_worker_that_never_proposes_anything_valid_is_stopped(
    home: MemoryHome, consolidator: Consolidator, workspace: Path, session: str
) -> None:
    home.model.handler = lambda _request: commit({**TEA, "name": "memory", "content": "Mira drinks oolong."})
    receipt = consolidator.consolidate(session)
    assert receipt.state == "failed"
    assert receipt.reason is not None
    assert 'may not be named "memory"' in receipt.reason
    assert raw(receipt)["requests"] == 4, "as many steps as a worker may take"
    assert home.files_of(workspace) == {}


def test_two_edits_of_one_file_are_refused(
    home: MemoryHome, consolidator: Consolidator, workspace: Path, session: str
) -> None:
    twice = commit({**TEA, "content": "oolong"}, {**TEA, "content": "sencha"})
    home.model.handler = lambda request: WORDS if request.tool_results else twice
    receipt = consolidator.consolidate(session)
    assert receipt.state == "failed"
    assert "tea.md stands in two edits" in str(receipt.reason)
    assert home.files_of(workspace) == {}


def test_a_worker_cannot_use_any_other_tool(
    home: MemoryHome, consolidator: Consolidator, session: str
) -> None:
    home.model.handler = in_turn(
        Reply(tool_uses=(ToolUse("read", {"file_path": str(home.dsh_home / "memory" / "GLOBAL.md")}),)),
        Reply(tool_uses=(ToolUse("memory_update", {**TEA, "content": "oolong"}),)),
        commit(),
    )
    assert consolidator.consolidate(session).state == "no-change"
    refusals = home.last_request.tool_results
    assert len(refusals) == 2
    assert all("Error" in refusal for refusal in refusals)


def test_a_session_can_be_consolidated_again(
    home: MemoryHome, consolidator: Consolidator, session: str
) -> None:
    for content in ("Mira drinks oolong.", "Her cup is blue."):
        home.model.handler = in_turn(commit({**TEA, "content": content}))
        assert consolidator.consolidate(session).state == "committed"
    assert len(home.receipts(session)) == 2


def test_an_unknown_session_is_a_failure(home: MemoryHome, consolidator: Consolidator) -> None:
    asked = len(home.model.requests)
    receipt = consolidator.consolidate("never-opened")
    assert receipt.state == "failed"
    assert "never-opened" in str(receipt.reason)
    assert len(home.model.requests) == asked


def test_no_credential_is_in_a_receipt(home: MemoryHome, consolidator: Consolidator, session: str) -> None:
    home.model.handler = lambda _request: Reply(status=401, error=f"{API_KEY} is no good")
    receipt = consolidator.consolidate(session)
    assert "is no good" in str(receipt.reason)
    assert API_KEY not in repr(receipt)


@pytest.fixture(scope="module")
def unguarded_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryHome]:
    """A home whose guard leaves the worker every tool, and whose worker has a second to live."""
    system = bundled_system("reference", worker_timeout_seconds=1)
    tools = system.tools.model_copy(update={"worker": ("read", "memory_update", "memory_commit")})
    with memory_home(
        tmp_path_factory.mktemp("unguarded"), system.model_copy(update={"tools": tools})
    ) as home:
        yield home


def test_the_worker_is_restricted_by_the_plugin_itself(unguarded_home: MemoryHome) -> None:
    workspace = unguarded_home.workspace("restricted")
    session = unguarded_home.finished_session(workspace, "Mira: I drink oolong now.", "I see.")
    unguarded_home.model.handler = in_turn(
        Reply(tool_uses=(ToolUse("memory_update", {**TEA, "content": "oolong"}),)), commit()
    )
    with Consolidator(unguarded_home.system, unguarded_home.runtime) as consolidator:
        assert consolidator.consolidate(session).state == "no-change"
    assert unguarded_home.last_request.tools == ["memory_commit"]
    assert "Error" in unguarded_home.last_request.tool_results[-1]
    assert unguarded_home.files_of(workspace) == {}


def test_a_worker_that_takes_too_long_is_cancelled(unguarded_home: MemoryHome) -> None:
    session = unguarded_home.finished_session(
        unguarded_home.workspace("slow"), "Mira: I drink oolong now.", "I see."
    )
    unguarded_home.model.handler = lambda _request: Reply(text="late", delay=3.0)
    with Consolidator(unguarded_home.system, unguarded_home.runtime) as consolidator:
        receipt = consolidator.consolidate(session)
    assert (receipt.state, receipt.reason) == ("failed", "the worker did not finish within 1 seconds")
    assert receipt.seconds < 3.0


def test_a_session_that_is_open_but_idle_counts_as_finished(unguarded_home: MemoryHome) -> None:
    workspace = unguarded_home.workspace("open")
    unguarded_home.model.handler = in_turn(Reply(text="I see."))
    with unguarded_home.session(workspace) as session:
        unguarded_home.runtime.turn(session, "Mira: I drink oolong now.", 60.0)
        unguarded_home.model.handler = in_turn(commit({**TEA, "content": "Mira drinks oolong."}))
        with Consolidator(unguarded_home.system, unguarded_home.runtime) as consolidator:
            assert consolidator.consolidate(session).state == "committed"


def test_a_request_without_a_session_is_refused(unguarded_home: MemoryHome) -> None:
    with pytest.raises(HarnessError, match="sessionId must name a finished session"):
        unguarded_home.runtime.request("memory/consolidate", {})
