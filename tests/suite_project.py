"""A user's project that holds our suites, and pytest runs in it, for tests of what the user sees."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

OFFLINE = "--offline"
CORPUS = Path(__file__).resolve().parents[1] / "fixtures" / "corpora" / "locomo-sample.json"
MODEL_KEY = "a-model-key-that-must-stay-secret"
JUDGE_KEY = "a-judge-key-that-must-stay-secret"
RUN_SECONDS = 120.0
TRACES_OF_A_CRASH = ("Traceback", "INTERNALERROR", "Internal error", "internal error")


@dataclass(frozen=True, slots=True)
class SuiteProject:
    """A project folder with `suites/`, and a temporary folder that nothing else writes to."""

    pytester: pytest.Pytester
    monkeypatch: pytest.MonkeyPatch
    temporary: Path

    @property
    def folder(self) -> Path:
        return self.pytester.path

    def run(self, *args: str | Path) -> "Outcome":
        """One pytest run within this process: fast, for what needs neither workers nor signals."""
        return Outcome.of(self.pytester.runpytest_inprocess(*map(str, args)))

    def run_apart(self, *args: str | Path) -> "Outcome":
        """One pytest run in a process of its own."""
        return Outcome.of(self.pytester.runpytest_subprocess(*map(str, args), timeout=RUN_SECONDS))

    def start(self, *args: str | Path) -> "subprocess.Popen[str]":
        """A pytest run that goes on by itself, in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", *map(str, args)],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def real_endpoints(self, model: str, judge: str | None = None) -> tuple[str, ...]:
        """Lets runs ask these endpoints as if they were real, about the sample corpus as if it were a file of
        the user's. Returns the options that this takes."""
        data = self.temporary / "data"
        data.mkdir(exist_ok=True)
        shutil.copy(CORPUS, data / "locomo10.json")
        self.monkeypatch.setenv("DEEPSEEK_API_KEY", MODEL_KEY)
        self.monkeypatch.setenv("DEEPSEEK_BASE_URL", model)
        self.monkeypatch.setenv("OPENAI_API_KEY", JUDGE_KEY)
        self.monkeypatch.setenv("OPENAI_BASE_URL", judge or model)
        return ("--dshmem-data", str(data), "--dshmem-allow-unpinned")

    def collected(self, *args: str | Path) -> list[str]:
        """The ids in brackets of all tests that are collected, in order."""
        outcome = self.run("--collect-only", "-q", *args)
        assert outcome.status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), outcome.text
        return re.findall(r"::test_question\[(.*)\]$", outcome.text, flags=re.MULTILINE)

    def ini(self, *lines: str) -> None:
        """Writes the project's ini file."""
        self.pytester.makefile(".ini", pytest="\n".join(["[pytest]", *lines]))

    def left_behind(self) -> list[str]:
        """The sandboxes and runs in the temporary folder."""
        return sorted(path.name for path in (self.temporary / f"dshmem-{os.getuid()}").glob("*"))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a pytest run ended, and all that it printed."""

    status: int
    text: str

    @classmethod
    def of(cls, result: pytest.RunResult) -> "Outcome":
        return cls(int(result.ret), "\n".join([*result.outlines, *result.errlines]))

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def one_line(self) -> str:
        """The text with every run of white space as one space: where lines break is not the point."""
        return " ".join(self.text.split())

    @property
    def figures(self) -> list[str]:
        """The lines of the summary's accuracy tables, which two runs of the same answers have in common."""
        return [line for line in self.lines if re.match(r" *[a-z-]+ +\d+\.\d %", line)]

    def assert_usage_error(self, *parts: str) -> None:
        """Pytest's usage exit and one sentence, said once, that holds all the parts."""
        assert self.status == pytest.ExitCode.USAGE_ERROR, self.text
        self.assert_no_crash()
        for part in parts:
            assert self.one_line.count(part) == 1, f"{part!r} in:\n{self.text}"

    def assert_no_crash(self) -> None:
        for trace in TRACES_OF_A_CRASH:
            assert trace not in self.text, self.text


def entries(run: Path, journal: str) -> list[dict[str, Any]]:
    """The lines of one of a run's journals."""
    text = (run / journal).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def states(run: Path) -> Sequence[str]:
    """The states of all hypotheses of a run, in the order in which they were recorded."""
    return [entry["state"] for entry in entries(run, "qa.jsonl")]
