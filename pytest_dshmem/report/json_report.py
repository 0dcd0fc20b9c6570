"""The figures of a run as plain JSON values: the same as in the terminal, not rounded."""

import dataclasses
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from pytest_dshmem.experiment.tokenizer import Tokenizer
from pytest_dshmem.report.figures import QuestionFigures, RunFigures, question_figures, run_figures
from pytest_dshmem.report.prices import Prices
from pytest_dshmem.report.reading import RunReading

FORMAT = 1


def report_document(
    reading: RunReading,
    prices: Prices | None = None,
    *,
    tokenizer: Tokenizer | None = None,
    questions: bool = True,
    texts: bool = True,
) -> dict[str, Any]:
    """All figures of a reading as JSON values; amounts of money are decimal numbers in strings.

    `questions` adds every question with its verdict and cost, without `texts` neither question nor gold.
    Tokens of memory are counted with `tokenizer`, or else the best that there is on this machine.
    """
    document = figures_document(run_figures(reading, prices, tokenizer))
    if questions:
        document["questions"] = [
            _question(figures, texts)
            for group in reading.groups
            for figures in question_figures(reading, group, prices)
        ]
    return document


def figures_document(figures: RunFigures) -> dict[str, Any]:
    """Figures that were computed already, as JSON values."""
    return {
        "format": FORMAT,
        "provenance": plain(figures.provenance),
        "categories": plain(figures.categories),
        "conditions": [
            {
                "condition": condition.condition,
                "repeats": [
                    {
                        "repeat": group.group.repeat,
                        "protocol": group.score.protocol,
                        "total": _row(group.score.total) if figures.provenance.publishes_total else None,
                        "categories": [_row(row) for row in group.score.rows],
                        "official": plain(group.official),
                    }
                    for group in condition.groups
                ],
                "spread": plain(condition.spread),
                "cost": plain(condition.ledger),
                "memory": plain(condition.memory),
            }
            for condition in figures.conditions
        ],
        "cost": plain(figures.ledger),
        "prices": None if figures.prices is None else figures.prices.as_record(),
        "torn_lines": plain(figures.torn),
    }


def plain(value: Any) -> Any:
    """Dataclasses and records as dicts, tuples as lists, amounts of money as strings; the rest as it is."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return str(value) if isinstance(value, Decimal) else value


def _row(row: Any) -> dict[str, Any]:
    return {**plain(row), "accuracy": row.accuracy}


def _question(figures: QuestionFigures, texts: bool) -> dict[str, Any]:
    selected = figures.item.selected
    shown = plain(figures)
    del shown["item"]
    if not texts:
        del shown["question"], shown["gold"]
    return {
        "id": selected.id,
        "question_id": selected.key.question_id,
        "condition": selected.key.condition,
        "repeat": selected.key.repeat,
        "sample": selected.sample_id,
        "category": selected.category,
        "abstention": selected.abstention,
        "state": figures.item.state,
        "f1": figures.item.f1,
        **shown,
    }
