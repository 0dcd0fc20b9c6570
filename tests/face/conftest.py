"""A project of a user's in a fresh folder: the real suites, a home of its own, nothing in the environment."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from suite_project import SuiteProject

# pytester forgets the modules that a run has imported. What is imported here stays, and runs stay fast.
import pytest_dshmem.command.main
import pytest_dshmem.face.summary
import pytest_dshmem.report.html.gathering
import pytest_dshmem.report.summary  # noqa: F401

SUITES = Path(__file__).resolve().parents[2] / "suites"
FOREIGN = ("DSHMEM_", "DSH_", "DEEPSEEK_", "OPENAI_", "PYTEST_ADDOPTS", "PYTEST_XDIST", "XDG_", "COLUMNS")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of the published data sets."""
    if not (named := os.environ.get("DSHMEM_DATA")):
        pytest.skip("DSHMEM_DATA does not name the folder of the real data sets")
    return Path(named)


@pytest.fixture
def project(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> SuiteProject:
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        monkeypatch.delenv(name)
    temporary = tmp_path_factory.mktemp("t")
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    shutil.copytree(SUITES, pytester.path / "suites", ignore=shutil.ignore_patterns("__pycache__"))
    project = SuiteProject(pytester, monkeypatch, temporary)
    project.ini("addopts = -p no:hypothesispytest -p no:anyio")
    return project
