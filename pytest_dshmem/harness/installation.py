"""Installing a packaged memory system into the profiles of an isolated home."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pytest_dshmem.harness.composition import child_environment, inherited_environment
from pytest_dshmem.harness.endpoint import Endpoint, HarnessError
from pytest_dshmem.harness.memory_system import SDK, MemorySystem, PackageInstall
from pytest_dshmem.harness.runtime import runtime_command
from pytest_dshmem.harness.sandbox import IsolatedHome

INSTALL_SECONDS = 600.0
WORKSPACE_FILE = "pnpm-workspace.yaml"


def install(
    system: MemorySystem, home: IsolatedHome, endpoint: Endpoint, profiles: Sequence[str] = (SDK,)
) -> None:
    """Adds a packaged plugin to profiles of the home; a plugin on disk needs nothing.

    Raises HarnessError where the package manager is missing or refuses.
    """
    package = system.install
    if not isinstance(package, PackageInstall):
        return
    if shutil.which("pnpm") is None:
        raise HarnessError(f"installing {package.specifier} needs pnpm: npm install --global pnpm")
    for profile in profiles:
        _allow_builds(package, home.paths.dsh_home / "profiles" / profile)
        _run((*runtime_command(), "plugin", "--profile", profile, "add", package.specifier), home, endpoint)


def _allow_builds(package: PackageInstall, folder: Path) -> None:
    if not package.allow_builds:
        return
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / WORKSPACE_FILE
    present = file.read_text(encoding="utf-8") if file.exists() else ""
    lines = [f"  {name!r}: true" for name in package.allow_builds]
    if "allowBuilds:" not in present:
        file.write_text(present + "allowBuilds:\n" + "\n".join(lines) + "\n", encoding="utf-8")


def _run(command: tuple[str, ...], home: IsolatedHome, endpoint: Endpoint) -> None:
    environment = {**inherited_environment(os.environ), **child_environment(home, endpoint)}
    try:
        done = subprocess.run(
            command,
            cwd=home.launch_folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HarnessError(f"the installation did not end within {INSTALL_SECONDS:.0f} s") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise HarnessError(f"the memory system could not be installed: {said[-1][:300]}")
