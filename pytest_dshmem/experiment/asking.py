"""Asking: one question in a fresh session that sees the snapshot and nothing else, and its hypothesis."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from pytest_dshmem.datasets.views import History, Question
from pytest_dshmem.experiment.condition import CONDITIONS, Condition
from pytest_dshmem.experiment.outcome import Outcome, outcome_of
from pytest_dshmem.experiment.prompting import question_prompt
from pytest_dshmem.experiment.question_homes import QuestionHome
from pytest_dshmem.experiment.settings import Settings
from pytest_dshmem.harness.runtime import RuntimeLost, TurnTimeout
from pytest_dshmem.harness.turn import Turn
from pytest_dshmem.record.entries import Call, Hypothesis, HypothesisState, QuestionKey

CONTAMINATED = "the memory was changed while the question was being asked"


@dataclass(frozen=True, slots=True)
class Asked:
    """A record of one attempt at a question, and what it tells of the endpoint."""

    entry: Hypothesis
    fatal: bool = False
    rate_limited: bool = False


class QuestionLost(Exception):
    """The runtime died under a question that did nothing wrong. `calls` is what it had cost until then."""

    def __init__(self, reason: str, calls: tuple[Call, ...]) -> None:
        super().__init__(reason)
        self.calls = calls


class Asker:
    """Asks questions for one run. It reads the sealed views that asking may see."""

    def __init__(
        self,
        settings: Settings,
        read_question: Callable[[str], Question],
        read_context: Callable[[str, Condition], History],
        count_tokens: Callable[[str], int],
    ) -> None:
        self._settings = settings
        self._read_question = read_question
        self._read_context = read_context
        self._count_tokens = count_tokens

    def prompt(self, key: QuestionKey) -> str:
        """The text of the question as the agent will get it."""
        condition = CONDITIONS[key.condition]
        history = None
        if condition.history != "none":
            history = self._read_context(key.question_id, condition)
        return question_prompt(self._read_question(key.question_id), condition, history)

    def overflow(self, key: QuestionKey, sample_id: str, prompt: str) -> Hypothesis | None:
        """The record of a history that cannot fit the model, found without asking; None where it may fit."""
        if CONDITIONS[key.condition].history == "none":
            return None
        window, tokens = self._settings.limits.context_window, self._count_tokens(prompt)
        if tokens <= window:
            return None
        return Hypothesis(
            key=key,
            sample_id=sample_id,
            state="context-overflow",
            reason=f"the prompt has about {tokens:,} tokens, the model takes {window:,}",
            started_at=time.time(),
            seconds=0.0,
        )

    def ask(self, home: QuestionHome, key: QuestionKey, sample_id: str, prompt: str, attempt: int) -> Asked:
        """Asks once. Raises QuestionLost where the runtime died of something else."""
        session_id = f"{session_name(key)}{attempt}"
        limits = self._settings.limits
        started_at, clock = time.time(), time.monotonic()
        turn: Turn | None = None
        try:
            with home.runtime.session(session_id, "qa"):
                turn = home.runtime.turn(session_id, prompt, limits.question_seconds)
            outcome = outcome_of(turn, limits.question_steps, limits.question_seconds)
            calls = home.runtime.calls.take(session_id)
        except TurnTimeout as error:
            outcome = Outcome("timeout", str(error))
            calls = home.lose(session_id)
        except RuntimeLost as error:
            raise QuestionLost(str(error), home.lose(session_id)) from error
        state, reason = _state(outcome, turn) if home.is_clean() else ("contaminated", CONTAMINATED)
        entry = Hypothesis(
            key=key,
            sample_id=sample_id,
            attempt=attempt,
            state=state,
            hypothesis=turn.response.strip() if turn else "",
            reason=reason,
            finish_reason=turn.finish_reason if turn else None,
            snapshot=home.digest,
            started_at=turn.started_at if turn else started_at,
            seconds=turn.seconds if turn else time.monotonic() - clock,
            tool_seconds=turn.tool_seconds if turn else 0.0,
            prompt_tokens=_prompt_tokens(calls),
            opened=home.relative(turn.opened) if turn else (),
            calls=calls,
        )
        return Asked(entry, fatal=outcome.fatal, rate_limited=outcome.rate_limited)


def _state(outcome: Outcome, turn: Turn | None) -> tuple[HypothesisState, str | None]:
    if outcome.state != "completed":
        return outcome.state, outcome.reason
    if turn is None or not turn.response.strip():
        return "empty", "the agent ended its turn without a word"
    return "answered", None


def _prompt_tokens(calls: tuple[Call, ...]) -> int | None:
    """The largest context that the question took, in tokens as the provider counted them."""
    sizes = [
        call.usage.input + call.usage.cache_read + call.usage.cache_write
        for call in calls
        if call.usage is not None
    ]
    return max(sizes, default=None)


def session_name(key: QuestionKey) -> str:
    """What the ids of a question's sessions begin with: they go over the wire, so it tells nothing."""
    name = f"{key.condition}/{key.question_id}/{key.repeat}"
    return f"q-{hashlib.sha256(name.encode()).hexdigest()[:24]}-"
