"""Sizes of histories: counted as `speaker: text`, once for a file, and never mixed between tokenizers."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest

from pytest_dshmem.datasets.catalog import open_benchmark
from pytest_dshmem.datasets.views import (
    DataError,
    DataFile,
    History,
    Listing,
    Question,
    Reference,
    Session,
    Turn,
)
from pytest_dshmem.experiment import history_sizes as sizing
from pytest_dshmem.experiment.history_sizes import HistorySize, history_size, history_sizes
from pytest_dshmem.experiment.tokenizer import Tokenizer, find_tokenizer, vocabulary_is_cached

WORDS = Tokenizer("words", exact=True, count_tokens=lambda text: len(text.split()))


def history_of(sample_id: str) -> History:
    turns = (Turn("Ines", "a quince tree"), Turn("Pavel", ""))
    sessions = tuple(Session(number, datetime(2023, 5, number), "", turns[:number]) for number in (1, 2, 3))
    return History(sample_id, "group-chat", ("Ines", "Pavel"), sessions)


@dataclass
class Library:
    """A data set that remembers which histories were read."""

    sample_corpus: bool = False
    sha256: str = "ab" * 32
    name: str = "locomo"
    categories: tuple[str, ...] = ()
    read: list[str] = field(default_factory=list)

    @property
    def file(self) -> DataFile:
        return DataFile("library", self.sha256, 10, True, self.sample_corpus)

    def listings(self) -> Sequence[Listing]:
        raise NotImplementedError

    def history(self, sample_id: str) -> History:
        self.read.append(sample_id)
        return history_of(sample_id)

    def question(self, question_id: str) -> Question:
        raise NotImplementedError

    def reference(self, question_id: str) -> Reference:
        raise NotImplementedError

    def oddities(self) -> dict[str, int]:
        return {}


def test_a_turn_counts_with_its_speaker_and_an_empty_session_counts_nothing() -> None:
    size = history_size(history_of("orchard"), WORDS)
    assert size == HistorySize((4, 5, 5))
    assert size.tokens == 14


def test_what_was_counted_once_is_not_read_again(tmp_path: Path) -> None:
    library = Library()
    assert history_sizes(library, ["a", "b"], WORDS, tmp_path)["b"].tokens == 14
    told: list[tuple[int, int]] = []
    found = history_sizes(library, ["c", "b", "a", "b"], WORDS, tmp_path, lambda *step: told.append(step))
    assert list(found) == ["c", "b", "a"]
    assert library.read == ["a", "b", "c"]
    assert told == [(1, 1)]


def test_another_file_or_tokenizer_has_counts_of_its_own(tmp_path: Path) -> None:
    letters = Tokenizer("letters/1 estimate", exact=False, count_tokens=len)
    history_sizes(Library(), ["a"], WORDS, tmp_path)
    assert history_sizes(Library(), ["a"], letters, tmp_path)["a"].tokens > 14
    other = Library(sha256="cd" * 32)
    history_sizes(other, ["a"], WORDS, tmp_path)
    assert other.read == ["a"]
    assert len(list((tmp_path / "tokens").glob("*.json"))) == 3


def test_counts_are_kept_on_the_way_so_that_an_interruption_costs_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizing, "COUNTED_BETWEEN_WRITES", 2)
    library = Library()

    def interrupt(done: int, _count: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        history_sizes(library, ["a", "b", "c", "d"], WORDS, tmp_path, interrupt)
    history_sizes(library, ["a", "b", "c", "d"], WORDS, tmp_path)
    assert library.read == ["a", "b", "c", "c", "d"]


@pytest.mark.parametrize("spoil", [lambda _: "{", lambda _: "[]", lambda text: text.replace("1", "0", 1)])
def test_counts_that_cannot_be_read_are_made_anew(tmp_path: Path, spoil: Callable[[str], str]) -> None:
    history_sizes(Library(), ["a"], WORDS, tmp_path)
    (kept,) = (tmp_path / "tokens").glob("*.json")
    kept.write_text(spoil(kept.read_text()))
    assert history_sizes(Library(), ["a"], WORDS, tmp_path)["a"].tokens == 14
    assert json.loads(kept.read_text())["sessions"] == {"a": [4, 5, 5]}


def test_a_sample_corpus_leaves_nothing_behind(tmp_path: Path) -> None:
    history_sizes(Library(sample_corpus=True), ["a"], WORDS, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(DataError, match="DSHMEM_CACHE"):
        history_sizes(Library(), ["a"], WORDS, tmp_path / "cache")


@pytest.mark.skipif(
    "DSHMEM_DATA" not in os.environ or not vocabulary_is_cached(), reason="needs DSHMEM_DATA and o200k_base"
)
def test_all_of_the_real_locomo(tmp_path: Path) -> None:
    locomo = open_benchmark("locomo", environment=os.environ)
    samples = [listing.sample_id for listing in locomo.listings()]
    found = history_sizes(locomo, samples, find_tokenizer(), tmp_path)
    assert len(found) == 10
    assert sum(len(size.sessions) for size in found.values()) == 272
    assert sum(size.tokens for size in found.values()) == pytest.approx(174_511, rel=1e-3)
