"""A run can be published as it is, or the reason why not is named without showing the secret."""

from pathlib import Path

import pytest
from synthetic_run import answer, synthetic_run

from pytest_dshmem.record.entries import FormationKey, QuestionKey
from pytest_dshmem.record.run_directory import RunDirectory
from pytest_dshmem.report.publishing import machine_folders, publishing_findings
from pytest_dshmem.report.seal import seal_run

KEY = QuestionKey(question_id="orchard-q001", condition="memory")
SECRET = "sk-" + "a1B2c3D4" * 4


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = synthetic_run(tmp_path / "run", conditions=("memory",))
    seal_run(run.path)
    return run


def found(run: RunDirectory, *folders: str) -> list[str]:
    return [str(finding) for finding in publishing_findings(run.path, [Path(folder) for folder in folders])]


def test_a_clean_run_can_be_published(run: RunDirectory) -> None:
    assert found(run, "/somewhere/else") == []


def test_a_key_is_found_and_not_shown(run: RunDirectory) -> None:
    run.hypotheses.append(answer(KEY, "orchard", f"it is {SECRET}"))
    (finding,) = found(run)
    assert finding.startswith("qa.jsonl: line 13: holds something that looks like a key")
    assert SECRET not in finding


def test_a_path_in_a_machine_made_field_is_found(run: RunDirectory) -> None:
    run.hypotheses.append(
        answer(KEY, "orchard", "", state="error", finish_reason="in /home/ines/run/qa.jsonl")
    )
    assert found(run) == ["qa.jsonl: line 13: holds an absolute path (/home/ines/run/qa.jsonl)"]


def test_a_path_that_somebody_spoke_of_is_not(run: RunDirectory) -> None:
    run.hypotheses.append(answer(KEY, "orchard", "He keeps it in /home/pavel/boats."))
    assert found(run) == []


def test_a_folder_of_this_machine_is_found_even_in_what_was_said(run: RunDirectory) -> None:
    run.hypotheses.append(answer(KEY, "orchard", "It is in /data/sandboxes/7/memory."))
    assert found(run, "/data/sandboxes/7") == [
        "qa.jsonl: line 13: names a folder of this machine (/data/sandboxes/7)"
    ]
    assert found(run, "/data/sandboxes") != []
    assert found(run, "/data/sand") == []


def test_memories_are_looked_through(run: RunDirectory) -> None:
    folder = run.snapshot_folder(FormationKey(sample_id="orchard", condition="memory"))
    (path,) = folder.rglob("shed.md")
    path.write_text(f"token: Bearer {SECRET}\n")
    (finding,) = found(run)
    assert "shed.md: holds something that looks like a key" in finding


def test_this_machine_is_known_by_its_home_its_temporary_folder_and_the_run(run: RunDirectory) -> None:
    folders = machine_folders(run.path)
    assert Path.home() in folders
    assert run.path.resolve().parent in folders
    assert Path("/") not in folders
