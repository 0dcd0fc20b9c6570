"""What one session or question takes on average: as an earlier run measured it, or as assumed here.

The assumptions are round figures for agents that keep their memory in files. A smoke run replaces them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Literal

from pytest_dshmem.experiment.condition import Condition
from pytest_dshmem.experiment.settings import IngestionWay

Phase = Literal["ingestion", "consolidation", "qa", "judge"]

SESSION_CALLS = 4
CONSOLIDATION_CALLS = 3
MEMORY_QUESTION_CALLS = 3
PROMPT_TOKENS = 1_500
STEP_TOKENS = 600
WRITTEN_SHARE = 0.15
REPLY_TOKENS = 150
THOUGHT_TOKENS = 400
JUDGE_PROMPT_TOKENS = 250
JUDGE_REPLY_TOKENS = 60

ASSUMPTIONS = (
    f"a session takes {SESSION_CALLS} calls to ingest and {CONSOLIDATION_CALLS} to consolidate, a question "
    f"{MEMORY_QUESTION_CALLS} with memory and 1 without, a verdict 1",
    f"a prompt has {PROMPT_TOKENS:,} tokens of instructions, tools and memory index beside its history, and "
    f"every further call of a turn adds {STEP_TOKENS} and reads the rest from the cache",
    f"a call replies in {REPLY_TOKENS} tokens; {WRITTEN_SHARE:.0%} of a session are written to memory; a "
    f"question takes {THOUGHT_TOKENS} tokens of thought, which grows with the reasoning effort",
    f"the judge reads {JUDGE_PROMPT_TOKENS} tokens and replies in {JUDGE_REPLY_TOKENS}",
    "nothing fails and nothing is tried again",
)
"""The same in words, for whoever reads an estimate."""


@dataclass(frozen=True, slots=True)
class Spending:
    """Calls and tokens, of one unit of work on average or of many. `input` is uncached input."""

    calls: float = 0.0
    input: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    output: float = 0.0

    @property
    def tokens(self) -> float:
        return self.input + self.cache_read + self.cache_write + self.output

    def times(self, count: float) -> "Spending":
        """What so many units take."""
        return Spending(*(count * value for value in astuple(self)))


Averages = Mapping[tuple[str, Phase], Spending]
"""What a unit took on average in an earlier run, by condition and phase."""


def total(spendings: Iterable[Spending]) -> Spending:
    """The sum of several spendings."""
    rows = [astuple(spending) for spending in spendings]
    return Spending(*(sum(column) for column in zip(*rows, strict=True)))


def assumed_ingestion(way: IngestionWay, session_tokens: float) -> Spending:
    """One session of that many tokens. A replayed one reaches the memory without a model."""
    if way == "replay":
        return Spending()
    return _turn(SESSION_CALLS, session_tokens, WRITTEN_SHARE * session_tokens)


def assumed_consolidation(session_tokens: float) -> Spending:
    """One run of the consolidator over one finished session."""
    return _turn(CONSOLIDATION_CALLS, session_tokens, WRITTEN_SHARE * session_tokens)


def assumed_question(condition: Condition, shown_tokens: float) -> Spending:
    """One question, with that many tokens of history in its prompt."""
    calls = MEMORY_QUESTION_CALLS if condition.forms_memory else 1
    return _turn(calls, shown_tokens, THOUGHT_TOKENS)


def assumed_verdict() -> Spending:
    return Spending(calls=1, input=JUDGE_PROMPT_TOKENS, output=JUDGE_REPLY_TOKENS)


def _turn(calls: int, shown_tokens: float, written_tokens: float) -> Spending:
    """One turn of an agent: each call reads all that was before it from the cache, and something new."""
    prompt = PROMPT_TOKENS + shown_tokens
    return Spending(
        calls=calls,
        input=prompt + STEP_TOKENS * (calls - 1),
        cache_read=sum(prompt + STEP_TOKENS * step for step in range(calls - 1)),
        output=REPLY_TOKENS * calls + written_tokens,
    )
