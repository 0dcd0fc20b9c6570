"""Processes beside a runtime: they end when they are told to, with the runtime, and with us."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_dshmem.harness.companions import Companions
from pytest_dshmem.harness.endpoint import HarnessError

FAMILY = ("/bin/sh", "-c", "sleep 60 & echo $!; wait")
CONTROLLER = """
import os, sys
from pathlib import Path
from pytest_dshmem.harness.companions import Companions
process = Companions().start(("/bin/sh", "-c", "sleep 60 & echo $!; wait"), os.environ, Path("/"))
print(process.pid, process.stdout.readline().strip(), flush=True)
sys.stdin.read()
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def in_time(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def child_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")


def test_one_that_is_given_back_is_gone_with_its_children(tmp_path: Path) -> None:
    companions = Companions()
    with companions.start(FAMILY, os.environ, tmp_path) as process:
        child = child_of(process)
        assert is_alive(child)
        companions.end(process)
        assert process.returncode == -signal.SIGKILL
        assert in_time(lambda: not is_alive(child))


def test_one_that_has_ended_leaves_its_output_and_status(tmp_path: Path) -> None:
    companions = Companions()
    with companions.start(("/bin/sh", "-c", "echo done; exit 3"), os.environ, tmp_path) as process:
        assert process.communicate(timeout=10)[0] == "done\n"
        companions.end(process)
        assert process.returncode == 3


def test_all_die_at_once_and_none_starts_afterwards(tmp_path: Path) -> None:
    companions = Companions()
    with companions.start(FAMILY, os.environ, tmp_path) as process:
        child = child_of(process)
        companions.kill_all()
        assert process.wait(timeout=5) == -signal.SIGKILL
        assert in_time(lambda: not is_alive(child))
        companions.end(process)
    with pytest.raises(HarnessError, match="the runtime was killed"):
        companions.start(FAMILY, os.environ, tmp_path)


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Companions().start((str(tmp_path / "nothing"),), os.environ, tmp_path)


def test_none_outlives_a_controller_that_is_killed() -> None:
    controller = subprocess.Popen(
        (sys.executable, "-c", CONTROLLER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with controller:
        assert controller.stdout is not None
        family = [int(pid) for pid in controller.stdout.readline().split()]
        assert len(family) == 2
        assert all(map(is_alive, family))
        controller.kill()
        controller.wait()
        assert in_time(lambda: not any(map(is_alive, family)))
