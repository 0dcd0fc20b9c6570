"""Words of an English text: split, folded to stems, and told apart into telling and empty ones.

The word lists are data (`fixtures/offline/lexicon.json`); all functions here are pure.
"""

import json
import re
from dataclasses import dataclass
from functools import cache, lru_cache

from pytest_dshmem.bundled import bundled_path

NUMBER = re.compile(r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|once|twice)\b", re.IGNORECASE)
"""A number in digits or in a word."""

_WORD = re.compile(r"\w+(?:['’]\w+)?")
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n+")
_VOWEL = re.compile(r"[aeiouy]")
_DOUBLED = re.compile(r"([bdfgmnprt])\1$")


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The word lists: words that tell nothing, words of courtesy, words that everybody uses, irregular forms,
    numbers, and phrases that decline to answer."""

    stop_words: frozenset[str]
    small_talk: frozenset[str]
    common_words: frozenset[str]
    irregular: dict[str, str]
    numbers: dict[str, str]
    declines: tuple[str, ...]


@cache
def lexicon() -> Lexicon:
    raw = json.loads(bundled_path("offline", "lexicon.json").read_text(encoding="utf-8"))
    return Lexicon(
        stop_words=frozenset(raw["stop_words"].split()),
        small_talk=frozenset(raw["small_talk"].split()),
        common_words=frozenset(raw["common_words"].split()),
        irregular=raw["irregular"],
        numbers=raw["numbers"],
        declines=tuple(raw["declines"]),
    )


def words(text: str) -> list[str]:
    """The words of a text in order, in lower case, with straight apostrophes."""
    return _WORD.findall(text.lower().replace("’", "'"))


def stems(text: str) -> list[str]:
    """The stems of the telling words of a text, in order."""
    return [found for found in map(stem, words(text)) if found]


@lru_cache(maxsize=8_192)
def stem_set(text: str) -> frozenset[str]:
    """The stems of a text, unordered. Kept for a while: the same memory is read for many questions."""
    return frozenset(stems(text))


def sentences(text: str) -> list[str]:
    """The sentences of a text in order; a line break ends a sentence too."""
    return [part for part in (piece.strip() for piece in _SENTENCE_END.split(text)) if part]


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The stem that the forms of a word share, or an empty string for a word that tells nothing.

    Numbers in words become digits. The stems are only ever compared with each other, so that they need not
    be words themselves.
    """
    known = lexicon()
    if word in known.stop_words:
        return ""
    word = word.partition("'")[0]
    if word in known.numbers:
        return known.numbers[word]
    word = known.irregular.get(word) or known.irregular.get(_without_plural(word), word)
    return "" if word in known.stop_words else _without_ending(word)


def _without_ending(word: str) -> str:
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word.lstrip("0") or "0" if word.isdigit() else word
    word = _without_plural(word)
    for ending, shortest in (("ing", 3), ("ed", 3), ("ion", 4), ("er", 4), ("or", 4), ("ly", 4)):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= shortest and _VOWEL.search(rest):
            word = _DOUBLED.sub(r"\1", rest)
            break
    return word.removesuffix("e") if len(word) > 3 else word


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("shes", "ches", "sses", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


@cache
def common_stems() -> frozenset[str]:
    """The stems of words that everybody uses: they tell something, but seldom what a talk was about."""
    known = lexicon()
    return frozenset(map(stem, known.common_words | known.small_talk))


def is_small_talk(text: str) -> bool:
    """Whether a sentence says nothing beyond courtesy."""
    courtesy = lexicon().small_talk
    return all(word in courtesy or not stem(word) for word in words(text))


def declines(text: str) -> bool:
    """Whether a text says that its writer does not know."""
    plain = text.lower().replace("’", "'")
    return any(phrase in plain for phrase in lexicon().declines)
