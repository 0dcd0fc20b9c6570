"""Counting tokens without a network.

OpenAI's o200k_base is the tokenizer where its vocabulary is on this machine: in the folder that
TIKTOKEN_CACHE_DIR or DATA_GYM_CACHE_DIR names, or else in tiktoken's own cache. It is never downloaded here.
Without it a count is an estimate, a token for every four characters, and its name says so. Whoever shows a
count shows the tokenizer's name beside it.
"""

import hashlib
import math
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ENCODING = "o200k_base"
VOCABULARY_FILE = "fb374d419588a4632f3f557e76b4b70aebbca790"
"""The name under which tiktoken caches the vocabulary of o200k_base."""
VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

ESTIMATE = "chars/4 estimate"
CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """`name` is what to show beside every count; `exact` is False for the estimate."""

    name: str
    exact: bool
    count_tokens: Callable[[str], int]


def find_tokenizer() -> Tokenizer:
    """o200k_base where its vocabulary is cached on this machine, else the estimate."""
    if not vocabulary_is_cached():
        return Tokenizer(ESTIMATE, exact=False, count_tokens=estimate_tokens)

    def count(text: str) -> int:
        # The package and its vocabulary take a third of a second to load, and many runs count nothing.
        import tiktoken

        return len(tiktoken.get_encoding(ENCODING).encode_ordinary(text))

    return Tokenizer(ENCODING, exact=True, count_tokens=count)


def remembering(tokenizer: Tokenizer, known: dict[str, int]) -> Tokenizer:
    """The same tokenizer, which counts no text twice. Counts are kept in `known`, by the text's hash."""

    def count(text: str) -> int:
        name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        if name not in known:
            known[name] = tokenizer.count_tokens(text)
        return known[name]

    return Tokenizer(tokenizer.name, tokenizer.exact, count)


def vocabulary_is_cached() -> bool:
    """Whether the vocabulary is on this machine, whole: tiktoken replaces a damaged file from the network."""
    folder = cache_folder()
    if folder is None:
        return False
    try:
        content = (folder / VOCABULARY_FILE).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(content).hexdigest() == VOCABULARY_SHA256


def cache_folder() -> Path | None:
    """Where tiktoken looks for vocabularies; None where an empty variable switches its cache off."""
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if name in os.environ:
            return Path(os.environ[name]) if os.environ[name] else None
    return Path(tempfile.gettempdir()) / "data-gym-cache"


def estimate_tokens(text: str) -> int:
    """A token for every four characters, rounded up: what can be said of a text without a vocabulary."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)
