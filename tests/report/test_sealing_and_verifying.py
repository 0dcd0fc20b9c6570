"""`verify` finds whatever was done to a run after it was sealed, and names the file and the item."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from synthetic_run import PROTOCOL, answer, synthetic_run

from pytest_dshmem.record.entries import FormationKey, QuestionKey
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.record.run_directory import RunDirectory
from pytest_dshmem.report.diagnosis import diagnose, write_diagnosis
from pytest_dshmem.report.json_report import report_document
from pytest_dshmem.report.prices import Prices
from pytest_dshmem.report.reading import read_run
from pytest_dshmem.report.seal import differing_places, is_as_sealed, read_seal, seal_hash, seal_run
from pytest_dshmem.report.verify import verify_run

CONDITION = "memory-consolidate"
Edit = Callable[[list[str]], list[str]]


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A sealed run."""
    run = synthetic_run(tmp_path / "run", trouble=True)
    write_diagnosis(run.path, diagnose(read_run(run.path), {}))
    seal_run(run.path)
    return run


def edit(path: Path, change: Edit) -> None:
    lines = path.read_text().splitlines()
    changed = change(lines)
    assert changed != lines
    path.write_text("".join(f"{line}\n" for line in changed))


def findings(run: RunDirectory) -> list[str]:
    return [str(finding) for finding in verify_run(run.path).findings]


def resealed(run: RunDirectory) -> list[str]:
    """What is still found when whoever changed the run has sealed it again."""
    seal_run(run.path)
    return findings(run)


def test_an_untouched_run_holds(run: RunDirectory) -> None:
    verification = verify_run(run.path)
    assert verification.holds
    assert verification.questions == 31
    assert verification.verdicts == 26
    assert verification.files > 10


def test_a_run_without_a_seal_does_not_hold(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run")
    assert findings(run) == ["seal.json: is missing: the run was never finished, or its seal was taken away"]


@pytest.mark.parametrize(
    "name", ["qa.jsonl", "judge.jsonl", "ingestion.jsonl", "hypotheses.jsonl", "selection.jsonl"]
)
def test_a_removed_line_is_found(run: RunDirectory, name: str) -> None:
    edit(run.path / name, lambda lines: lines[:-1])
    found = findings(run)
    assert any(text.startswith(f"{name}: differs from what was sealed: 1 of") for text in found)
    assert (
        any(text.startswith("seal.json: a figure does not follow") for text in found)
        or name == "hypotheses.jsonl"
    )


def test_a_removed_file_and_an_added_one_are_found(run: RunDirectory) -> None:
    run.consolidations.path.unlink()
    (run.path / "extra.txt").write_text("more")
    found = findings(run)
    assert "consolidation.jsonl: was sealed and is not there any more" in found
    assert "extra.txt: was added after the run was sealed" in found


def change_verdict(lines: list[str]) -> list[str]:
    return [line.replace('"correct":false', '"correct":true', 1) for line in lines]


def test_a_changed_verdict_is_found_even_if_sealed_again(run: RunDirectory) -> None:
    edit(run.verdicts.path, change_verdict)
    assert any("judge.jsonl: differs from what was sealed" in text for text in findings(run))
    again = resealed(run)
    assert any("the verdict is not what the judge's reply says" in text for text in again)
    assert any("orchard-q002 (baseline)" in text for text in again)


def swap_hypotheses(lines: list[str]) -> list[str]:
    first, second = json.loads(lines[0]), json.loads(lines[1])
    first["hypothesis"], second["hypothesis"] = second["hypothesis"], first["hypothesis"]
    return [json.dumps(first), json.dumps(second), *lines[2:]]


def test_a_swapped_hypothesis_is_found_even_if_sealed_again(run: RunDirectory) -> None:
    edit(run.hypotheses.path, swap_hypotheses)
    again = resealed(run)
    assert any(
        "hypotheses.jsonl: orchard-q001" in text and "not the one in qa.jsonl" in text for text in again
    )
    assert any("given on another question, gold or hypothesis" in text for text in again)


def test_a_hypothesis_swapped_in_the_export_is_found(run: RunDirectory) -> None:
    edit(run.path / "hypotheses.jsonl", swap_hypotheses)
    assert any("the hypothesis is not the one in qa.jsonl" in text for text in resealed(run))


def test_a_changed_gold_is_found_even_if_sealed_again(run: RunDirectory) -> None:
    edit(run.references.path, lambda lines: [line.replace("Button", "Zipper") for line in lines])
    assert any("given on another question, gold or hypothesis" in text for text in resealed(run))


@pytest.mark.parametrize(
    ("name", "item"),
    [
        ("qa.jsonl", "orchard-q001 (baseline)"),
        ("judge.jsonl", "orchard-q001 (baseline)"),
        ("hypotheses.jsonl", "orchard-q001-baseline"),
        ("selection.jsonl", "orchard-q001-baseline"),
        ("references.jsonl", "orchard-q001"),
    ],
)
def test_a_doubled_id_is_found_even_if_sealed_again(run: RunDirectory, name: str, item: str) -> None:
    edit(run.path / name, lambda lines: [*lines, lines[0]])
    assert f"{name}: {item}: stands 2 times" in resealed(run)


def test_a_torn_line_is_found(run: RunDirectory) -> None:
    with run.hypotheses.path.open("a") as file:
        file.write('{"key":')
    assert any(text.startswith("qa.jsonl: 1 line(s) cannot be read") for text in resealed(run))


def test_a_changed_memory_is_found_even_if_sealed_again(run: RunDirectory) -> None:
    folder = run.snapshot_folder(FormationKey(sample_id="orchard", condition=CONDITION))
    (path,) = folder.rglob("shed.md")
    path.write_text("The shed is blue.\n")
    assert any(text.endswith("its hash differs from the one in formation.jsonl") for text in resealed(run))
    path.unlink()
    assert any(text.endswith("is part of the frozen memory and cannot be read") for text in resealed(run))


def test_a_file_slipped_into_a_memory_is_found(run: RunDirectory) -> None:
    folder = run.snapshot_folder(FormationKey(sample_id="orchard", condition=CONDITION))
    (folder / "files" / "answers.md").write_text("green\n")
    assert any(text.endswith("was not there when the memory was frozen") for text in resealed(run))


def test_an_answer_on_another_memory_is_found(run: RunDirectory) -> None:
    key = QuestionKey(question_id="orchard-q001", condition=CONDITION)
    run.hypotheses.append(answer(key, "orchard", "a spirit level and a plane", attempt=2, snapshot="0" * 64))
    expected = f"qa.jsonl: orchard-q001 ({CONDITION}): was asked on another memory than the frozen one"
    assert expected in resealed(run)


def test_changed_settings_are_found_even_if_sealed_again(run: RunDirectory) -> None:
    text = run.manifest_path.read_text()
    run.manifest_path.write_text(text.replace('"synthetic-agent"', '"grander-agent"'))
    assert any("the fingerprint is not that of the settings" in found for found in resealed(run))


def test_a_figure_that_does_not_follow_from_the_records_is_named(run: RunDirectory) -> None:
    document = report_document(read_run(run.path))
    document["conditions"][0]["repeats"][0]["total"]["accuracy"] = 0.99
    (run.path / "report.json").write_text(json.dumps(document))
    (found,) = findings(run)
    assert found.startswith(
        "report.json: a figure does not follow from the records: conditions.0.repeats.0.total"
    )
    assert "accuracy was 0.99" in found


@pytest.mark.parametrize("texts", [True, False])
def test_a_report_is_recomputed_with_its_own_prices_and_extent(run: RunDirectory, texts: bool) -> None:
    prices = Prices.model_validate(
        {
            "source": "a list",
            "date": "2026-01-15",
            "currency": "USD",
            "models": {"synthetic-agent": {"input": "2.5"}},
        }
    )
    document = report_document(read_run(run.path), prices, texts=texts)
    (run.path / "report.json").write_text(json.dumps(document))
    assert findings(run) == []


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"conditions": 5, "prices": null}'])
def test_what_is_no_report_is_said(run: RunDirectory, content: str) -> None:
    (run.path / "report.json").write_text(content)
    (found,) = findings(run)
    assert found.startswith("report.json: ")


def test_a_record_of_another_version_is_a_finding(run: RunDirectory) -> None:
    edit(run.verdicts.path, lambda lines: ['{"unknown": 1}', *lines])
    (found,) = findings(run)
    assert "judge.jsonl line 1" in found


def test_a_folder_without_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="holds no run"):
        verify_run(tmp_path)


def test_a_seal_stands_for_the_run(run: RunDirectory) -> None:
    before = seal_hash(run.path)
    seal_run(run.path)
    assert seal_hash(run.path) == before
    edit(run.verdicts.path, change_verdict)
    seal_run(run.path)
    assert seal_hash(run.path) != before
    seal = read_seal(run.path)
    assert seal is not None
    assert seal.files["qa.jsonl"].lines == len(run.hypotheses.path.read_text().splitlines())
    assert PROTOCOL in json.dumps(seal.figures)


def test_differing_places_name_the_way_to_each_value() -> None:
    assert differing_places({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}) == ["a.b.1 was 2, is 3"]
    assert differing_places({"a": [1]}, {"a": [1, 2]}) == ["a was [1], is [1, 2]"]
    assert differing_places({"a": 1}, {"b": 1}) == ["a was 1, is null", "b was null, is 1"]
    assert differing_places({"a": 1.0}, {"a": 1.0}) == []


def test_records_are_as_sealed_until_one_of_them_changes(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run")
    names = ("run.json", "qa.jsonl")
    assert not is_as_sealed(run.path, names), "it was never sealed"
    seal_run(run.path)
    assert is_as_sealed(run.path, names)
    assert not is_as_sealed(run.path, (*names, "no-such-record.jsonl"))
    with (run.path / "qa.jsonl").open("a", encoding="utf-8") as journal:
        journal.write("\n")
    assert not is_as_sealed(run.path, names)
    assert is_as_sealed(run.path, ("run.json",))
