"""A crash costs what was in flight and nothing else: a resumed run equals the undisturbed one."""

import subprocess
import sys
from pathlib import Path

import pytest

KILLS = Path(__file__).resolve().parents[2] / "benchmarks" / "kills.py"
CHECKED = ("lost", "doubled", "different", "unrecorded", "orphans")


@pytest.mark.runtime
@pytest.mark.slow
def test_runs_survive_the_kill_of_controller_worker_and_runtime() -> None:
    done = subprocess.run(
        [sys.executable, KILLS, "--kills=3", "--seed=4"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for what in CHECKED:
        assert f"{what} in 3 kills: 0.00 in all (bound <= 0): holds" in done.stdout
