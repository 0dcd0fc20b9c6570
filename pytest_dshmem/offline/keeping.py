"""What is worth keeping of a session, and under which name and description.

Sums are exact (`fsum`): the order of a set differs from process to process, and a result must not.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from itertools import groupby
from math import fsum

from pytest_dshmem.offline.language import (
    NUMBER,
    common_stems,
    is_small_talk,
    sentences,
    stem,
    stem_set,
    stems,
    words,
)
from pytest_dshmem.offline.transcript import Line, Session

KEPT_SHARE = 0.5
KEPT_CHARACTERS = 6_000
SENTENCE_CHARACTERS = 600
DESCRIPTION_CHARACTERS = 280

_FIRST_PERSON = re.compile(r"\b(?:I|I'm|I've|I'll|my|we|our|we're|we've)\b")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")
_MEANT = re.compile(r"\[[^\]]*\]")
_TIME = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|ago|last|next|since|weekend|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence: its place in the session, the index of its remark, its text and what it is worth."""

    place: int
    remark: int
    text: str
    worth: float


def name_of(session: Session) -> str:
    """A file name for a session's notes: its date, and a short hash since a day can hold several sessions."""
    day = session.said_on.isoformat() if session.said_on else "undated"
    return (
        f"{day}-{sha256((session.date_text + session.body).encode(errors='surrogatepass')).hexdigest()[:6]}"
    )


def file_name_of(person: str) -> str:
    """A file name for what is known of a person, of lower-case letters, digits and hyphens; may be empty."""
    return re.sub(r"[^a-z0-9]+", "-", person.lower()).strip("-")


def kept_lines(session: Session) -> tuple[Line, ...]:
    """The better half of a session's sentences, a line for each remark that has any, in the talk's order."""
    return _as_lines(session, _kept(_ranked(session)))


def best_lines(session: Session, sentences_wanted: int, speaker: str | None = None) -> tuple[Line, ...]:
    """The worthiest sentences of a session, of one speaker or of all, as lines in the order of the talk."""
    said = [one for one in _ranked(session) if speaker in (None, session.remarks[one.remark].speaker)]
    return _as_lines(session, [one for one in said[:sentences_wanted] if one.worth > 0])


def description_of(lines: Sequence[Line], opening: str = "") -> str:
    """One line of limited length: the opening, then the words that tell most of what some lines are about.

    The commonest of them come first; those that everybody uses, and the speakers' names, are left out.
    """
    spelled: dict[str, str] = {}
    counted: Counter[str] = Counter()
    unwanted = common_stems().union(*(stems(line.speaker) for line in lines))
    for word in (word for line in lines for word in words(_MEANT.sub("", line.text))):
        found = stem(word)
        if found and found not in unwanted and not found.isdigit():
            spelled.setdefault(found, word)
            counted[found] += 1
    description, separator = opening, ""
    for found, _ in counted.most_common():
        longer = f"{description}{separator}{spelled[found]}"
        if len(longer) > DESCRIPTION_CHARACTERS:
            break
        description, separator = longer, ", "
    return description or "a session"


@lru_cache(maxsize=64)
def _ranked(session: Session) -> tuple[_Sentence, ...]:
    """A session's sentences, the worthiest first; equals stay in the order of the talk."""
    pieces = [
        (index, text[:SENTENCE_CHARACTERS])
        for index, remark in enumerate(session.remarks)
        for text in sentences(remark.text)
    ]
    frequency = Counter(found for _, text in pieces for found in stem_set(text))
    weighed = (
        _Sentence(place, index, text, _worth(text, frequency)) for place, (index, text) in enumerate(pieces)
    )
    return tuple(sorted(weighed, key=lambda sentence: -sentence.worth))


def _worth(text: str, frequency: Counter[str]) -> float:
    if is_small_talk(text):
        return 0.0
    telling = fsum(1 / frequency[found] for found in stem_set(text))
    marks = (
        2 * bool(NUMBER.search(text)) + 2 * bool(_TIME.search(text)) + 2 * bool(_FIRST_PERSON.search(text))
    )
    marks += min(2, len(_NAME.findall(text)))
    question = 0.3 if text.endswith("?") else 1.0
    return question * (min(telling, 6.0) + marks)


def _kept(ranked: Sequence[_Sentence]) -> list[_Sentence]:
    return _within(ranked[: max(1, round(len(ranked) * KEPT_SHARE))], KEPT_CHARACTERS)


def _within(ranked: Sequence[_Sentence], characters: int) -> list[_Sentence]:
    """The first sentences that fit, and always one if there is any."""
    used, chosen = 0, list[_Sentence]()
    for sentence in ranked:
        used += len(sentence.text)
        if used > characters and chosen:
            break
        chosen.append(sentence)
    return chosen


def _as_lines(session: Session, chosen: Sequence[_Sentence]) -> tuple[Line, ...]:
    in_order = sorted(chosen, key=lambda sentence: sentence.place)
    by_remark = groupby(in_order, key=lambda sentence: sentence.remark)
    return tuple(
        session.line(session.remarks[index], " ".join(sentence.text for sentence in said))
        for index, said in by_remark
    )
