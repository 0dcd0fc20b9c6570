"""From hypotheses and verdicts to a table in which every accuracy shows what it was divided by.

An error is not a wrong answer: what was not answered or not judged stands in columns of its own.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from pytest_dshmem.experiment.judging.official_metrics import Label, OfficialMetrics, official_metrics
from pytest_dshmem.experiment.statistics import Interval, NoInterval, cluster_interval, wilson_interval
from pytest_dshmem.experiment.token_f1 import F1Rule, token_f1
from pytest_dshmem.record.entries import (
    FormationKey,
    Hypothesis,
    HypothesisState,
    QuestionKey,
    ReferenceText,
    Selected,
    Verdict,
)

ItemState = (
    Literal["correct", "wrong", "unparsed", "judge-error", "unjudged", "not-formed", "missing"]
    | HypothesisState
)
"""Where an item ended: judged, answered only, or the state in which asking (or forming) ended."""

ANSWERED: frozenset[str] = frozenset({"correct", "wrong", "unparsed", "judge-error", "unjudged"})
JUDGED: frozenset[str] = frozenset({"correct", "wrong"})


class ScoreError(Exception):
    """Figures that cannot go into one table, in one sentence."""


@dataclass(frozen=True, slots=True)
class ItemScore:
    """One selected question and where it ended. `f1` is None where it was not answered."""

    selected: Selected
    state: ItemState
    f1: float | None = None


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """Counts of one category, or of all.

    `answered` = `judged` + `unparsed` + `judge_errors` + `unjudged`; `selected` = `answered` + all of
    `not_answered`, which counts by state (`missing`: never asked; `not-formed`: its memory failed to form).
    """

    label: str
    selected: int
    answered: int
    judged: int
    correct: int
    unparsed: int
    judge_errors: int
    unjudged: int
    not_answered: Mapping[str, int]
    interval: Interval | NoInterval
    """Wilson, as if every question stood alone."""
    by_cluster: Interval | NoInterval
    """With questions of one sample taken together."""
    f1: float | None
    """Mean token F1 over the answered."""

    @property
    def accuracy(self) -> float | None:
        """Correct over judged; None where nothing is judged."""
        return self.correct / self.judged if self.judged else None


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """One condition under one judge protocol: a row per category, the total, and the items behind them."""

    condition: str | None
    protocol: str | None
    rows: tuple[ScoreRow, ...]
    total: ScoreRow
    items: tuple[ItemScore, ...]

    def row(self, label: str) -> ScoreRow | None:
        """The row of a category, or the total; None for a category of which nothing was selected."""
        return next((row for row in (*self.rows, self.total) if row.label == label), None)


def score(
    selected: Sequence[Selected],
    hypotheses: Mapping[QuestionKey, Hypothesis],
    verdicts: Mapping[QuestionKey, Verdict],
    references: Mapping[str, ReferenceText],
    *,
    categories: Sequence[str] = (),
    failed_formations: Collection[FormationKey] = (),
    f1_rule: F1Rule = "plain",
) -> ScoreTable:
    """Score the selected questions of one condition.

    `hypotheses` and `verdicts` hold the latest of each key (see `judging.item.verdicts_for`), `references`
    go by question id. `categories` gives the order of the rows; others follow as they come.
    Raises ScoreError where conditions or protocols are mixed.
    """
    condition = _only(sorted({one.key.condition for one in selected}), "conditions")
    keys = {one.key for one in selected}
    protocol = _only(sorted({v.protocol for key, v in verdicts.items() if key in keys}), "judge protocols")
    items = tuple(
        ItemScore(
            selected=one,
            state=item_state(one, hypotheses.get(one.key), verdicts.get(one.key), failed_formations),
            f1=_item_f1(hypotheses.get(one.key), references.get(one.key.question_id), f1_rule),
        )
        for one in selected
    )
    order = dict.fromkeys([*categories, *(one.category for one in selected)])
    by_category = {name: [item for item in items if item.selected.category == name] for name in order}
    return ScoreTable(
        condition=condition,
        protocol=protocol,
        rows=tuple(score_row(name, group) for name, group in by_category.items() if group),
        total=score_row("total", items),
        items=items,
    )


def item_state(
    selected: Selected,
    hypothesis: Hypothesis | None,
    verdict: Verdict | None,
    failed_formations: Collection[FormationKey] = (),
) -> ItemState:
    """Where one selected question ended."""
    if hypothesis is None:
        key = selected.key
        formation = FormationKey(sample_id=selected.sample_id, condition=key.condition, repeat=key.repeat)
        return "not-formed" if formation in failed_formations else "missing"
    if not hypothesis.answered:
        return hypothesis.state
    if verdict is None:
        return "unjudged"
    if verdict.state == "judged":
        return "correct" if verdict.correct else "wrong"
    return "unparsed" if verdict.state == "unparsed" else "judge-error"


def score_row(label: str, items: Sequence[ItemScore]) -> ScoreRow:
    """Count the items of one row; also for a selection of one's own, such as the undisputed golds."""
    counts = Counter[str](item.state for item in items)
    judged = [item for item in items if item.state in JUDGED]
    f1 = [item.f1 for item in items if item.f1 is not None]
    return ScoreRow(
        label=label,
        selected=len(items),
        answered=sum(counts[state] for state in ANSWERED),
        judged=len(judged),
        correct=counts["correct"],
        unparsed=counts["unparsed"],
        judge_errors=counts["judge-error"],
        unjudged=counts["unjudged"],
        not_answered={state: n for state, n in sorted(counts.items()) if state not in ANSWERED},
        interval=wilson_interval(counts["correct"], len(judged)),
        by_cluster=cluster_interval(
            [(item.selected.sample_id, int(item.state == "correct")) for item in judged]
        ),
        f1=fmean(f1) if f1 else None,
    )


def official_scores(items: Iterable[ItemScore]) -> OfficialMetrics:
    """The official figures: all selected questions are counted, and only `correct` counts as true.

    They equal those of `print_qa_metrics.py` on the exported log. Raises ScoreError for other data than
    LongMemEval's.
    """
    try:
        return official_metrics(
            Label(item.selected.category, item.selected.abstention, item.state == "correct") for item in items
        )
    except KeyError as error:
        raise ScoreError(f"The official LongMemEval figures know no question type {error}.") from error


def _item_f1(hypothesis: Hypothesis | None, reference: ReferenceText | None, rule: F1Rule) -> float | None:
    if hypothesis is None or reference is None or not hypothesis.answered:
        return None
    return token_f1(hypothesis.hypothesis, reference.gold, reference.category, rule)


def _only(names: Sequence[str], what: str) -> str | None:
    if len(names) > 1:
        raise ScoreError(f"One table holds one of the {what}, not {', '.join(names)}: score each by itself.")
    return names[0] if names else None
