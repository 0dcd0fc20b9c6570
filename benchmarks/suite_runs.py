"""Runs of the suites as a user starts them: a pytest process on an endpoint, with a probe inside."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
KEY = "benchmark-key"


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """A pytest process that has ended, with the probe's `moments` and its `seconds` by the clock."""

    status: int
    output: str
    seconds: float
    moments: dict[str, dict[str, float]]

    def require(self) -> "SuiteRun":
        """Itself, if all tests passed."""
        if self.status != 0:
            sys.exit(f"the measured run ended with status {self.status}:\n{self.output[-4000:]}")
        return self

    def between(self, first: str, second: str, what: str = "time") -> float:
        """How much of something went by between two moments."""
        return self.moments[second][what] - self.moments[first][what]


def command(arguments: Sequence[str]) -> list[str]:
    """The command line of a pytest session with these arguments."""
    left_out = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    return [sys.executable, "-m", "pytest", *left_out, "-q", *arguments]


def environment(url: str | None = None) -> dict[str, str]:
    """The environment of a measured process: a key that opens nothing, and the endpoint."""
    given = {**os.environ, "DEEPSEEK_API_KEY": KEY, "OPENAI_API_KEY": KEY}
    if url is not None:
        given |= {"DEEPSEEK_BASE_URL": url, "OPENAI_BASE_URL": url}
    # A user's interpreter keeps what it has compiled.
    given.pop("PYTHONDONTWRITEBYTECODE", None)
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**given, "PYTHONPATH": os.pathsep.join(paths)}


def run_suite(arguments: Sequence[str], url: str | None = None) -> SuiteRun:
    """Runs pytest in the project with the probe loaded, and waits for its end."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "moments.json"
        started = time.monotonic()
        done = subprocess.run(
            command(["-p", "probe", *arguments]),
            cwd=PROJECT,
            env={**environment(url), "PROBE_FILE": str(file)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - started
        moments = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return SuiteRun(done.returncode, done.stdout, seconds, moments)


@contextmanager
def scratch(keep: Path | None = None) -> Iterator[Path]:
    """A folder for the runs of one measure: a given one, which stays, or one that goes."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="dshmem-benchmark-") as folder:
        yield Path(folder)


def locomo_file() -> Path:
    """The real LoCoMo file, found through DSHMEM_DATA."""
    return _data_file("locomo10.json", "locomo")


def oracle_file() -> Path:
    """LongMemEval's oracle file, found through DSHMEM_DATA."""
    return _data_file("longmemeval_oracle.json", "longmemeval")


def _data_file(name: str, fetched_as: str) -> Path:
    folder = os.environ.get("DSHMEM_DATA")
    found = sorted(Path(folder).rglob(name)) if folder else []
    if not found:
        sys.exit(f"no {name}: set DSHMEM_DATA to the folder that holds it (dshmem data fetch {fetched_as})")
    return found[0]
