"""Answering by extraction: which notes to open for a question, and what in them answers it."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_dshmem.offline.dates import MONTHS, first_date, written
from pytest_dshmem.offline.language import NUMBER, sentences, stem, stem_set, words
from pytest_dshmem.offline.transcript import Line

NOTHING_KNOWN = "I do not know; nothing that I remember answers this."
NOTES_OPENED = 3
LINES_TOLD = 2
SENTENCES_TOLD = 2
"""An answer quotes this many lines, and of each this many sentences."""

ENOUGH = 0.2
"""The least share of a question's weight that a line must match to count as an answer."""

FROM_LINE_BEFORE = 0.4
"""How much of the match of the line before a line counts for it: what answers a question follows it."""

FOR_DATE = 0.25
FOR_NUMBER = 0.1
FOR_ASKING = -0.2
"""What a line gains, as a share of the question's weight: by a date or a number where one is asked for,
and by asking something itself."""

PER_WORD = 0.02
"""How much each telling word of a line takes off: of two lines that match alike, the shorter one answers."""

_ASKS_WHEN = re.compile(
    r"^(?:when|what (?:date|day|month|year|time)|which (?:date|day|month|year))\b", re.IGNORECASE
)
_ASKS_COUNT = re.compile(r"\bhow (?:many|much|old|long|often|far)\b", re.IGNORECASE)
_ASKS_WHETHER = re.compile(
    r"^(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b", re.IGNORECASE
)
_CHOICE = re.compile(r"\b(?P<first>[\w'-]+(?: [\w'-]+)?) or (?:an? |the )?[\w'-]+", re.IGNORECASE)
_NEGATION = re.compile(r"\b(?:not|never|no|\w+n't)\b", re.IGNORECASE)
_MEANT_DATE = re.compile(r"\[(?P<meant>[^\]]*\d{4}[^\]]*)\]")
_IS_QUESTION = re.compile(r"\?\s*$")


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One line of a memory index: the note's file name, and what it is said to hold."""

    file: str
    description: str
    revision: str | None = None

    @property
    def stem(self) -> str:
        return self.file.removesuffix(".md")


@dataclass(frozen=True, slots=True)
class _Found:
    line: Line
    score: float
    share: float
    """Which part of the question's weight the line matches, 0 to 1."""


def notes_for(question: str, index: Sequence[IndexEntry]) -> tuple[IndexEntry, ...]:
    """Up to three notes for a question: of persons it names, then those whose index lines fit it best."""
    named = _named(question)
    wanted = stem_set(question)
    described = [stem_set(entry.description) | _dates_named(entry) for entry in index]
    weights = _weights(wanted, described)
    scored = list[tuple[bool, float, IndexEntry]]()
    for entry, have in zip(index, described, strict=True):
        score = math.fsum(weights[found] for found in wanted & have)
        is_named = entry.stem in named
        if is_named or score > 0:
            scored.append((is_named, score, entry))
    scored.sort(key=lambda rated: (-rated[0], -rated[1]))
    return tuple(entry for _, _, entry in scored[:NOTES_OPENED])


def answer(question: str, lines: Sequence[Line]) -> str:
    """The shortest text of the lines that is likely to answer a question; a plain refusal if none is."""
    found = _ranked(question, lines)
    if not found or found[0].share < ENOUGH:
        return NOTHING_KNOWN
    best = found[0].line
    told = _told(question, [hit.line for hit in found])
    if _ASKS_WHEN.search(question):
        return f"{_when(best)} ({told})"
    if _ASKS_WHETHER.search(question):
        return f"{'No' if _NEGATION.search(best.text) else 'Yes'}: {told}"
    return told


def guess(question: str) -> str:
    """An answer from the question alone, for one who remembers nothing."""
    choice = _CHOICE.search(question)
    if choice and question.rstrip().endswith("?"):
        return f"Perhaps {choice['first']}."
    if _ASKS_WHETHER.search(question):
        return "Probably yes."
    return NOTHING_KNOWN


def _told(question: str, lines: Sequence[Line]) -> str:
    """What the best lines say, cut down to the sentences nearest to the question."""
    wanted = stem_set(question)
    chosen = [_cut(line, wanted) for line in lines[:LINES_TOLD]]
    return " ".join(dict.fromkeys(chosen))


def _cut(line: Line, wanted: frozenset[str]) -> str:
    parts = sentences(line.text)
    if len(parts) <= SENTENCES_TOLD:
        return line.text
    overlap = [len(wanted & stem_set(part)) for part in parts]
    best = overlap.index(max(overlap))
    start = min(best, len(parts) - SENTENCES_TOLD)
    return " ".join(parts[start : start + SENTENCES_TOLD])


def _when(line: Line) -> str:
    meant = _MEANT_DATE.search(line.text)
    if meant:
        return meant["meant"]
    return written(line.said_on) if line.said_on else "I do not know when"


def _ranked(question: str, lines: Sequence[Line]) -> list[_Found]:
    """Lines by how well they match, the best first; a line gains a little from the one before it."""
    wanted = stem_set(question)
    held = [stem_set(line.text) | stem_set(line.speaker) for line in lines]
    weights = _weights(wanted, held)
    whole = math.fsum(weights.values()) or 1.0
    shares = [math.fsum(weights[found] for found in wanted & have) / whole for have in held]
    gains = _gains(question)
    found = list[_Found]()
    for line, have, share, share_before in zip(lines, held, shares, [0.0, *shares], strict=False):
        matched = share + FROM_LINE_BEFORE * share_before
        score = matched + sum(gain for pattern, gain in gains if pattern.search(line.text))
        found.append(_Found(line, score / (1 + PER_WORD * len(have)), matched))
    return sorted(found, key=lambda hit: -hit.score)


def _gains(question: str) -> list[tuple[re.Pattern[str], float]]:
    """What a line gains by holding, or not holding, the kind of thing that is asked for."""
    gains = [(_IS_QUESTION, FOR_ASKING)]
    if _ASKS_WHEN.search(question):
        gains.append((_MEANT_DATE, FOR_DATE))
    if _ASKS_COUNT.search(question):
        gains.append((NUMBER, FOR_NUMBER))
    return gains


def _named(question: str) -> set[str]:
    """The words that may name a person: the question's, and `user` where users ask about themselves."""
    asked = set(words(question))
    return asked | {"user"} if asked & {"i", "my", "me"} else asked


def _weights(wanted: frozenset[str], held: Sequence[frozenset[str]]) -> dict[str, float]:
    """How telling each wanted stem is: the logarithm of how few of the texts hold it."""
    frequency = Counter(found for have in held for found in wanted & have)
    return {found: math.log((len(held) + 1) / (frequency[found] + 0.5)) for found in wanted}


def _dates_named(entry: IndexEntry) -> set[str]:
    """The stems of the month and year in a note's file name, for questions that name them."""
    day = first_date(entry.file)
    return {stem(MONTHS[day.month - 1].lower()), str(day.year)} if day else set()
