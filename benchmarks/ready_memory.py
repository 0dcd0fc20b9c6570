"""A run whose memory is formed and whose questions are not asked yet, as often as it is needed."""

import shutil
from pathlib import Path

from suite_runs import SuiteRun, run_suite

from pytest_dshmem.offline.process import StandIn

ANSWERS = ("qa.jsonl", "judge.jsonl", "hypotheses.jsonl", "diagnosis.jsonl", "seal.json", "work")


class ReadyMemory:
    """One formed run, put back to where no question was asked. The path stays, and so the sandbox's does."""

    def __init__(self, folder: Path, selection: list[str], concurrency: int = 16) -> None:
        self.run = folder / "run"
        self._formed = folder / "formed"
        self._selection = selection
        if not self._formed.exists():
            with StandIn.start() as model:
                self.ask(model.url, concurrency).require()
            for name in ANSWERS:
                _remove(self.run / name)
            self.run.rename(self._formed)

    def ask(self, url: str, concurrency: int) -> SuiteRun:
        """Asks every question of the run that has no answer yet."""
        arguments = [
            "suites/locomo",
            *self._selection,
            "--dshmem-no-judge",
            f"--dshmem-run={self.run}",
            f"--dshmem-concurrency={concurrency}",
        ]
        return run_suite(arguments, url)

    def restore(self) -> None:
        """Makes the run one without answers again."""
        _remove(self.run)
        shutil.copytree(self._formed, self.run)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
