"""Checkpoints: a home as it was after a whole step, with nothing of a memory lost and no secret kept."""

import errno
from pathlib import Path

import pytest

from pytest_dshmem.harness.checkpoint import Checkpoints, clear
from pytest_dshmem.harness.paths import HomePaths
from pytest_dshmem.record.journal import RecordError


@pytest.fixture
def paths(tmp_path: Path) -> HomePaths:
    paths = HomePaths(tmp_path / "home", tmp_path / "dsh-home", tmp_path / "workspace")
    for folder in (paths.home, paths.dsh_home, paths.workspace):
        folder.mkdir()
    return paths


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints")


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")


def files_of(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in files}


def restored(checkpoints: Checkpoints, paths: HomePaths) -> int:
    latest = checkpoints.latest()
    assert latest is not None
    checkpoints.restore(latest, paths)
    return latest.step


def test_without_a_checkpoint_there_is_none(checkpoints: Checkpoints) -> None:
    assert checkpoints.latest() is None


def test_a_home_is_what_it_was(checkpoints: Checkpoints, paths: HomePaths) -> None:
    write(paths.dsh_home / "memory/a.md", "one")
    write(paths.dsh_home / "sessions/s/log.jsonl", "{}")
    write(paths.home / ".mnemon/db", "two")
    write(paths.workspace / "notes/b.md", "three")
    checkpoints.save(paths, 3, {"digest": "d"})
    before = [files_of(folder) for folder in (paths.dsh_home, paths.home, paths.workspace)]

    write(paths.dsh_home / "memory/a.md", "spoilt")
    write(paths.workspace / "notes/new.md", "half written")
    (paths.home / ".mnemon/db").unlink()

    assert restored(checkpoints, paths) == 3
    assert [files_of(folder) for folder in (paths.dsh_home, paths.home, paths.workspace)] == before
    latest = checkpoints.latest()
    assert latest is not None
    assert latest.note == {"digest": "d"}


def test_the_latest_of_several_counts_and_is_the_only_one_kept(
    checkpoints: Checkpoints, paths: HomePaths, tmp_path: Path
) -> None:
    for step in range(4):
        write(paths.dsh_home / "memory/a.md", f"step {step}")
        write(paths.dsh_home / f"memory/kept-{step}.md", "the same ever after")
        checkpoints.save(paths, step, {})
    clear(paths)

    assert restored(checkpoints, paths) == 3
    assert files_of(paths.dsh_home)["memory/a.md"] == "step 3"
    assert len(files_of(paths.dsh_home)) == 5
    assert len([entry for entry in (tmp_path / "checkpoints").iterdir() if entry.is_dir()]) == 1


def test_a_change_after_the_restore_does_not_reach_the_checkpoint(
    checkpoints: Checkpoints, paths: HomePaths
) -> None:
    """Files are shared between checkpoints, never with a home."""
    write(paths.dsh_home / "memory/a.md", "whole")
    checkpoints.save(paths, 1, {})
    checkpoints.save(paths, 2, {})
    restored(checkpoints, paths)
    with (paths.dsh_home / "memory/a.md").open("a", encoding="utf-8") as file:
        file.write(" and more")

    restored(checkpoints, paths)

    assert files_of(paths.dsh_home) == {"memory/a.md": "whole"}


def test_no_credential_and_nothing_that_a_start_makes_anew_is_kept(
    checkpoints: Checkpoints, paths: HomePaths, tmp_path: Path
) -> None:
    for name in (".credentials.yaml", ".env", "deep/.env", "profiles/sdk/node_modules/x", "cache/x"):
        write(paths.dsh_home / name, "left out")
    write(paths.home / ".cache/pkg/native", "left out")
    write(paths.dsh_home / "memory/a.md", "kept")

    checkpoints.save(paths, 1, {})

    kept = files_of(tmp_path / "checkpoints")
    assert [name for name in kept if name.endswith("memory/a.md")]
    assert "left out" not in kept.values()


@pytest.mark.parametrize("name", ["profiles", "cache", ".cache", ".npm"])
def test_a_memory_may_name_its_own_folders_as_it_likes(
    checkpoints: Checkpoints, paths: HomePaths, name: str
) -> None:
    write(paths.dsh_home / "memory" / name / "mira.md", "kept")
    checkpoints.save(paths, 1, {})
    clear(paths)

    restored(checkpoints, paths)

    assert files_of(paths.dsh_home) == {f"memory/{name}/mira.md": "kept"}


def test_links_are_not_followed(checkpoints: Checkpoints, paths: HomePaths, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere/secret", "not ours")
    (paths.workspace / "link").symlink_to(tmp_path / "elsewhere/secret")
    (paths.workspace / "shelf").symlink_to(tmp_path / "elsewhere")

    checkpoints.save(paths, 1, {})
    clear(paths)

    assert "not ours" not in files_of(tmp_path / "checkpoints").values()
    assert files_of(tmp_path / "elsewhere") == {"secret": "not ours"}, "clearing removes the link alone"


@pytest.mark.parametrize("torn", ["", "{", '{"folder": "step-9", "step": 9, "note": {}}', "[]", "{}"])
def test_a_checkpoint_that_is_not_whole_counts_as_none(
    checkpoints: Checkpoints, paths: HomePaths, tmp_path: Path, torn: str
) -> None:
    checkpoints.save(paths, 1, {})
    (tmp_path / "checkpoints" / "latest.json").write_text(torn, "utf-8")
    assert checkpoints.latest() is None


def test_an_interrupted_save_leaves_the_one_before(
    checkpoints: Checkpoints, paths: HomePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(paths.dsh_home / "memory/a.md", "whole")
    checkpoints.save(paths, 1, {})
    write(paths.dsh_home / "memory/a.md", "half")

    def torn(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_dshmem.harness.checkpoint.shutil.copy2", torn)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(paths, 2, {})
    monkeypatch.undo()

    assert restored(checkpoints, paths) == 1
    assert files_of(paths.dsh_home) == {"memory/a.md": "whole"}


def test_a_disk_that_refuses_is_a_sentence_and_leaves_the_one_before(
    checkpoints: Checkpoints, paths: HomePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(paths.dsh_home / "memory/a.md", "whole")
    checkpoints.save(paths, 1, {})
    write(paths.dsh_home / "memory/b.md", "too much")

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pytest_dshmem.harness.checkpoint.shutil.copy2", full)
    with pytest.raises(RecordError, match=r"cannot write the checkpoint .*: No space left on device"):
        checkpoints.save(paths, 2, {})
    monkeypatch.undo()

    assert len([entry for entry in (tmp_path / "checkpoints").iterdir() if entry.is_dir()]) == 1
    assert restored(checkpoints, paths) == 1
