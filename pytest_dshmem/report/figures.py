"""All figures of a run, computed once: what the terminal, the JSON and the HTML report show.

Accuracy belongs to one condition in one repeat, since repeats of a question are no new questions. Cost
belongs to a condition with all its repeats, and to the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from pytest_dshmem.experiment.judging.official_metrics import OfficialMetrics
from pytest_dshmem.experiment.scoring import (
    ANSWERED,
    ItemScore,
    ScoreError,
    ScoreTable,
    official_scores,
    score,
)
from pytest_dshmem.experiment.statistics import Spread, spread
from pytest_dshmem.experiment.tokenizer import Tokenizer, find_tokenizer, remembering
from pytest_dshmem.record.run_directory import RunDirectory
from pytest_dshmem.report.ledger import Ledger, account, ledger, question_items
from pytest_dshmem.report.memory_figures import MemoryFigures, memory_figures
from pytest_dshmem.report.prices import Prices
from pytest_dshmem.report.provenance import Provenance, provenance
from pytest_dshmem.report.reading import Group, RunReading

LOCOMO = "locomo"
LONGMEMEVAL = "longmemeval"


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """Accuracy of one condition in one repeat. `official` is there for LongMemEval only."""

    group: Group
    score: ScoreTable
    official: OfficialMetrics | None


@dataclass(frozen=True, slots=True)
class ConditionFigures:
    """One condition. `spread` is that of total accuracy over its repeats, None where there is one repeat."""

    condition: str
    groups: tuple[GroupFigures, ...]
    spread: Spread | None
    ledger: Ledger
    memory: MemoryFigures


@dataclass(frozen=True, slots=True)
class RunFigures:
    """A run. `ledger` is over all conditions; `torn` counts lines that a crash cut short, by file."""

    provenance: Provenance
    conditions: tuple[ConditionFigures, ...]
    categories: tuple[str, ...]
    ledger: Ledger
    prices: Prices | None
    torn: Mapping[str, int]

    @property
    def groups(self) -> tuple[GroupFigures, ...]:
        return tuple(group for condition in self.conditions for group in condition.groups)


@dataclass(frozen=True, slots=True)
class QuestionFigures:
    """One selected question, from asking to verdict. Texts are empty where the run does not hold them.

    `tokens` is None where none were seen, and a lower bound where `tokens_at_least`. `money` is None where it
    is not known in full.
    """

    item: ItemScore
    question: str
    gold: str
    hypothesis: str
    reason: str
    opened: tuple[str, ...]
    prompt_tokens: int | None
    attempts: int
    calls: int
    seconds: float
    tokens: float | None
    tokens_at_least: bool
    money: Decimal | None


def run_figures(
    reading: RunReading, prices: Prices | None = None, tokenizer: Tokenizer | None = None
) -> RunFigures:
    """All figures of a reading."""
    tokenizer = tokenizer or find_tokenizer()
    conditions = tuple(_condition(reading, name, prices, tokenizer) for name in reading.conditions)
    return RunFigures(
        provenance=provenance(reading),
        conditions=conditions,
        categories=reading.categories,
        ledger=conditions[0].ledger if len(conditions) == 1 else ledger(reading, prices),
        prices=prices,
        torn=reading.torn,
    )


def figures_kept_in(run: RunDirectory, reading: RunReading, prices: Prices | None = None) -> RunFigures:
    """All figures of the reading of a run. What was counted for it before is not counted again."""
    tokenizer = find_tokenizer()
    kept = run.token_counts(tokenizer.name)
    counts = dict(kept)
    figures = run_figures(reading, prices, remembering(tokenizer, counts))
    if counts != kept:
        run.keep_token_counts(tokenizer.name, counts)
    return figures


def score_table(reading: RunReading, group: Group) -> ScoreTable:
    """The accuracy of one condition in one repeat."""
    narrowed = reading.of(group)
    return score(
        narrowed.selected,
        narrowed.hypotheses,
        narrowed.verdicts,
        narrowed.references,
        categories=reading.categories,
        failed_formations=[key for key, entry in narrowed.formations.items() if entry.state == "failed"],
        f1_rule="locomo" if reading.setting("benchmark") == LOCOMO else "plain",
    )


def question_figures(
    reading: RunReading, group: Group, prices: Prices | None = None
) -> tuple[QuestionFigures, ...]:
    """Every selected question of one condition in one repeat, in the order of the selection."""
    narrowed = reading.of(group)
    work = question_items(narrowed)
    found = []
    for item in score_table(reading, group).items:
        key = item.selected.key
        hypothesis = narrowed.hypotheses.get(key)
        verdict = narrowed.verdicts.get(key)
        reference = narrowed.references.get(key.question_id)
        spent = account([work[key]] if key in work else [], prices)
        why = (verdict.reason if verdict and item.state in ANSWERED else None) or (
            hypothesis.reason if hypothesis else None
        )
        found.append(
            QuestionFigures(
                item=item,
                question=reference.question if reference else "",
                gold=reference.gold if reference else "",
                hypothesis=hypothesis.hypothesis if hypothesis else "",
                reason=why or "",
                opened=hypothesis.opened if hypothesis else (),
                prompt_tokens=hypothesis.prompt_tokens if hypothesis else None,
                attempts=work[key].attempts if key in work else 0,
                calls=int(spent.calls.total or 0),
                seconds=spent.seconds.total or 0.0,
                tokens=spent.tokens.total,
                tokens_at_least=spent.at_least,
                money=spent.cost.known if spent.cost and spent.cost.complete else None,
            )
        )
    return tuple(found)


def _condition(
    reading: RunReading, condition: str, prices: Prices | None, tokenizer: Tokenizer
) -> ConditionFigures:
    narrowed = reading.narrowed(condition)
    groups = tuple(_group(reading, group) for group in narrowed.groups)
    accuracies = [g.score.total.accuracy for g in groups if g.score.total.accuracy is not None]
    return ConditionFigures(
        condition=condition,
        groups=groups,
        spread=spread(accuracies) if len(groups) > 1 else None,
        ledger=ledger(narrowed, prices),
        memory=memory_figures(narrowed, tokenizer),
    )


def _group(reading: RunReading, group: Group) -> GroupFigures:
    table = score_table(reading, group)
    return GroupFigures(group, table, _official(reading, table))


def _official(reading: RunReading, table: ScoreTable) -> OfficialMetrics | None:
    if reading.setting("benchmark") != LONGMEMEVAL:
        return None
    try:
        return official_scores(table.items)
    except ScoreError:
        return None
