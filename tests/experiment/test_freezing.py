"""Freezing: a memory is copied whole, hashed, and put back byte for byte, or refused with a sentence."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from memory_home import bundled_system

from pytest_dshmem.experiment.freezing import (
    digest_of,
    freeze,
    memory_files,
    open_snapshot,
    restore,
    signature_of,
    wait_until_settled,
)
from pytest_dshmem.harness.memory_system import MemorySystem, Settle, StateRoot
from pytest_dshmem.harness.paths import HomePaths
from pytest_dshmem.record.journal import RecordError

ROOTS = (
    StateRoot(name="memory", base="dsh-home", path="memory", kind="markdown", include=("**/*.md",)),
    StateRoot(
        name="notes", base="workspace", path=".notes", kind="sqlite", include=("**/*",), exclude=("*.lock",)
    ),
)


@pytest.fixture
def system() -> MemorySystem:
    return bundled_system("reference").model_copy(update={"state": ROOTS})


def home_in(folder: Path, workspace: Path | None = None) -> HomePaths:
    paths = HomePaths(folder / "home", folder / "dsh-home", workspace or folder / "workspace")
    for made in (paths.home, paths.dsh_home, paths.workspace):
        made.mkdir(parents=True, exist_ok=True)
    return paths


@pytest.fixture
def paths(tmp_path: Path) -> HomePaths:
    paths = home_in(tmp_path / "forming")
    write(paths.dsh_home / "memory/GLOBAL.md", "Mira has a quince tree.\n")
    write(paths.dsh_home / "memory/people/mira.md", "emoji \N{SPARKLES}, and no newline at the end")
    write(paths.dsh_home / "memory/index.db", "not part of the state")
    write(paths.workspace / ".notes/db", "\x00binary\r\n")
    write(paths.workspace / ".notes/db.lock", "left out")
    return paths


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())


def test_a_snapshot_holds_the_state_and_nothing_else(
    system: MemorySystem, paths: HomePaths, tmp_path: Path
) -> None:
    snapshot = freeze(system, paths, tmp_path / "snapshot")

    kept = [(file.root, file.path) for file in snapshot.manifest.files]
    assert kept == [("memory", "GLOBAL.md"), ("memory", "people/mira.md"), ("notes", "db")]
    assert sum(file.bytes for file in snapshot.manifest.files) > 0
    assert open_snapshot(tmp_path / "snapshot").manifest == snapshot.manifest
    assert str(tmp_path) not in (tmp_path / "snapshot/manifest.json").read_text("utf-8"), (
        "it may be published"
    )


def test_the_same_state_has_the_same_digest_wherever_it_lies(
    system: MemorySystem, paths: HomePaths, tmp_path: Path
) -> None:
    shutil.copytree(tmp_path / "forming", tmp_path / "copy")
    copy = home_in(tmp_path / "copy")
    assert digest_of(memory_files(system, copy)) == digest_of(memory_files(system, paths))


@pytest.mark.parametrize("change", ["content", "name", "removed", "added"])
def test_any_change_changes_digest_and_signature(system: MemorySystem, paths: HomePaths, change: str) -> None:
    digest, signature = digest_of(memory_files(system, paths)), signature_of(system, paths)
    file = paths.dsh_home / "memory/GLOBAL.md"
    match change:
        case "content":
            write(file, "Mira has a quince TREE.\n")
        case "name":
            file.rename(file.with_name("LOCAL.md"))
        case "removed":
            file.unlink()
        case _:
            write(file.with_name("more.md"), "")

    assert digest_of(memory_files(system, paths)) != digest
    assert signature_of(system, paths) != signature


def test_a_snapshot_is_put_back_byte_for_byte_and_what_was_there_is_gone(
    system: MemorySystem, paths: HomePaths, tmp_path: Path
) -> None:
    snapshot = freeze(system, paths, tmp_path / "snapshot")
    asking = home_in(tmp_path / "asking", paths.workspace)
    write(asking.dsh_home / "memory/stale.md", "from elsewhere")
    write(paths.workspace / ".notes/later", "made after freezing")

    restore(snapshot, system, asking)

    assert digest_of(memory_files(system, asking)) == snapshot.digest
    assert memory_files(system, asking) == snapshot.manifest.files
    assert not (asking.dsh_home / "memory/stale.md").exists()


def test_a_state_that_is_the_snapshot_already_is_not_touched(
    system: MemorySystem, paths: HomePaths, tmp_path: Path
) -> None:
    """Others may be reading it: homes of one formation share a workspace."""
    snapshot = freeze(system, paths, tmp_path / "snapshot")
    before = signature_of(system, paths)

    restore(snapshot, system, paths)

    assert signature_of(system, paths) == before


def test_homes_that_share_a_workspace_and_are_made_at_once_all_get_the_snapshot(
    system: MemorySystem, paths: HomePaths, tmp_path: Path
) -> None:
    for number in range(60):
        write(paths.workspace / f".notes/{number}", "a note" * number)
    snapshot = freeze(system, paths, tmp_path / "snapshot")
    homes = [home_in(tmp_path / f"home-{number}", paths.workspace) for number in range(6)]
    for _ in range(3):
        write(paths.workspace / ".notes/db", "left behind by somebody who wrote")

        with ThreadPoolExecutor(len(homes)) as threads:
            list(threads.map(lambda home: restore(snapshot, system, home), homes))

        assert {digest_of(memory_files(system, home)) for home in homes} == {snapshot.digest}


def test_a_snapshot_is_not_put_back_at_another_place(
    system: MemorySystem, paths: HomePaths, tmp_path: Path
) -> None:
    snapshot = freeze(system, paths, tmp_path / "snapshot")
    elsewhere = home_in(tmp_path / "elsewhere")

    with pytest.raises(RecordError, match="was formed under another sandbox path"):
        restore(snapshot, system, elsewhere)
    assert memory_files(system, elsewhere) == ()


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ("changed", "was changed: memory/GLOBAL.md"),
        ("removed", "cannot be read"),
        ("manifest", "cannot be read"),
    ],
)
def test_a_snapshot_that_was_changed_by_hand_is_refused(
    system: MemorySystem, paths: HomePaths, tmp_path: Path, damage: str, sentence: str
) -> None:
    folder = freeze(system, paths, tmp_path / "snapshot").folder
    file = folder / "files/memory/GLOBAL.md"
    match damage:
        case "changed":
            write(file, "Mira has a cactus......\n")
        case "removed":
            file.unlink()
        case _:
            write(folder / "manifest.json", "{}")

    with pytest.raises(RecordError, match=sentence):
        open_snapshot(folder)


def test_freezing_again_replaces_the_snapshot_whole(
    system: MemorySystem, paths: HomePaths, tmp_path: Path
) -> None:
    freeze(system, paths, tmp_path / "snapshot")
    (paths.dsh_home / "memory/GLOBAL.md").unlink()
    write(tmp_path / ".snapshot.unfinished/files/memory/half.md", "left by a crash")

    snapshot = freeze(system, paths, tmp_path / "snapshot")

    assert open_snapshot(tmp_path / "snapshot").digest == snapshot.digest
    found = {path.name for path in (tmp_path / "snapshot").rglob("*") if path.is_file()}
    assert found == {"manifest.json", "mira.md", "db"}


def test_a_place_that_cannot_be_written_is_a_sentence(
    system: MemorySystem, paths: HomePaths, tmp_path: Path
) -> None:
    write(tmp_path / "file", "")
    with pytest.raises(RecordError, match="cannot write the snapshot"):
        freeze(system, paths, tmp_path / "file" / "snapshot")


def test_a_state_at_rest_is_settled_and_one_in_motion_is_waited_for(
    system: MemorySystem, paths: HomePaths
) -> None:
    restless = system.model_copy(update={"settle": Settle(quiet_seconds=0.3, timeout_seconds=5.0)})
    writes = iter(range(3))

    def pause(_seconds: float) -> None:
        if (number := next(writes, None)) is not None:
            write(paths.dsh_home / "memory/GLOBAL.md", "x" * number)

    assert wait_until_settled(restless, paths, pause)
    assert next(writes, None) is None
    assert (paths.dsh_home / "memory/GLOBAL.md").read_text("utf-8") == "xx"


def test_a_state_that_never_rests_is_not_settled(system: MemorySystem, paths: HomePaths) -> None:
    restless = system.model_copy(update={"settle": Settle(quiet_seconds=0.2, timeout_seconds=0.4)})
    lengths = iter(range(1, 10**9))

    def pause(_seconds: float) -> None:
        write(paths.dsh_home / "memory/GLOBAL.md", "x" * (next(lengths) % 7 + 1))

    assert not wait_until_settled(restless, paths, pause)
