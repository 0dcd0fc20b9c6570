"""A published list of disputed golds is laid over a report and changes nothing else."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from synthetic_run import synthetic_run

from pytest_dshmem.report.diagnosis_text import disputed_lines
from pytest_dshmem.report.figures import run_figures
from pytest_dshmem.report.overlay import OverlayError, load_overlay, undisputed_row
from pytest_dshmem.report.reading import read_run

SAMPLES = ["conv-1", "conv-2"]


def audit(folder: Path, *entries: Any) -> Path:
    path = folder / "errors.json"
    path.write_text(json.dumps(list(entries)))
    return path


def entry(question_id: str, error_type: str = "HALLUCINATION") -> dict[str, str]:
    return {"question_id": question_id, "error_type": error_type}


def test_ids_follow_the_order_of_the_samples(tmp_path: Path) -> None:
    path = audit(tmp_path, entry("locomo_0_qa1"), entry("locomo_1_qa120", "INCOMPLETE"))
    assert load_overlay(path, SAMPLES) == {"conv-1-q001", "conv-2-q120"}


def test_a_wrong_citation_does_not_make_the_gold_wrong(tmp_path: Path) -> None:
    path = audit(tmp_path, entry("locomo_0_qa1", "WRONG_CITATION"), entry("locomo_0_qa2"))
    assert load_overlay(path, SAMPLES) == {"conv-1-q002"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("{}", "is not a JSON list"),
        ("[1]", "entry 0 of .* has no text field error_type"),
        ('[{"error_type": "X"}]', "entry 0 of .* has no text field question_id"),
        ('[{"error_type": "X", "question_id": "q1"}]', "has the id 'q1'"),
        ('[{"error_type": "X", "question_id": "locomo_2_qa0"}]', "disputes sample 2.* has 2 samples"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused_in_one_sentence(
    tmp_path: Path, content: str, said: str
) -> None:
    path = tmp_path / "errors.json"
    path.write_text(content)
    with pytest.raises(OverlayError, match=said):
        load_overlay(path, SAMPLES)


def test_a_missing_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OverlayError, match="cannot read"):
        load_overlay(tmp_path / "nowhere.json", SAMPLES)


def test_accuracy_is_shown_on_all_and_without_the_disputed(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run")
    figures = run_figures(read_run(run.path))
    # Question 3 is wrong under memory in both samples; question 1 is right everywhere.
    disputed = frozenset({"orchard-q003", "harbour-q003", "orchard-q001", "elsewhere-q001"})
    rows = [undisputed_row(group.score, disputed) for group in figures.groups]
    assert [(row.correct, row.judged) for row in rows if row] == [(1, 9), (7, 9)]
    lines = disputed_lines(figures, disputed)
    assert any("66.7 % (8/12)" in line.text and "77.8 % (7/9)" in line.text for line in lines)
    assert disputed_lines(figures, frozenset()) == []


def test_the_published_audit_disputes_99_questions_that_are_asked() -> None:
    folder = os.environ.get("DSHMEM_DATA")
    path = Path(folder or "", "locomo", "audit_errors.json")
    if not folder or not path.is_file():
        pytest.skip("DSHMEM_DATA names no folder with the published audit")
    samples = [f"conv-{number}" for number in (26, 30, 41, 42, 43, 44, 47, 48, 49, 50)]
    disputed = load_overlay(path, samples)
    assert len(disputed) == 99
    assert "conv-26-q002" in disputed
    assert "conv-26-q001" not in disputed
