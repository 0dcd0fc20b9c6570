"""How large the frozen memory is, what of it was opened, and how that goes with accuracy."""

from pathlib import Path
from typing import Any

import pytest
from synthetic_run import right_half_of_the_time, synthetic_run

from pytest_dshmem.experiment.tokenizer import ESTIMATE, Tokenizer, estimate_tokens
from pytest_dshmem.record.entries import FormationKey, MemoryFile
from pytest_dshmem.report.memory_figures import MemoryFigures, memory_figures
from pytest_dshmem.report.reading import read_run

WORDS = Tokenizer("words", exact=True, count_tokens=lambda text: len(text.split()))
ORCHARD = FormationKey(sample_id="orchard", condition="memory")
SNAPSHOT = Path("snapshots/orchard-memory/files/dsh-home/memory")


def figures(folder: Path, tokenizer: Tokenizer = WORDS, **how: Any) -> MemoryFigures:
    synthetic_run(folder, conditions=("memory",), facts={"tokenizer": "words", **how})
    return memory_figures(read_run(folder), tokenizer)


def test_files_are_measured_as_they_lie_in_the_snapshot(tmp_path: Path) -> None:
    orchard = figures(tmp_path / "run").formations[0]
    assert orchard.key == ORCHARD
    for file in orchard.files:
        text = (tmp_path / "run/snapshots/orchard-memory/files" / file.root / file.path).read_text()
        assert file.tokens == len(text.split()) > 0
        assert file.bytes == len(text.encode())
    assert orchard.bytes == sum(file.bytes for file in orchard.files)


def test_global_memory_and_the_folders_below_it_are_told_apart(tmp_path: Path) -> None:
    found = figures(tmp_path / "run")
    assert [(part.name, part.files) for part in found.parts] == [
        ("dsh-home/memory", 2),
        ("dsh-home/memory/*", 4),
    ]
    assert sum(part.bytes for part in found.parts) == found.bytes.total
    assert sum(part.tokens or 0 for part in found.parts) == found.tokens.total


def test_compression_is_history_over_memory(tmp_path: Path) -> None:
    found = figures(tmp_path / "run")
    assert found.history_tokens == 8_000
    assert found.tokens.total is not None
    assert found.compression == pytest.approx(8_000 / found.tokens.total)


def test_counts_by_different_tokenizers_are_not_compared(tmp_path: Path) -> None:
    found = figures(tmp_path / "run", Tokenizer(ESTIMATE, exact=False, count_tokens=estimate_tokens))
    assert (found.tokenizer, found.history_tokenizer) == (ESTIMATE, "words")
    assert found.compression is None
    assert all(memory.compression is None for memory in found.formations)


def test_a_history_that_nobody_counted_is_unknown(tmp_path: Path) -> None:
    found = figures(tmp_path / "run", history_tokens={"orchard": 4_000})
    assert found.formations[0].history_tokens == 4_000
    assert found.formations[1].history_tokens is None
    assert found.history_tokens is None
    assert found.compression is None


@pytest.mark.parametrize("content", [b"\xff\xfe\x00SQLite", None])
def test_a_file_that_is_no_text_or_is_gone_has_no_tokens(tmp_path: Path, content: bytes | None) -> None:
    figures(tmp_path / "run")
    file = tmp_path / "run" / SNAPSHOT / "GLOBAL.md"
    file.unlink() if content is None else file.write_bytes(content)
    found = memory_figures(read_run(tmp_path / "run"), WORDS)
    assert found.formations[0].files[0].tokens is None
    assert found.formations[0].tokens is None
    assert found.formations[0].compression is None
    assert found.formations[1].tokens is not None


@pytest.mark.parametrize("path", ["../../../../secret.md", "/etc/hostname"])
def test_a_record_cannot_lead_out_of_its_snapshot(tmp_path: Path, path: str) -> None:
    run = synthetic_run(tmp_path / "run", conditions=("memory",))
    (tmp_path / "secret.md").write_text("outside")
    formation = run.formations.read().entries[0]
    stray = MemoryFile(root="dsh-home", path=path, bytes=7, sha256="0" * 64)
    run.formations.append(formation.model_copy(update={"files": (stray,)}))
    found = memory_figures(read_run(tmp_path / "run"), WORDS)
    assert found.formations[0].files[0].tokens is None


def test_files_opened_are_counted_by_question_and_set_against_accuracy(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "run", conditions=("baseline", "memory"))
    found = memory_figures(read_run(tmp_path / "run"), WORDS)
    assert found.opened_files == {"memory/garden/shed.md": 12}
    assert found.opened.total == 12
    by_opened = [(r.label, r.questions, r.judged, r.correct) for r in found.by_opened]
    assert by_opened == [("no file opened", 12, 12, 2), ("1 file opened", 12, 12, 8)]


def test_prompt_tokens_are_set_against_accuracy(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "run", conditions=("baseline", "memory"))
    found = memory_figures(read_run(tmp_path / "run"), WORDS)
    assert found.prompt_tokens.total == 12 * 120 + 12 * 450
    assert sum(rights.questions for rights in found.by_prompt_tokens) == 24
    assert sum(rights.correct for rights in found.by_prompt_tokens) == 10
    assert found.by_prompt_tokens[0].accuracy == pytest.approx(2 / 12)


def test_each_memory_knows_how_its_questions_went(tmp_path: Path) -> None:
    synthetic_run(
        tmp_path / "run",
        conditions=("memory",),
        repeats=2,
        correct=lambda key: key.repeat == 1 and right_half_of_the_time(key),
    )
    found = memory_figures(read_run(tmp_path / "run"), WORDS)
    rights = {(m.key.sample_id, m.key.repeat): m.rights.correct for m in found.formations}
    assert rights == {("orchard", 1): 4, ("harbour", 1): 4, ("orchard", 2): 0, ("harbour", 2): 0}


def test_a_run_without_memory_has_no_sizes(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "run", conditions=("baseline",))
    found = memory_figures(read_run(tmp_path / "run"), WORDS)
    assert found.formations == ()
    assert found.tokens.median is None
    assert found.compression is None
