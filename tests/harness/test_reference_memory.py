"""The reference memory plugin on the real runtime: what it keeps, what it refuses, what a session sees."""

import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from memory_home import MemoryHome, bundled_system, memory_home
from scripted_model import Reply, ToolUse

pytestmark = pytest.mark.runtime

TEA = {"scope": "workspace", "name": "tea", "description": "What Mira drinks", "mode": "append"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryHome]:
    with memory_home(tmp_path_factory.mktemp("reference"), bundled_system("reference")) as started:
        assert started.files() == {}, "a start alone writes nothing"
        assert not list(started.dsh_home.glob("memory-*"))
        yield started


@pytest.fixture
def workspace(home: MemoryHome, request: pytest.FixtureRequest) -> Path:
    return home.workspace(re.sub(r"\W+", "-", request.node.name).strip("-"))


def revision_in(answer: str) -> str:
    """The revision that an answer of the tool gives as the present one: the last that it names."""
    return re.findall(r"revision (?:is )?([0-9a-f]{12})", answer)[-1]


def test_a_new_memory_is_a_detail_file_and_a_line_in_the_index(home: MemoryHome, workspace: Path) -> None:
    answer = home.update(workspace, **TEA, content="Mira drinks oolong.")

    revision = revision_in(answer)
    assert home.files_of(workspace) == {
        "tea.md": "---\ndescription: What Mira drinks\n---\n\nMira drinks oolong.\n",
        "MEMORY.md": f"# Memory of this workspace\n\n- [tea](tea.md) (rev {revision}): What Mira drinks\n",
    }


def test_append_adds_and_keeps_the_description(home: MemoryHome, workspace: Path) -> None:
    home.update(workspace, **TEA, content="Mira drinks oolong.")
    home.update(workspace, scope="workspace", name="tea", mode="append", content="Since May: sencha.")

    text = home.files_of(workspace)["tea.md"]
    assert text == "---\ndescription: What Mira drinks\n---\n\nMira drinks oolong.\nSince May: sencha.\n"


def test_replace_needs_the_present_revision(home: MemoryHome, workspace: Path) -> None:
    revision = revision_in(home.update(workspace, **TEA, content="Mira drinks oolong."))
    replacement = {"scope": "workspace", "name": "tea", "mode": "replace", "content": "Mira drinks sencha."}

    without = home.update(workspace, **replacement)
    assert "needs expected_revision" in without
    stale = home.update(workspace, **replacement, expected_revision="0" * 12)
    assert "has changed since revision 000000000000" in stale
    for refusal in (without, stale):
        assert revision_in(refusal) == revision
        assert "Mira drinks oolong." in refusal
    assert "oolong" in home.files_of(workspace)["tea.md"]

    home.update(workspace, **replacement, expected_revision=revision)
    assert home.files_of(workspace)["tea.md"].endswith("\n\nMira drinks sencha.\n")


def test_a_revision_of_a_file_that_is_not_there_is_refused(home: MemoryHome, workspace: Path) -> None:
    answer = home.update(workspace, **TEA, content="Mira drinks oolong.", expected_revision="0" * 12)
    assert "there is no tea.md yet" in answer
    assert home.files_of(workspace) == {}


def test_the_same_text_again_changes_nothing(home: MemoryHome, workspace: Path) -> None:
    revision = revision_in(home.update(workspace, **TEA, content="Mira drinks oolong."))
    before = home.files()
    edit = {**TEA, "mode": "replace", "content": "Mira drinks oolong.", "expected_revision": revision}
    assert "Nothing changed" in home.update(workspace, **edit)
    assert home.files() == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "memory"}, 'may not be named "memory"'),
        ({"name": "global"}, 'may not be named "global"'),
        ({"name": "MEMORY"}, "cannot be a name"),
        ({"name": "tea.md"}, "cannot be a name"),
        ({"name": "../tea"}, "cannot be a name"),
        ({"name": "a/b"}, "cannot be a name"),
        ({"name": ""}, "cannot be a name"),
        ({"name": "x" * 65}, "cannot be a name"),
        ({"description": "two\nlines"}, "must be one line"),
        ({"description": "x" * 301}, "longer than 300 characters"),
        ({"description": " "}, "description is missing"),
        ({"content": " \n"}, "content is empty"),
        ({"content": "x" * 70_000}, "more than the limit of 65536"),
        ({"mode": "delete"}, "mode must be one of: append, replace"),
        ({"scope": "planet"}, "scope must be one of: global, workspace"),
        ({"colour": "red"}, 'no field "colour"'),
        ({"content": 3}, "content must be a text"),
        ({"scope": "global"}, "leave name out"),
    ],
)
def test_a_bad_edit_is_refused_with_a_reason(
    home: MemoryHome, workspace: Path, change: dict[str, object], reason: str
) -> None:
    before = home.files()
    answer = home.update(workspace, **{**TEA, "content": "Mira drinks oolong.", **change})
    assert reason in answer
    assert home.files() == before


@pytest.mark.parametrize("missing", ["scope", "name", "content", "mode", "description"])
def test_a_missing_field_is_named(home: MemoryHome, workspace: Path, missing: str) -> None:
    edit = {**TEA, "content": "Mira drinks oolong."}
    del edit[missing]
    assert f"{missing} is missing" in home.update(workspace, **edit)
    assert home.files_of(workspace) == {}


def test_the_next_session_sees_the_index_but_not_the_details(home: MemoryHome, workspace: Path) -> None:
    braces = {**TEA, "description": "Templates like {{name}} & <b>"}
    revision = revision_in(home.update(workspace, **braces, content="Mira drinks oolong."))

    home.turn(workspace, prompt="What now?")

    seen = home.last_request.user_text
    assert f'<workspace_memory dir="{home.folder(workspace)}">' in seen
    assert f"- [tea](tea.md) (rev {revision}): Templates like {{{{name}}}} & <b>" in seen
    assert "oolong" not in seen


def test_a_detail_file_can_be_opened(home: MemoryHome, workspace: Path) -> None:
    home.update(workspace, **TEA, content="Mira drinks oolong.")
    path = str(home.folder(workspace) / "tea.md")

    turn = home.turn(workspace, Reply(tool_uses=(ToolUse("read", {"file_path": path}),)))

    assert "Mira drinks oolong." in home.last_request.tool_results[-1]
    assert turn.opened == (path,)


def test_another_workspace_sees_global_memory_only(home: MemoryHome, workspace: Path) -> None:
    home.update(workspace, **TEA, content="Mira drinks oolong.")
    home.update(workspace, scope="global", mode="append", content="The user speaks Dutch.")

    home.turn(home.workspace("elsewhere"), prompt="What now?")

    seen = home.last_request.user_text
    assert "The user speaks Dutch." in seen
    assert "tea.md" not in seen

    refusal = home.update(workspace, scope="global", mode="replace", content="The user speaks Frisian.")
    replacement = {"scope": "global", "mode": "replace", "content": "The user speaks Frisian."}
    home.update(workspace, **replacement, expected_revision=revision_in(refusal))
    assert (home.memory / "GLOBAL.md").read_text("utf-8") == "The user speaks Frisian.\n"


def test_a_long_index_is_cut_with_a_visible_note(home: MemoryHome, workspace: Path) -> None:
    home.update(workspace, **TEA, content="Mira drinks oolong.")
    index = home.folder(workspace) / "MEMORY.md"
    index.write_text("".join(f"- [n{n}](n{n}.md) (rev 0): {'x' * 80}\n" for n in range(1000)), "utf-8")

    home.turn(workspace, prompt="What now?")

    seen = home.last_request.user_text
    note = re.search(r"The index is cut here: (\d+) more lines are in (\S+)\.\n", seen)
    assert note
    assert seen.count("(rev 0)") + int(note.group(1)) == 1000
    assert note.group(2) == str(index)


def test_looking_at_memory_changes_no_byte_of_it(home: MemoryHome, workspace: Path) -> None:
    home.update(workspace, **TEA, content="Mira drinks oolong.")
    before = home.files()
    times = {path: path.stat().st_mtime_ns for path in home.memory.rglob("*")}

    home.turn(workspace, prompt="What now?")
    home.turn(home.workspace("never-seen-before"), prompt="What now?")

    assert home.files() == before
    assert {path: path.stat().st_mtime_ns for path in home.memory.rglob("*")} == times


def test_many_writers_lose_nothing(home: MemoryHome, workspace: Path) -> None:
    home.update(workspace, **TEA, content="start")

    def reply(request: object) -> Reply:
        session = getattr(request, "session_id", "")
        if getattr(request, "tool_results", []):
            return Reply(text="Done.")
        return Reply(tool_uses=(ToolUse("memory_update", {**TEA, "content": f"from {session}."}),))

    home.model.handler = reply

    def write(_number: int) -> str:
        with home.session(workspace) as session_id:
            home.runtime.turn(session_id, "Go on.", 60.0)
        return session_id

    with ThreadPoolExecutor(8) as pool:
        writers = list(pool.map(write, range(16)))
    text = home.files_of(workspace)["tea.md"]
    assert [text.count(f"from {writer}.\n") for writer in writers] == [1] * 16
    assert not list(home.memory.rglob("*.tmp"))


def test_the_lock_of_a_dead_writer_is_freed(home: MemoryHome, workspace: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    lock = home.dsh_home / "memory-writer" / "lock"
    lock.parent.mkdir(exist_ok=True)
    lock.write_text(str(ended.pid), "utf-8")
    assert "Saved" in home.update(workspace, **TEA, content="Mira drinks oolong.")
    assert not lock.exists()


@pytest.mark.slow
def test_a_living_writer_is_waited_for_and_then_named(home: MemoryHome, workspace: Path) -> None:
    lock = home.dsh_home / "memory-writer" / "lock"
    lock.parent.mkdir(exist_ok=True)
    lock.write_text(str(os.getpid()), "utf-8")
    try:
        answer = home.update(workspace, **TEA, content="Mira drinks oolong.")
    finally:
        lock.unlink()
    assert f"memory is locked by process {os.getpid()}" in answer
    assert home.files_of(workspace) == {}
