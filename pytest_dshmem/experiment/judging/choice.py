"""Judging a run from its records alone: which protocol, which endpoint, and where verdicts go."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_dshmem.experiment.judging.client import ClientSettings
from pytest_dshmem.experiment.judging.errors import JudgeError
from pytest_dshmem.experiment.judging.item import judge_items
from pytest_dshmem.experiment.judging.judge import JudgeOutcome, Progress, judge_all
from pytest_dshmem.experiment.judging.official import (
    OFFICIAL_MODEL,
    OFFICIAL_PARAMETERS,
    load_official_script,
    official_protocol,
)
from pytest_dshmem.experiment.judging.protocol import (
    DEFAULT_PARAMETERS,
    Parameters,
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
JUDGING = "judge"
API_KEY_VARIABLES = ("DSHMEM_JUDGE_API_KEY", "OPENAI_API_KEY")


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """What the user chose of a judge. Empty texts are filled from the environment, then from defaults.

    `parameters` of None are those of the protocol. `offline`: the embedded judge, whose verdicts are no
    benchmark results.
    """

    model: str = ""
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    prompt: Path | None = None
    official_script: Path | None = None
    parameters: Parameters | None = None
    concurrency: int = 32
    timeout_seconds: float = 60.0
    offline: bool = False

    def completed(self, environment: Mapping[str, str]) -> "JudgeChoice":
        """The choice with nothing left open. Raises JudgeError where there is no credential."""
        keys = (environment.get(name) for name in API_KEY_VARIABLES)
        api_key = self.api_key or next((key for key in keys if key), "")
        if not api_key:
            raise JudgeError(
                f"no judge credential: set {' or '.join(API_KEY_VARIABLES)}; pytest's --dshmem-no-judge "
                "leaves judging for later"
            )
        return replace(
            self,
            model=self.model_in(environment),
            base_url=self.base_url or environment.get(BASE_URL_VARIABLE) or DEFAULT_BASE_URL,
            api_key=api_key,
        )

    def model_in(self, environment: Mapping[str, str]) -> str:
        """The judge's model, whether or not there is a credential for it."""
        default = OFFICIAL_MODEL if self.official_script else environment.get(MODEL_VARIABLE, DEFAULT_MODEL)
        return self.model or default

    def protocol(self, benchmark: str) -> Protocol:
        """The protocol for a benchmark's answers. Raises JudgeError where a file cannot be used for it."""
        if self.prompt is not None and self.official_script is not None:
            raise JudgeError("name a judge prompt or the official script, not both")
        if self.official_script is not None:
            return self._official(self.official_script, benchmark)
        parameters = DEFAULT_PARAMETERS if self.parameters is None else self.parameters
        if self.prompt is not None:
            return custom_protocol(self.prompt, self.model, self.base_url, parameters)
        make = longmemeval_protocol if benchmark == "longmemeval" else binary_protocol
        return make(self.model, self.base_url, parameters)

    def _official(self, path: Path, benchmark: str) -> Protocol:
        if benchmark != "longmemeval":
            raise JudgeError(f"the official script judges LongMemEval, not {benchmark}")
        if self.parameters is not None and self.model == OFFICIAL_MODEL:
            raise JudgeError(
                f"the official protocol asks {OFFICIAL_MODEL} with parameters of its own: leave the judge's "
                "parameters out, or name another model"
            )
        parameters = OFFICIAL_PARAMETERS if self.parameters is None else self.parameters
        return official_protocol(load_official_script(path), self.base_url, self.model, parameters)


def read_parameters(text: str) -> Parameters | None:
    """Parameters of a judge call out of a JSON object; None where the text is empty. Raises JudgeError."""
    if not text.strip():
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise JudgeError(f"the judge's parameters {text!r} are not JSON: {error}") from None
    if not isinstance(found, dict):
        raise JudgeError(f'the judge\'s parameters {text!r} are no JSON object such as {{"temperature": 0}}')
    return found


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
    The manifest keeps what the protocol is, and that the run is read under it from now on. Raises JudgeError
    where another process is judging the run: no verdict is paid for twice.
    """
    with run.claims() as claims:
        if not claims.take(JUDGING):
            raise JudgeError("another process is judging this run: wait for it to end, and judge again")
        return _judge_alone(run, protocol, choice, references, on_progress, stop)


def _judge_alone(
    run: RunDirectory,
    protocol: Protocol,
    choice: JudgeChoice,
    references: Mapping[str, ReferenceText],
    on_progress: Progress | None,
    stop: threading.Event | None,
) -> JudgeOutcome:
    known = RunDirectory.open(run.path).manifest.facts.get("judges", {})
    described = {**protocol.describe(), "offline": choice.offline}
    run.amend_facts({"judge": protocol.key, "judges": {**known, protocol.key: described}})
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
