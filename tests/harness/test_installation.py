"""Installing a packaged memory system: into every profile that formation runs, and never in silence."""

from pathlib import Path
from typing import Any

import pytest
from memory_home import API_KEY, bundled_system

from pytest_dshmem.harness import installation
from pytest_dshmem.harness.endpoint import Endpoint, HarnessError
from pytest_dshmem.harness.installation import install
from pytest_dshmem.harness.memory_system import MemorySystem, PackageInstall
from pytest_dshmem.harness.sandbox import IsolatedHome, Sandbox
from pytest_dshmem.harness.triggers import CommandTrigger, ExitStatusEvidence

PACKAGE = PackageInstall(kind="package", row="sample", package="sample", version="1.2.3")


def packaged(name: str, **changes: Any) -> MemorySystem:
    return bundled_system(name).model_copy(update={"install": PACKAGE.model_copy(update=changes)})


class FakeDsh:
    """A `dsh` that notes its arguments, with a `pnpm` on the path."""

    def __init__(self, folder: Path) -> None:
        self.noted = folder / "noted"
        self.program = self._program(folder / "dsh", f'echo "$@" >> "{self.noted}"')
        self._program(folder / "pnpm", "")

    @property
    def calls(self) -> list[str]:
        return self.noted.read_text().splitlines() if self.noted.exists() else []

    def refuse(self, complaint: str) -> None:
        self._program(self.program, f'echo "{complaint}" >&2; exit 1')

    @staticmethod
    def _program(file: Path, script: str) -> Path:
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o700)
        return file


@pytest.fixture
def dsh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDsh:
    fake = FakeDsh(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(installation, "runtime_command", lambda: (str(fake.program),))
    return fake


@pytest.fixture
def home(tmp_path: Path) -> IsolatedHome:
    return Sandbox(tmp_path / "sandbox").home("formation", "ingest")


ENDPOINT = Endpoint(api_key=API_KEY)


def command_trigger(*command: str) -> CommandTrigger:
    return CommandTrigger(
        trigger="command",
        command=command,
        timeout_seconds=1.0,
        evidence=ExitStatusEvidence(kind="exit-status"),
    )


def test_a_system_is_needed_in_each_profile_that_formation_runs() -> None:
    assert bundled_system("reference").dsh_profiles == ("sdk",)
    assert bundled_system("reference-web").dsh_profiles == ("sdk", "web")

    def with_command(*command: str) -> MemorySystem:
        return bundled_system("reference").model_copy(update={"consolidation": command_trigger(*command)})

    assert with_command("{dsh}", "--profile", "headless", "{session_id}").dsh_profiles == ("sdk", "headless")
    assert with_command("{dsh}", "--profile", "sdk", "{session_id}").dsh_profiles == ("sdk",)
    assert with_command("consolidate", "{session_id}").dsh_profiles == ("sdk",)


def test_a_package_is_added_to_the_profiles_named(dsh: FakeDsh, home: IsolatedHome) -> None:
    system = packaged("reference-web")
    install(system, home, ENDPOINT, system.dsh_profiles)
    assert dsh.calls == ["plugin --profile sdk add sample@1.2.3", "plugin --profile web add sample@1.2.3"]


def test_builds_are_allowed_in_each_profile_before_the_package_is_added(
    dsh: FakeDsh, home: IsolatedHome
) -> None:
    for _again in range(2):
        install(packaged("reference-web", allow_builds=("sqlite",)), home, ENDPOINT, ("sdk", "web"))
    for profile in ("sdk", "web"):
        file = home.paths.dsh_home / "profiles" / profile / "pnpm-workspace.yaml"
        assert file.read_text() == "allowBuilds:\n  'sqlite': true\n"
    assert len(dsh.calls) == 4


def test_a_plugin_on_disk_needs_nothing(dsh: FakeDsh, home: IsolatedHome) -> None:
    install(bundled_system("reference"), home, ENDPOINT)
    assert dsh.calls == []


def test_a_refusal_is_told_in_the_words_of_the_package_manager(dsh: FakeDsh, home: IsolatedHome) -> None:
    dsh.refuse("no such version")
    with pytest.raises(HarnessError, match="could not be installed: no such version"):
        install(packaged("reference"), home, ENDPOINT)


@pytest.mark.usefixtures("dsh")
def test_a_missing_package_manager_is_named(home: IsolatedHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home.launch_folder))
    with pytest.raises(HarnessError, match=r"installing sample@1.2.3 needs pnpm"):
        install(packaged("reference"), home, ENDPOINT)
