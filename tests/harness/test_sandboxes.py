"""Sandboxes: private, outside of repositories, at the same place whenever a run is continued."""

import os
import stat
from pathlib import Path

import pytest

from pytest_dshmem.harness.composition import child_environment, inherited_environment, write_launcher
from pytest_dshmem.harness.endpoint import Endpoint, HarnessError
from pytest_dshmem.harness.sandbox import Sandbox


def test_every_folder_is_private_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        sandbox = Sandbox.for_run("run", parent=tmp_path / "boxes")
        home = sandbox.home("f", "formation")
    finally:
        os.umask(before)

    folders = [tmp_path / "boxes", sandbox.root, *(path for path in sandbox.root.rglob("*") if path.is_dir())]
    assert home.paths.workspace in folders
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}


def test_a_sandbox_in_a_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with pytest.raises(HarnessError, match=r"would lie in a repository; .*--dshmem-sandbox"):
        Sandbox.for_run("run", parent=tmp_path / "deep" / "inside")
    assert not (tmp_path / "deep").exists()


def test_a_place_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(HarnessError, match="cannot make the sandbox folder"):
        Sandbox.for_run("run", parent=tmp_path / "file")


def test_a_shared_temporary_folder_in_which_somebody_else_was_first_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert Sandbox.for_run("mine").root.parent == tmp_path / f"dshmem-{os.getuid()}"

    monkeypatch.setattr("os.getuid", lambda: 4_000_000)
    (tmp_path / "dshmem-4000000").mkdir()
    with pytest.raises(HarnessError, match="belongs to somebody else; name another folder"):
        Sandbox.for_run("run")


def test_homes_of_one_formation_share_its_workspace_and_nothing_else(tmp_path: Path) -> None:
    sandbox = Sandbox.for_run("run", parent=tmp_path)
    forming, asking = sandbox.home("f", "formation"), sandbox.home("f", "questions-1")
    elsewhere = sandbox.home("g", "formation")

    assert forming.paths.workspace == asking.paths.workspace
    assert forming.paths.dsh_home != asking.paths.dsh_home
    assert forming.paths.home != asking.paths.home
    assert elsewhere.paths.workspace != forming.paths.workspace


def test_the_folder_that_sandboxes_are_made_in_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Sandbox.for_run("run", parent=tmp_path).home("f", "formation")

    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_continued_run_finds_its_workspace_where_it_was(tmp_path: Path) -> None:
    first = Sandbox.for_run("run", parent=tmp_path).home("f", "formation").paths
    assert Sandbox.for_run("run", parent=tmp_path).home("f", "formation").paths == first


def test_a_removed_home_leaves_the_workspace_to_the_others(tmp_path: Path) -> None:
    sandbox = Sandbox.for_run("run", parent=tmp_path)
    forming, asking = sandbox.home("f", "formation"), sandbox.home("f", "questions-1")

    forming.remove()

    assert not forming.paths.dsh_home.exists()
    assert asking.paths.dsh_home.is_dir()
    assert asking.paths.workspace.is_dir()
    sandbox.remove_formation("f")
    assert not asking.paths.workspace.exists()
    sandbox.remove()
    assert not sandbox.root.exists()


def test_only_harmless_variables_are_inherited() -> None:
    environment = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "OPENAI_API_KEY": "x",
        "DSH_HOME": "y",
        "NODE_OPTIONS": "--require=z",
    }
    assert inherited_environment(environment) == {"PATH": "/bin", "LC_ALL": "C"}


def test_the_launcher_holds_no_value_of_any_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "somebody-s-secret")
    home = Sandbox.for_run("run", parent=tmp_path).home("f", "formation")

    write_launcher(home, ("/opt/dsh tool", "--flag"))

    script = home.launcher.read_text("utf-8")
    assert "OPENAI_API_KEY" in script
    assert "somebody-s-secret" not in script
    assert stat.S_IMODE(home.launcher.stat().st_mode) == 0o700
    assert child_environment(home, Endpoint(api_key="k"))["DSH_HOME"] == str(home.paths.dsh_home)
