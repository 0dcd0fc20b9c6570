"""One line of a journal: what was done, how it ended, what it cost.

Seconds are wall-clock seconds, times are seconds since the epoch, token counts are the provider's own.
A call whose usage could not be seen has `usage=None` and counts as unmetered, never as zero. One that the
provider refused by its status took no tokens, and says so.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

FormationState = Literal["frozen", "failed"]
IngestionState = Literal["ingested", "error", "timeout", "blocked", "max-tokens", "context-overflow"]
ConsolidationState = Literal["committed", "no-change", "truncated", "failed", "timeout"]
HypothesisState = Literal[
    "answered", "empty", "error", "timeout", "blocked", "max-tokens", "context-overflow", "contaminated"
]
VerdictState = Literal["judged", "error", "unparsed"]


def writable(value: Any) -> Any:
    """The same value with no text in it that UTF-8 cannot hold.

    A model may send half of a surrogate pair: two halves are joined, one alone becomes U+FFFD.
    """
    if isinstance(value, str):
        return value if value.isascii() else _well_formed(value)
    if isinstance(value, dict):
        return {writable(name): writable(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(writable(part) for part in value)
    return value


def _well_formed(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


Text = Annotated[str, BeforeValidator(writable)]
"""What a model, a provider, a memory system or a data set says: any text at all."""


class Entry(BaseModel):
    """An immutable record with no room for unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Usage(Entry):
    """Tokens of one model call. `input` is uncached input; `reasoning` is a part of `output`, never added."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int | None = None

    @property
    def tokens(self) -> int:
        """All tokens of the call, each counted once: reasoning is within output."""
        return self.input + self.cache_read + self.cache_write + self.output


class Call(Entry):
    """One request to a model. `failure` names the error code of a failed attempt."""

    purpose: str
    model: str
    effort: str | None = None
    started_at: float
    seconds: float
    first_token_seconds: float | None = None
    finish: str
    failure: str | None = None
    usage: Usage | None = None


class FormationKey(Entry):
    """One sample under one condition, in one repeat."""

    sample_id: str
    condition: str
    repeat: int = 1


class QuestionKey(Entry):
    """One question under one condition, in one repeat."""

    question_id: str
    condition: str
    repeat: int = 1


class Ingestion(Entry):
    """One session brought to the memory system."""

    key: FormationKey
    session: int
    attempt: int = 1
    state: IngestionState
    reason: Text | None = None
    finish_reason: str | None = None
    started_at: float
    seconds: float
    tool_seconds: float = 0.0
    calls: tuple[Call, ...] = ()


class Consolidation(Entry):
    """One run of the system's consolidator on one finished session, with the system's own receipt."""

    key: FormationKey
    session: int
    attempt: int = 1
    state: ConsolidationState
    reason: Text | None = None
    receipt: Annotated[dict[str, Any], BeforeValidator(writable)] | None = None
    metered: bool = True
    started_at: float
    seconds: float
    calls: tuple[Call, ...] = ()


class MemoryFile(Entry):
    """One file of a frozen memory: its root (`dsh-home`, `home`, `workspace`), path in it, size, hash."""

    root: str
    path: str
    bytes: int
    sha256: str


class Formation(Entry):
    """The end of a formation: a frozen snapshot or a named failure."""

    key: FormationKey
    state: FormationState
    reason: Text | None = None
    digest: str | None = None
    files: tuple[MemoryFile, ...] = ()
    started_at: float
    seconds: float


class Hypothesis(Entry):
    """One question asked. `opened` names the memory files that the agent read, relative to their root."""

    key: QuestionKey
    sample_id: str
    attempt: int = 1
    state: HypothesisState
    hypothesis: Text = ""
    reason: Text | None = None
    finish_reason: str | None = None
    snapshot: str | None = None
    started_at: float
    seconds: float
    tool_seconds: float = 0.0
    prompt_tokens: int | None = None
    opened: tuple[Text, ...] = ()
    calls: tuple[Call, ...] = ()

    @property
    def answered(self) -> bool:
        return self.state == "answered"


class Verdict(Entry):
    """One hypothesis judged under one protocol. `correct` is set only where the state is `judged`."""

    key: QuestionKey
    protocol: str
    cache_key: str
    state: VerdictState
    correct: bool | None = None
    strict: bool | None = Field(default=None, description="the reply was exactly yes or no, and yes")
    reply: Text = ""
    reason: Text | None = None
    attempts: int = 1
    calls: tuple[Call, ...] = ()


class Selected(Entry):
    """One question chosen for a run: the pytest id it has there, and its class."""

    id: str
    key: QuestionKey
    sample_id: str
    category: str
    abstention: bool = False


class ReferenceText(Entry):
    """Question and gold of one question, kept in the run so that judging can be repeated from it alone."""

    question_id: str
    asked_on: Text
    question: Text
    gold: Text
    category: str
    abstention: bool = False
