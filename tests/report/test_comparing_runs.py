"""Two runs are compared on the same questions only, and only where they measured the same thing."""

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_run import PROTOCOL, SAMPLES, synthetic_run

from pytest_dshmem.record.entries import QuestionKey
from pytest_dshmem.record.run_directory import RunDirectory
from pytest_dshmem.report.compare import CompareError, Comparison, compare_runs, units_of
from pytest_dshmem.report.comparison_figures import comparison_document, comparison_figures
from pytest_dshmem.report.comparison_text import comparison_lines
from pytest_dshmem.report.figures import run_figures
from pytest_dshmem.report.lines import WIDTH, columns
from pytest_dshmem.report.reading import read_run

MEMORY = ("memory-consolidate",)


def number(key: QuestionKey) -> int:
    return int(key.question_id.rsplit("q", 1)[1])


def odd(key: QuestionKey) -> bool:
    return number(key) % 2 == 1


def first_four(key: QuestionKey) -> bool:
    return number(key) <= 4


def run_of(folder: Path, correct: Callable[[QuestionKey], bool] = odd, **changes: object) -> RunDirectory:
    return synthetic_run(folder, **{"conditions": MEMORY, "correct": correct, **changes})  # type: ignore[arg-type]


def compared(*runs: RunDirectory, force: bool = False) -> tuple[Comparison, ...]:
    return compare_runs([read_run(run.path) for run in runs], force=force)


def test_every_question_falls_in_one_of_four_cells(tmp_path: Path) -> None:
    (comparison,) = compared(run_of(tmp_path / "a"), run_of(tmp_path / "b", first_four))
    (paired,) = comparison.pairs
    total = paired.total
    # Questions 1 and 3 are right in both, 5 only in the first, 2 and 4 only in the second; two samples each.
    assert (total.both_right, total.only_a, total.only_b, total.both_wrong) == (4, 2, 4, 2)
    assert total.n == 12
    assert sum(one.n for one in paired.by_category.values()) == total.n
    assert sum(one.only_b for one in paired.by_category.values()) == total.only_b


def test_questions_that_changed_are_named_with_both_verdicts(tmp_path: Path) -> None:
    (comparison,) = compared(run_of(tmp_path / "a"), run_of(tmp_path / "b", first_four))
    changes = comparison.pairs[0].changes
    assert {c.question_id for c in changes if c.first} == {"orchard-q005", "harbour-q005"}
    assert {c.question_id for c in changes if c.second} == {
        "orchard-q002",
        "orchard-q004",
        "harbour-q002",
        "harbour-q004",
    }
    assert all(change.first != change.second for change in changes)


def test_what_is_being_compared_may_differ_and_is_listed(tmp_path: Path) -> None:
    other = run_of(tmp_path / "b", settings={"memory_system.version": "2.0.0", "model.name": "another"})
    (comparison,) = compared(run_of(tmp_path / "a"), other)
    assert {difference.field for difference in comparison.compared} == {"memory_system.version", "model.name"}
    assert not comparison.overridden


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"settings": {"data.sha256": "1" * 64}}, "data.sha256"),
        ({"settings": {"benchmark": "longmemeval"}}, "benchmark"),
        ({"settings": {"ingestion.way": "replay"}}, "ingestion.way (transcript / replay)"),
        ({"settings": {"limits.question_seconds": 60}}, "limits.question_seconds (120 / 60)"),
        ({"protocol": "dshmem-binary-2-abcdefabcdef"}, "judge protocol"),
        ({"trouble": True}, "selection"),
    ],
)
def test_runs_that_measured_something_else_are_refused_by_name(
    tmp_path: Path, changes: dict[str, object], named: str
) -> None:
    first, second = run_of(tmp_path / "a"), run_of(tmp_path / "b", **changes)
    with pytest.raises(CompareError, match="not measurements of the same thing") as refused:
        compared(first, second)
    assert named in str(refused.value)
    (comparison,) = compared(first, second, force=True)
    assert any(named.startswith(difference.field) for difference in comparison.overridden)


def test_another_judge_model_is_refused_by_name(tmp_path: Path) -> None:
    first, second = run_of(tmp_path / "a"), run_of(tmp_path / "b")
    text = second.verdicts.path.read_text()
    second.verdicts.path.write_text(text.replace("synthetic-judge", "kinder-judge"))
    with pytest.raises(CompareError, match=r"judge model \(synthetic-judge / kinder-judge\) differs"):
        compared(first, second)


def test_the_conditions_of_one_run_are_compared_with_the_first(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run", conditions=("baseline", "memory", "memory-consolidate"))
    (comparison,) = compared(run)
    assert [unit.label for unit in comparison.units] == ["baseline", "memory", "memory-consolidate"]
    assert [pair.first.label for pair in comparison.pairs] == ["baseline", "baseline"]


def test_runs_with_several_conditions_are_compared_condition_by_condition(tmp_path: Path) -> None:
    found = compared(synthetic_run(tmp_path / "a"), synthetic_run(tmp_path / "b"))
    assert [[unit.label for unit in one.units] for one in found] == [
        ["a baseline", "b baseline"],
        ["a memory-consolidate", "b memory-consolidate"],
    ]


def test_one_condition_alone_leaves_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(CompareError, match="nothing to compare it with"):
        compared(run_of(tmp_path / "a"))


def test_what_was_not_judged_in_both_is_counted_and_left_out(tmp_path: Path) -> None:
    first = run_of(tmp_path / "a", trouble=True)
    second = run_of(tmp_path / "b", trouble=True)
    (comparison,) = compared(first, second)
    (paired,) = comparison.pairs
    assert paired.total.n == 12
    assert paired.unpaired == 7


def test_the_text_fits_the_terminal_and_says_what_cannot_be_shown(tmp_path: Path) -> None:
    long_name = tmp_path / ("a-rather-long-name-" * 6)
    (comparison,) = compared(run_of(long_name), run_of(tmp_path / "b", first_four))
    lines = comparison_lines(comparison_figures(comparison))
    text = "\n".join(line.text for line in lines)
    assert max(columns(line.text) for line in lines) <= WIDTH
    assert "these data do not show which one is better" in " ".join(text.split())
    assert "right in A and wrong in B: 2" in text
    assert "orchard-q005" in text


def test_the_document_holds_the_same_figures_as_the_text(tmp_path: Path) -> None:
    (comparison,) = compared(run_of(tmp_path / "a"), run_of(tmp_path / "b", first_four))
    document = comparison_document(comparison_figures(comparison))
    assert [side["accuracy"]["total"] for side in document["sides"]] == [0.5, 8 / 12]
    assert document["pairs"][0]["total"]["only_b"] == 4
    assert len(document["pairs"][0]["changes"]) == 6
    assert comparison.units[0].reading.protocol == PROTOCOL


@given(st.frozensets(st.tuples(st.sampled_from(SAMPLES), st.integers(1, 6))))
@settings(max_examples=15, deadline=None)
def test_two_ways_of_computing_every_accuracy_agree(right: frozenset[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        run = run_of(Path(folder, "run"), lambda key: (key.question_id.split("-")[0], number(key)) in right)
        reading = read_run(run.path)
        (group,) = run_figures(reading).groups
        (unit,) = units_of([reading])
        lines = [json.loads(line) for line in run.verdicts.path.read_text().splitlines()]
    category = {question: chosen.category for question, chosen in unit.questions.items()}
    for row in (*group.score.rows, group.score.total):
        wanted = (
            set(category) if row is group.score.total else {q for q in category if category[q] == row.label}
        )
        by_lines = [line["correct"] for line in lines if line["key"]["question_id"] in wanted]
        by_unit = [is_right for question, is_right in unit.verdicts.items() if question in wanted]
        assert row.judged == len(by_lines) == len(by_unit) > 0
        assert row.correct == sum(by_lines) == sum(by_unit)
        assert row.accuracy == sum(by_lines) / len(by_lines)
