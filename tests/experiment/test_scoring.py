"""The accuracy table: what was divided by what, and where everything else went."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_dshmem.experiment.scoring import ScoreError, ScoreTable, official_scores, score, score_row
from pytest_dshmem.experiment.statistics import Interval, NoInterval, wilson_interval
from pytest_dshmem.experiment.token_f1 import token_f1
from pytest_dshmem.record.entries import (
    FormationKey,
    Hypothesis,
    QuestionKey,
    ReferenceText,
    Selected,
    Verdict,
)

ENDINGS = [
    "correct",
    "wrong",
    "unparsed",
    "judge-error",
    "unjudged",
    "missing",
    "not-formed",
    "empty",
    "error",
    "timeout",
    "blocked",
    "max-tokens",
    "context-overflow",
    "contaminated",
]


def table_of(endings: list[tuple[str, str]], protocol: str = "p") -> ScoreTable:
    """A table of questions that ended so: (category, ending)."""
    selected, hypotheses, verdicts, references = [], {}, {}, {}
    failed: set[FormationKey] = set()
    for number, (category, ending) in enumerate(endings):
        sample = f"lost-{number}" if ending == "not-formed" else f"s{number % 4}"
        key = QuestionKey(question_id=f"q{number}", condition="memory")
        selected.append(Selected(id=f"q{number}", key=key, sample_id=sample, category=category))
        references[f"q{number}"] = ReferenceText(
            question_id=f"q{number}", asked_on="", question="?", gold="red beans", category=category
        )
        if ending == "not-formed":
            failed.add(FormationKey(sample_id=sample, condition="memory"))
            continue
        if ending == "missing":
            continue
        answered = ending in ENDINGS[:5]
        hypotheses[key] = Hypothesis.model_validate(
            {
                "key": key,
                "sample_id": sample,
                "state": "answered" if answered else ending,
                "hypothesis": "beans" if answered else "",
                "started_at": 0.0,
                "seconds": 1.0,
            }
        )
        if ending in ENDINGS[:4]:
            verdicts[key] = _verdict(key, ending, protocol)
    return score(selected, hypotheses, verdicts, references, categories=("a", "b"), failed_formations=failed)


def _verdict(key: QuestionKey, ending: str, protocol: str) -> Verdict:
    state = {"correct": "judged", "wrong": "judged", "unparsed": "unparsed", "judge-error": "error"}[ending]
    correct: Mapping[str, bool] = {"correct": True, "wrong": False}
    return Verdict.model_validate(
        {"key": key, "protocol": protocol, "cache_key": "c", "state": state, "correct": correct.get(ending)}
    )


def test_only_what_was_judged_is_in_the_accuracy() -> None:
    total = table_of([("a", ending) for ending in [*ENDINGS, "correct", "correct"]]).total
    assert (total.selected, total.answered, total.judged, total.correct) == (16, 7, 4, 3)
    assert total.accuracy == 0.75
    assert (total.unparsed, total.judge_errors, total.unjudged) == (1, 1, 1)
    assert total.not_answered == dict.fromkeys(ENDINGS[5:], 1)
    assert total.interval == wilson_interval(3, 4)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(ENDINGS)), max_size=60))
def test_every_question_is_counted_once_and_rows_add_up(endings: list[tuple[str, str]]) -> None:
    table = table_of(endings)
    for row in (*table.rows, table.total):
        assert row.selected == row.answered + sum(row.not_answered.values())
        assert row.answered == row.judged + row.unparsed + row.judge_errors + row.unjudged
        said = [ending for category, ending in endings if row.label in {category, "total"}]
        assert row.correct == said.count("correct")
        assert row.judged == said.count("correct") + said.count("wrong")
    for name in ("selected", "answered", "judged", "correct"):
        assert sum(getattr(row, name) for row in table.rows) == getattr(table.total, name)
    assert [item.state for item in table.items] == [ending for _, ending in endings]


def test_rows_come_in_the_order_of_the_benchmark_and_empty_ones_not_at_all() -> None:
    table = table_of([("c", "correct"), ("b", "wrong"), ("b", "correct")])
    assert [row.label for row in table.rows] == ["b", "c"]


def test_nothing_judged_means_no_accuracy_rather_than_zero() -> None:
    total = table_of([("a", "timeout")]).total
    assert (total.accuracy, total.f1) == (None, None)
    assert isinstance(total.interval, NoInterval)
    empty = table_of([])
    assert (empty.total.selected, empty.rows, empty.condition) == (0, (), None)


def test_questions_of_one_sample_are_one_cluster() -> None:
    total = table_of([("a", "correct" if n % 4 < 2 else "wrong") for n in range(16)]).total
    assert isinstance(total.by_cluster, Interval)
    assert isinstance(total.interval, Interval)
    assert total.by_cluster.high - total.by_cluster.low > total.interval.high - total.interval.low


def test_f1_is_a_mean_over_the_answered() -> None:
    total = table_of([("a", "correct"), ("a", "unjudged"), ("a", "timeout")]).total
    assert total.f1 == pytest.approx(2 / 3)


def test_a_row_can_be_made_of_any_part() -> None:
    table = table_of([("a", "correct"), ("a", "wrong"), ("b", "wrong")])
    undisputed = score_row("undisputed", table.items[:2])
    assert (undisputed.judged, undisputed.accuracy) == (2, 0.5)


def test_protocols_and_conditions_are_never_mixed() -> None:
    keys = [QuestionKey(question_id="q", condition=condition) for condition in ("memory", "baseline")]
    selected = [Selected(id="q", key=key, sample_id="s", category="a") for key in keys]
    with pytest.raises(ScoreError, match="conditions"):
        score(selected, {}, {}, {})
    two = [
        Selected(id=f"q{n}", key=QuestionKey(question_id=f"q{n}", condition="m"), sample_id="s", category="a")
        for n in range(2)
    ]
    verdicts = {one.key: _verdict(one.key, "correct", f"p{n}") for n, one in enumerate(two)}
    with pytest.raises(ScoreError, match="judge protocols, not p0, p1"):
        score(two, {}, verdicts, {})


def test_official_figures_are_for_longmemeval_only() -> None:
    with pytest.raises(ScoreError, match="'a'"):
        official_scores(table_of([("a", "correct")]).items)


@pytest.mark.parametrize(
    ("hypothesis", "gold", "f1"),
    [
        ("the Red beans!", "red beans", 1.0),
        ("beans", "red beans", 2 / 3),
        ("salt and pepper", "pepper, salt", 1.0),
        ("peas", "beans", 0.0),
        ("", "beans", 0.0),
        ("the", "a", 0.0),
        ("beans beans", "beans", 2 / 3),
    ],
)
def test_token_f1(hypothesis: str, gold: str, f1: float) -> None:
    assert token_f1(hypothesis, gold, "single-hop") == pytest.approx(f1)


@pytest.mark.parametrize(
    ("category", "hypothesis", "gold", "f1"),
    [
        ("open-domain", "likely yes", "Likely yes; since she said so", 1.0),
        ("single-hop", "likely yes", "Likely yes; sure", 0.8),
        ("multi-hop", "beans, red peas", "red peas, beans", 1.0),
        ("multi-hop", "beans", "peas, beans", 0.5),
        ("multi-hop", "", "peas, beans", 0.0),
    ],
)
def test_locomos_rules_for_two_categories(category: str, hypothesis: str, gold: str, f1: float) -> None:
    assert token_f1(hypothesis, gold, category, "locomo") == pytest.approx(f1)


@given(st.text(), st.text(), st.sampled_from(["multi-hop", "open-domain", "temporal"]))
def test_f1_is_a_fraction_and_a_text_equals_itself(hypothesis: str, gold: str, category: str) -> None:
    assert 0 <= token_f1(hypothesis, gold, category, "locomo") <= 1
    assert token_f1(gold, gold, category) in (0.0, 1.0)
