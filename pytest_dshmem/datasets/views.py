"""The three sealed views of a data-set item.

History may be seen by formation, a question by asking, a reference by judging and diagnosis. They never
travel together, and none holds a field of another: what a type does not hold, it cannot leak.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

Setting = Literal["group-chat", "assistant-chat"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance. `speaker` is a person's name, or `user` / `assistant` in an assistant chat."""

    speaker: str
    text: str
    caption: str | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """One sitting of a history. `number` is its 1-based place in time order, the only identity it has."""

    number: int
    date: datetime
    date_text: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class History:
    """What was said, in time order, stripped of every evaluation mark."""

    sample_id: str
    setting: Setting
    participants: tuple[str, ...]
    sessions: tuple[Session, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What the answering agent is asked. `asked_on` is the current date as the data set writes it."""

    id: str
    sample_id: str
    asked_on: str
    text: str


@dataclass(frozen=True, slots=True)
class EvidencePlace:
    """Where evidence stands: a session's number and, if known, the 1-based turn in it."""

    session: int
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """What judging and diagnosis may see. `gold` is always text; `abstention`: no answer can be known."""

    question_id: str
    gold: str
    category: str
    evidence: tuple[EvidencePlace, ...]
    abstention: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """What collection needs to know of one question: identity and class, no text."""

    question_id: str
    sample_id: str
    category: str
    abstention: bool = False


@dataclass(frozen=True, slots=True)
class DataFile:
    """The file behind a benchmark. `pinned` says whether its hash is the published one."""

    name: str
    sha256: str
    bytes: int
    pinned: bool
    sample_corpus: bool = False


class Benchmark(Protocol):
    """A data set opened for an experiment. Everything is read when asked for, nothing before."""

    name: str
    categories: tuple[str, ...]
    """Categories in the order in which tables show them."""

    @property
    def file(self) -> DataFile: ...

    def listings(self) -> Sequence[Listing]:
        """All askable questions in data-set order."""
        ...

    def history(self, sample_id: str) -> History: ...

    def question(self, question_id: str) -> Question: ...

    def reference(self, question_id: str) -> Reference: ...

    def oddities(self) -> dict[str, int]:
        """Counts of what was unusual in the file and how often, for the run's manifest."""
        ...


class DataError(Exception):
    """A data set that cannot be used: what is wrong, where, and what to do about it, in one sentence."""
