"""Tokens are counted with a named tokenizer, and never by way of the network."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_dshmem.experiment import tokenizer
from pytest_dshmem.experiment.tokenizer import (
    ENCODING,
    ESTIMATE,
    VOCABULARY_FILE,
    Tokenizer,
    find_tokenizer,
    remembering,
)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("counting tokens must not open a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def vocabulary(monkeypatch: pytest.MonkeyPatch) -> Path:
    data = os.environ.get("DSHMEM_DATA")
    folder = Path(data) / "tiktoken" if data else Path(os.environ.get("TIKTOKEN_CACHE_DIR", "absent"))
    if not (folder / VOCABULARY_FILE).is_file():
        pytest.skip("the vocabulary of o200k_base is not on this machine")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
    return folder


@pytest.mark.parametrize("variable", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"])
def test_without_a_vocabulary_a_count_is_an_estimate_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    found = find_tokenizer()
    assert found.name == ESTIMATE
    assert not found.exact
    assert found.count_tokens("five!") == 2
    assert found.count_tokens("") == 0


def test_a_cache_that_is_switched_off_is_no_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert not find_tokenizer().exact


def test_a_damaged_vocabulary_is_left_alone_and_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = tmp_path / VOCABULARY_FILE
    damaged.write_bytes(b"IQ== 0\n")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert find_tokenizer().name == ESTIMATE
    assert damaged.read_bytes() == b"IQ== 0\n"


def test_the_default_place_is_the_one_of_tiktoken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tokenizer.tempfile, "gettempdir", lambda: str(tmp_path))
    assert tokenizer.cache_folder() == tmp_path / "data-gym-cache"


@pytest.mark.usefixtures("vocabulary")
def test_with_the_vocabulary_counts_are_those_of_o200k_base() -> None:
    found = find_tokenizer()
    assert found.name == ENCODING
    assert found.exact
    assert found.count_tokens("") == 0
    assert found.count_tokens("hello world") == 2


@pytest.mark.usefixtures("vocabulary")
@pytest.mark.parametrize("text", ["<|endoftext|>", "a\ud800b", "\u200d" * 9, "\x00", "👩‍👩‍👧"])
def test_any_text_can_be_counted(text: str) -> None:
    assert find_tokenizer().count_tokens(text) > 0


@given(st.text(), st.text())
def test_the_estimate_grows_with_the_text(first: str, second: str) -> None:
    together = tokenizer.estimate_tokens(first + second)
    assert together >= tokenizer.estimate_tokens(first)
    assert together <= tokenizer.estimate_tokens(first) + tokenizer.estimate_tokens(second)


def test_a_text_is_counted_once_and_the_count_can_be_kept() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    known: dict[str, int] = {}
    tokenizer = remembering(Tokenizer("letters", exact=True, count_tokens=count), known)
    assert [tokenizer.count_tokens(text) for text in ("memory", "memory", "\ud83c")] == [6, 6, 1]
    assert counted == ["memory", "\ud83c"]
    again = remembering(Tokenizer("letters", exact=True, count_tokens=count), dict(known))
    assert again.count_tokens("memory") == 6
    assert counted == ["memory", "\ud83c"]
