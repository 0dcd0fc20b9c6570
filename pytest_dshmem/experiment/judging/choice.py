"""Judging a run from its records alone: which protocol, which endpoint, and where verdicts go."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_dshmem.experiment.judging.client import ClientSettings
from pytest_dshmem.experiment.judging.errors import JudgeError
from pytest_dshmem.experiment.judging.item import judge_items
from pytest_dshmem.experiment.judging.judge import JudgeOutcome, Progress, judge_all
from pytest_dshmem.experiment.judging.official import (
    OFFICIAL_MODEL,
    load_official_script,
    official_protocol,
)
from pytest_dshmem.experiment.judging.protocol import (
    Protocol,
    binary_protocol,
    custom_protocol,
    longmemeval_protocol,
)
from pytest_dshmem.record.entries import ReferenceText
from pytest_dshmem.record.run_directory import RunDirectory

DEFAULT_MODEL = "gpt-4o-mini"
DEFAULT_BASE_URL = "https://api.openai.com/v1"
MODEL_VARIABLE = "DSHMEM_JUDGE_MODEL"
BASE_URL_VARIABLE = "OPENAI_BASE_URL"
API_KEY_VARIABLES = ("DSHMEM_JUDGE_API_KEY", "OPENAI_API_KEY")


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """What the user chose of a judge. Empty texts are filled from the environment, then from defaults."""

    model: str = ""
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    prompt: Path | None = None
    official_script: Path | None = None
    concurrency: int = 32
    timeout_seconds: float = 60.0

    def completed(self, environment: Mapping[str, str]) -> "JudgeChoice":
        """The choice with nothing left open. Raises JudgeError where there is no credential."""
        keys = (environment.get(name) for name in API_KEY_VARIABLES)
        api_key = self.api_key or next((key for key in keys if key), "")
        if not api_key:
            raise JudgeError(
                f"no judge credential: set {' or '.join(API_KEY_VARIABLES)}, or judge later with "
                "--dshmem-no-judge"
            )
        default = OFFICIAL_MODEL if self.official_script else environment.get(MODEL_VARIABLE, DEFAULT_MODEL)
        return JudgeChoice(
            model=self.model or default,
            base_url=self.base_url or environment.get(BASE_URL_VARIABLE) or DEFAULT_BASE_URL,
            api_key=api_key,
            prompt=self.prompt,
            official_script=self.official_script,
            concurrency=self.concurrency,
            timeout_seconds=self.timeout_seconds,
        )

    def protocol(self, benchmark: str) -> Protocol:
        """The protocol for a benchmark's answers. Raises JudgeError where a file cannot be used for it."""
        if self.prompt is not None and self.official_script is not None:
            raise JudgeError("name a judge prompt or the official script, not both")
        if self.prompt is not None:
            return custom_protocol(self.prompt, self.model, self.base_url)
        if self.official_script is not None:
            if benchmark != "longmemeval":
                raise JudgeError(f"the official script judges LongMemEval, not {benchmark}")
            script = load_official_script(self.official_script)
            return official_protocol(script, self.base_url, self.model)
        make = longmemeval_protocol if benchmark == "longmemeval" else binary_protocol
        return make(self.model, self.base_url)


def judge_run(
    run: RunDirectory,
    protocol: Protocol,
    choice: JudgeChoice,
    references: Mapping[str, ReferenceText],
    *,
    on_progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> JudgeOutcome:
    """Judges every selected answer of a run that has no verdict under this protocol yet.

    Answers come from the run; so do references, unless the run leaves texts out: then the caller has them.
    """
    selected = {chosen.key for chosen in run.selected()}
    latest = {entry.key: entry for entry in run.hypotheses.read() if entry.key in selected}
    return judge_all(
        judge_items(latest.values(), references),
        protocol,
        ClientSettings(choice.base_url, choice.api_key, choice.timeout_seconds),
        record=run.verdicts.append,
        existing=run.verdicts.read(),
        concurrency=choice.concurrency,
        on_progress=on_progress,
        stop=stop,
    )


def recorded_references(run: RunDirectory) -> dict[str, ReferenceText]:
    """Question and gold texts that the run itself holds, by question id."""
    return {text.question_id: text for text in run.references.read()}
