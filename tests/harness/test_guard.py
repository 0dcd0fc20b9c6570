"""The guard on the real runtime: what a session sees, may run, may read and may spend."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from guarded_runtime import GuardedRuntime, guarded_runtime, one_after_the_other
from scripted_model import Reply, Request, ToolUse

from pytest_dshmem.experiment.outcome import outcome_of
from pytest_dshmem.harness.composition import Policy
from pytest_dshmem.harness.endpoint import HarnessError
from pytest_dshmem.harness.sandbox import IsolatedHome

pytestmark = pytest.mark.runtime

STEPS = 3
SECONDS = 2.0
REMEMBERED = "Mira planted a quince tree."
OUTSIDE = "Nobody may read this sentence."
KNOWN_FIELDS = frozenset(
    {"model", "stream", "messages", "max_tokens", "thinking", "output_config", "system", "tools"}
)


def memory_of(home: IsolatedHome) -> Path:
    return home.paths.dsh_home / "memory"


def policies(home: IsolatedHome) -> Mapping[str, Policy]:
    memory = memory_of(home)
    memory.mkdir(parents=True, exist_ok=True)
    (memory / "garden.md").write_text(REMEMBERED + "\n", "utf-8")
    return {
        "qa": Policy(tools=("read",), read_roots=(memory,), max_steps=8, effort="high", max_tokens=4321),
        "baseline": Policy(),
        "short": Policy(tools=("read",), read_roots=(memory,), max_steps=STEPS),
        "hurried": Policy(tools=("read",), read_roots=(memory,), turn_seconds=SECONDS),
    }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedRuntime]:
    with guarded_runtime(tmp_path_factory.mktemp("guard"), policies) as started:
        yield started


@pytest.fixture
def memory(guarded: GuardedRuntime) -> Path:
    return memory_of(guarded.home)


def ask_for(tool: str, **arguments: object) -> Reply:
    return Reply(tool_uses=(ToolUse(tool, arguments),))


def refused(requests: list[Request]) -> str:
    """What the model was told about its one tool call."""
    assert len(requests) == 2, "one call, one answer"
    (told,) = requests[-1].tool_results
    return told


def test_the_model_is_offered_exactly_the_tools_of_its_role(guarded: GuardedRuntime) -> None:
    _, (asked,) = guarded.turn("qa", lambda _request: Reply(text="Fine."))
    assert asked.tools == ["read"]


def test_a_session_without_tools_is_offered_none(guarded: GuardedRuntime) -> None:
    _, (asked,) = guarded.turn("baseline", lambda _request: Reply(text="Fine."))
    assert asked.tools == []
    assert not asked.body.get("tools")


def test_effort_and_output_limit_are_those_of_the_role(guarded: GuardedRuntime) -> None:
    _, (asked,) = guarded.turn("qa", lambda _request: Reply(text="Fine."))
    assert asked.body["output_config"]["effort"] == "high"
    assert asked.body["max_tokens"] == 4321


def test_nothing_but_the_prompt_and_our_persona_reaches_the_model(guarded: GuardedRuntime) -> None:
    _, (asked,) = guarded.turn("qa", lambda _request: Reply(text="Fine."), prompt="Who planted the tree?")

    assert "long-term memory" in asked.system
    context = asked.user_text.removeprefix("Who planted the tree?")
    assert str(guarded.home.paths.workspace) in context
    assert len(context.strip().splitlines()) == 3, "the folder, and that this is the context"
    assert set(asked.body) <= KNOWN_FIELDS, "no session log, no list of plugins"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("bash", {"command": "cat /etc/passwd"}),
        ("write", {"file_path": "note.md", "content": "x"}),
        ("edit", {"file_path": "note.md", "old_string": "a", "new_string": "b"}),
        ("grep", {"pattern": "Mira"}),
        ("web_search", {"query": "Mira"}),
        ("memory_update", {"scope": "global", "mode": "append", "content": "x"}),
        ("task", {"prompt": "read it for me"}),
    ],
)
def test_any_other_tool_is_refused_and_the_turn_goes_on(
    guarded: GuardedRuntime, tool: str, arguments: dict[str, str]
) -> None:
    handler = one_after_the_other(ask_for(tool, **arguments), Reply(text="I do not know."))

    turn, requests = guarded.turn("qa", handler)

    assert (turn.finish_reason, turn.response) == ("completed", "I do not know.")
    assert tool in refused(requests)
    assert not list(guarded.home.paths.workspace.iterdir())


def test_a_role_without_tools_cannot_read_even_the_memory(guarded: GuardedRuntime, memory: Path) -> None:
    handler = one_after_the_other(ask_for("read", file_path=str(memory / "garden.md")))

    turn, requests = guarded.turn("baseline", handler)

    assert REMEMBERED not in refused(requests)
    assert (turn.finish_reason, turn.opened) == ("completed", ())


def test_a_memory_file_can_be_read_and_is_reported_as_opened(guarded: GuardedRuntime, memory: Path) -> None:
    file = memory / "garden.md"

    turn, requests = guarded.turn("qa", one_after_the_other(ask_for("read", file_path=str(file))))

    assert REMEMBERED in refused(requests)
    assert turn.opened == (str(file),)
    assert turn.tool_seconds > 0


def way_out(name: str, memory: Path, workspace: Path, secret: Path) -> str:
    """A path by which a model might try to reach a file outside of the memory."""
    link, folder_link, inward_link = memory / "link.md", memory / "shelf", secret.parent / "inward"
    (memory / "deep").mkdir(exist_ok=True)
    (memory / secret.name).write_text(REMEMBERED, "utf-8")
    (secret.parent.parent / "garden.md").write_text(OUTSIDE, "utf-8")
    for made, target in ((link, secret), (folder_link, secret.parent), (inward_link, memory / "deep")):
        if not made.is_symlink():
            made.symlink_to(target)
    ways = {
        "absolute": str(secret),
        "dots": f"{memory}/../../{secret.name}",
        "dots from afar": f"{memory}/{'../' * 30}{str(secret).lstrip('/')}",
        "file link": str(link),
        "folder link": str(folder_link / secret.name),
        "dots behind a folder link": f"{folder_link}/../{secret.parent.name}/{secret.name}",
        "dots that lead out on the disk alone": f"{folder_link}/../garden.md",
        "dots that lead in on the disk alone": f"{inward_link}/../{secret.name}",
        "relative": os.path.relpath(secret, workspace),
        "process root": f"/proc/self/root{secret}",
        "process folder": f"/proc/self/cwd/{os.path.relpath(secret, workspace)}",
        "memory root's sibling": f"{memory}-secret/{secret.name}",
        "nothing": "",
    }
    return ways[name]


@pytest.mark.parametrize(
    "name",
    [
        "absolute",
        "dots",
        "dots from afar",
        "file link",
        "folder link",
        "dots behind a folder link",
        "dots that lead out on the disk alone",
        "dots that lead in on the disk alone",
        "relative",
        "process root",
        "process folder",
        "memory root's sibling",
        "nothing",
    ],
)
def test_reads_outside_the_memory_are_refused_and_the_turn_goes_on(
    guarded: GuardedRuntime, memory: Path, name: str
) -> None:
    outside = guarded.home.paths.dsh_home.parent / "outside"
    sibling = memory.with_name("memory-secret")
    for folder in (outside, sibling):
        folder.mkdir(exist_ok=True)
        (folder / "secret.md").write_text(OUTSIDE, "utf-8")
    path = way_out(name, memory, guarded.home.paths.workspace, outside / "secret.md")

    turn, requests = guarded.turn(
        "qa", one_after_the_other(ask_for("read", file_path=path), Reply(text="I do not know."))
    )

    assert OUTSIDE not in refused(requests)
    assert (turn.finish_reason, turn.response, turn.opened) == ("completed", "I do not know.", ())


def test_a_turn_over_its_steps_is_blocked(guarded: GuardedRuntime, memory: Path) -> None:
    turn, requests = guarded.turn("short", lambda _: ask_for("read", file_path=str(memory / "garden.md")))

    assert len(requests) == STEPS
    outcome = outcome_of(turn, STEPS, SECONDS)
    assert (outcome.state, outcome.reason) == ("blocked", "more than 3 steps were wanted")


def test_a_turn_that_needs_every_step_it_has_is_completed(guarded: GuardedRuntime, memory: Path) -> None:
    read = ask_for("read", file_path=str(memory / "garden.md"))
    turn, requests = guarded.turn("short", one_after_the_other(read, read, Reply(text="A quince.")))

    assert len(requests) == STEPS
    assert (turn.finish_reason, turn.response) == ("completed", "A quince.")


def test_a_turn_over_its_time_is_a_timeout_and_the_runtime_lives_on(guarded: GuardedRuntime) -> None:
    turn, requests = guarded.turn("hurried", lambda _request: Reply(text="At last.", delay=10.0))

    assert len(requests) == 1
    assert SECONDS <= turn.seconds < 8
    outcome = outcome_of(turn, STEPS, SECONDS)
    assert (outcome.state, outcome.reason) == ("timeout", "no end within 2 s")
    after, _ = guarded.turn("hurried", lambda _request: Reply(text="Quick."))
    assert after.response == "Quick."


def test_a_session_that_is_open_cannot_be_opened_again_with_another_role(guarded: GuardedRuntime) -> None:
    with guarded.runtime.session("twice", "baseline"):
        with pytest.raises(HarnessError, match=r"dshmem/open was refused: .*twice is open already"):
            guarded.runtime.request(
                "dshmem/open",
                {"sessionId": "twice", "role": "qa", "cwd": str(guarded.home.paths.workspace)},
            )
        guarded.model.handler = lambda _request: Reply(text="Fine.")
        guarded.runtime.turn("twice", "Hello.", SECONDS)

    assert guarded.model.requests[-1].tools == []


def test_an_unknown_role_is_refused(guarded: GuardedRuntime) -> None:
    with (
        pytest.raises(HarnessError, match="dshmem/open was refused: unknown role judge"),
        guarded.runtime.session("stranger", "judge"),
    ):
        pytest.fail("a session of no known role was opened")


def test_a_session_that_nobody_opened_may_do_nothing(guarded: GuardedRuntime, memory: Path) -> None:
    """A worker's session, say, where the role `worker` has no policy."""
    guarded.model.handler = lambda _request: ask_for("read", file_path=str(memory / "garden.md"))
    before = len(guarded.model.requests)

    turn = guarded.runtime.turn("not-opened", "Read it.", 10.0)

    (asked,) = guarded.model.requests[before:]
    assert asked.tools == []
    assert (turn.finish_reason, turn.opened) == ("blocked", ())
