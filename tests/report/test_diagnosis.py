"""A wrong answer is traced to the first place where the evidence was lost."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_run import PROTOCOL, answer, reference, select, synthetic_run, verdict

from pytest_dshmem.experiment.freezing import digest_of
from pytest_dshmem.record.entries import Formation, FormationKey, MemoryFile, QuestionKey
from pytest_dshmem.record.run_directory import RunDirectory
from pytest_dshmem.report.diagnosis import (
    Diagnosis,
    content_stems,
    count_causes,
    diagnose,
    read_diagnosis,
    refuses,
    write_diagnosis,
)
from pytest_dshmem.report.diagnosis_text import diagnosis_lines
from pytest_dshmem.report.lines import WIDTH, columns
from pytest_dshmem.report.reading import read_run

SAMPLE = "orchard"
TURN = "Yesterday Pavel traded his old accordion for a canoe with red paddles."
NOTE = "- Pavel traded the accordion for a canoe, red paddles included.\n"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run without any question."""
    return synthetic_run(tmp_path / "run", conditions=())


@pytest.fixture
def freeze(run: RunDirectory) -> Callable[..., None]:
    """Freezes a memory of these files for the sample under the condition `memory`."""

    def write(files: dict[str, bytes]) -> None:
        key = FormationKey(sample_id=SAMPLE, condition="memory")
        listed = []
        for path, content in files.items():
            place = run.snapshot_folder(key) / "files" / "memory" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            sha256 = hashlib.sha256(content).hexdigest()
            listed.append(MemoryFile(root="memory", path=path, bytes=len(content), sha256=sha256))
        frozen = tuple(listed)
        run.formations.append(
            Formation(
                key=key, state="frozen", digest=digest_of(frozen), files=frozen, started_at=0, seconds=1
            )
        )

    return write


@pytest.fixture
def ask(run: RunDirectory) -> Callable[..., QuestionKey]:
    """Asks the first question, records the answer, and judges it wrong if it is one."""

    def record(
        text: str, *, condition: str = "memory", is_right: bool = False, **changes: Any
    ) -> QuestionKey:
        key = select(run, SAMPLE, 1, condition)
        run.add_references([reference(SAMPLE, 1)])
        run.hypotheses.append(answer(key, SAMPLE, text, **changes))
        if changes.get("state", "answered") == "answered":
            run.verdicts.append(verdict(key, PROTOCOL, text, is_right))
        return key

    return record


def diagnosed(run: RunDirectory, *turns: str, injected: tuple[str, ...] = ("MEMORY.md",)) -> Diagnosis:
    (found,) = diagnose(read_run(run.path), {"orchard-q001": turns}, injected)
    return found


def test_never_formed(
    run: RunDirectory, freeze: Callable[..., None], ask: Callable[..., QuestionKey]
) -> None:
    freeze({"trades.md": b"- Ines bought a kayak.\n", "MEMORY.md": b"- [trades](trades.md)\n"})
    ask("a kayak", opened=("memory/trades.md",))
    found = diagnosed(run, TURN)
    assert (found.cause, found.evidence_turns, found.formed_turns) == ("never-formed", 1, 0)


def test_formed_and_not_opened(
    run: RunDirectory, freeze: Callable[..., None], ask: Callable[..., QuestionKey]
) -> None:
    freeze({"trades.md": NOTE.encode(), "garden.md": b"- A quince.\n"})
    ask("a kayak", opened=("memory/garden.md",))
    found = diagnosed(run, TURN)
    assert found.cause == "not-opened"
    assert found.files == ("memory/trades.md",)


def test_opened_and_answered_wrongly(
    run: RunDirectory, freeze: Callable[..., None], ask: Callable[..., QuestionKey]
) -> None:
    freeze({"trades.md": NOTE.encode()})
    ask("a kayak", opened=("memory/trades.md",))
    assert diagnosed(run, TURN).cause == "answered-wrongly"


def test_an_injected_file_counts_as_seen(
    run: RunDirectory, freeze: Callable[..., None], ask: Callable[..., QuestionKey]
) -> None:
    freeze({"shed/MEMORY.md": NOTE.encode()})
    ask("a kayak", opened=())
    assert diagnosed(run, TURN).cause == "answered-wrongly"
    assert diagnosed(run, TURN, injected=()).cause == "not-opened"


def test_one_missing_turn_of_two_means_never_formed(
    run: RunDirectory, freeze: Callable[..., None], ask: Callable[..., QuestionKey]
) -> None:
    freeze({"trades.md": NOTE.encode()})
    ask("a kayak", opened=("memory/trades.md",))
    found = diagnosed(run, TURN, "The lighthouse keeper retired in October.")
    assert (found.cause, found.evidence_turns, found.formed_turns) == ("never-formed", 2, 1)


def test_refused_and_empty(
    run: RunDirectory, freeze: Callable[..., None], ask: Callable[..., QuestionKey]
) -> None:
    freeze({"trades.md": NOTE.encode()})
    ask("I don't know what he got.", opened=("memory/trades.md",))
    assert diagnosed(run, TURN).cause == "refused"
    ask("", state="empty", attempt=2, opened=("memory/trades.md",))
    assert diagnosed(run, TURN).cause == "empty"


def test_without_usable_marks_or_memory(
    run: RunDirectory, freeze: Callable[..., None], ask: Callable[..., QuestionKey]
) -> None:
    freeze({"trades.md": NOTE.encode()})
    ask("a kayak")
    assert diagnosed(run).cause == "no-evidence"
    assert diagnosed(run, "Yes, and you?").cause == "no-evidence"


def test_a_condition_without_memory(run: RunDirectory, ask: Callable[..., QuestionKey]) -> None:
    ask("a kayak", condition="baseline")
    assert diagnosed(run, TURN).cause == "no-memory"


def test_a_memory_that_is_no_text_is_not_looked_into(
    run: RunDirectory, freeze: Callable[..., None], ask: Callable[..., QuestionKey]
) -> None:
    freeze({"memory.db": b"SQLite\xff\xfe\x00accordion canoe red paddles"})
    ask("a kayak")
    assert diagnosed(run, TURN).cause == "not-text"


def test_right_answers_and_errors_are_not_diagnosed(
    run: RunDirectory, freeze: Callable[..., None], ask: Callable[..., QuestionKey]
) -> None:
    freeze({"trades.md": NOTE.encode()})
    ask("a canoe", is_right=True)
    assert diagnose(read_run(run.path), {}) == ()
    ask("", state="timeout", attempt=2)
    assert diagnose(read_run(run.path), {}) == ()


def test_a_diagnosis_is_kept_with_the_run_and_counted_by_category(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run")
    assert read_diagnosis(run.path) is None
    found = diagnose(read_run(run.path), {})
    write_diagnosis(run.path, found)
    assert read_diagnosis(run.path) == found
    counts = count_causes(found)
    # Under baseline five of six are wrong in each of two samples, under memory two of six.
    assert counts["no-memory"].total() == 10
    assert counts["refused"].total() == 4
    assert counts["no-memory"]["single-hop"] == 6


def test_the_text_counts_and_lists_and_fits_the_terminal(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run")
    reading = read_run(run.path)
    lines = diagnosis_lines(diagnose(reading, {}), reading.categories)
    assert max(columns(line.text) for line in lines) <= WIDTH
    text = " ".join(" ".join(line.text for line in lines).split())
    assert "refused multi-hop 0 temporal 0 open-domain 2 single-hop 2 all 4" in text
    assert "refused, the evidence was seen and the agent said that it does not know: 4 questions" in text
    assert "orchard-q003, orchard-q006, harbour-q003, harbour-q006" in text


@pytest.mark.parametrize(
    "text",
    [
        "I do not know.",
        "There is no information on that.",
        "It isn't known: not mentioned.",
        "I couldn't find it",
    ],
)
def test_refusals_are_recognised(text: str) -> None:
    assert refuses(text)


@pytest.mark.parametrize(
    "text", ["A canoe.", "No, she sold it.", "He knows the keeper.", "Nothing but paddles"]
)
def test_answers_are_not_taken_for_refusals(text: str) -> None:
    assert not refuses(text)


def test_endings_and_small_words_do_not_matter() -> None:
    assert content_stems("She was trading the boats") == content_stems("trade? traded boat!") - {"trade"}
    assert "12" in content_stems("on the 12th and 12")


@given(st.text())
def test_any_text_has_content_stems_that_are_words_of_it(text: str) -> None:
    assert all(stem in text.lower() for stem in content_stems(text))
