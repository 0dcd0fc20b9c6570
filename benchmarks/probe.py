"""A pytest plugin that notes moments of a session: time, processor time and memory of this process and its
own.

Load it with `-p probe`; the environment variable PROBE_FILE names the JSON file that it writes.
"""

import json
import os
import resource
import time
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "PROBE_FILE"
MEMORY_EVERY = 50


class Probe:
    """Moments by name. Seconds since the epoch, seconds of processor time, bytes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._moments: dict[str, dict[str, float]] = {}
        self._hypotheses = 0

    def note(self, name: str, *, with_runtimes: bool = False) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        moment = {
            "time": time.time(),
            "processor": used.ru_utime + used.ru_stime,
            "resident": float(resident_bytes(os.getpid())),
            "peak": float(peak_bytes()),
        }
        if with_runtimes:
            moment["runtimes"] = float(sum(resident_bytes(pid) for pid in descendants(os.getpid())))
        self._moments[name] = moment

    def pytest_collection(self) -> None:
        self.note("before collection")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        self.note("collected")

    @pytest.hookimpl(optionalhook=True)
    def pytest_dshmem_hypothesis(self) -> None:
        self._hypotheses += 1
        if self._hypotheses % MEMORY_EVERY == 0:
            self.note(f"hypothesis {self._hypotheses}", with_runtimes=True)
        self.note("last hypothesis")

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        self.note("end")
        self._file.write_text(json.dumps(self._moments), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    if VARIABLE in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Probe(Path(os.environ[VARIABLE])), "probe-of-moments")


def resident_bytes(pid: int) -> int:
    """What a process holds in memory; 0 where it is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def peak_bytes() -> int:
    """The most that this process has held. (`ru_maxrss` begins with what the parent held at the fork.)"""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def descendants(ancestor: int) -> list[int]:
    """All processes below one, in no order."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            parents[int(entry.name)] = _parent_of(entry)
    found: list[int] = []
    generation: set[Any] = {ancestor}
    while generation:
        generation = {pid for pid, parent in parents.items() if parent in generation}
        found += generation
    return found


def _parent_of(process: Path) -> int | None:
    try:
        stat = (process / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name, in brackets, may hold anything; the parent is the second field after it.
    return int(stat.rpartition(")")[2].split()[1])
