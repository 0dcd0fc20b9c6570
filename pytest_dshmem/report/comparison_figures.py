"""The figures of a comparison: each side's accuracy, cost, latency and memory, beside what changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_dshmem.experiment.comparison import describe_comparison
from pytest_dshmem.experiment.scoring import ScoreTable
from pytest_dshmem.experiment.tokenizer import Tokenizer, find_tokenizer
from pytest_dshmem.report.compare import Comparison, Difference, Paired, Unit
from pytest_dshmem.report.figures import score_table
from pytest_dshmem.report.json_report import plain
from pytest_dshmem.report.ledger import Ledger, ledger
from pytest_dshmem.report.memory_figures import MemoryFigures, memory_figures
from pytest_dshmem.report.prices import Prices
from pytest_dshmem.report.provenance import provenance


@dataclass(frozen=True, slots=True)
class Side:
    """One unit with its figures. `letter` is what tables call it."""

    letter: str
    unit: Unit
    score: ScoreTable
    ledger: Ledger
    memory: MemoryFigures


@dataclass(frozen=True, slots=True)
class ComparisonFigures:
    """A comparison, side by side; every pair is one side against the first, with its finding in words.

    `warnings` are what keeps a side's figures from being benchmark results.
    """

    sides: tuple[Side, ...]
    categories: tuple[str, ...]
    compared: tuple[Difference, ...]
    overridden: tuple[Difference, ...]
    pairs: tuple[tuple[Side, Paired, str], ...]
    warnings: tuple[str, ...]
    prices: Prices | None


def comparison_figures(
    comparison: Comparison, prices: Prices | None = None, tokenizer: Tokenizer | None = None
) -> ComparisonFigures:
    """Computes all figures of a comparison."""
    tokenizer = tokenizer or find_tokenizer()
    sides = tuple(
        _side(letter_of(place), unit, prices, tokenizer) for place, unit in enumerate(comparison.units)
    )
    return ComparisonFigures(
        sides=sides,
        categories=comparison.units[0].reading.categories,
        compared=comparison.compared,
        overridden=comparison.overridden,
        pairs=tuple(
            (side, paired, describe_comparison(paired.total, sides[0].letter, side.letter))
            for side, paired in zip(sides[1:], comparison.pairs, strict=True)
        ),
        warnings=_warnings(comparison.units),
        prices=prices,
    )


def letter_of(place: int) -> str:
    """A, B, C … for the sides of a comparison; after Z their number."""
    return chr(ord("A") + place) if place < 26 else str(place + 1)


def comparison_document(figures: ComparisonFigures) -> dict[str, Any]:
    """The figures as JSON values."""
    return {
        "sides": [
            {
                "name": side.letter,
                "run": side.unit.label,
                "run_id": side.unit.reading.manifest.run_id,
                "condition": side.unit.group.condition,
                "repeat": side.unit.group.repeat,
                "accuracy": {row.label: row.accuracy for row in (*side.score.rows, side.score.total)},
                "judged": {row.label: row.judged for row in (*side.score.rows, side.score.total)},
                "cost": plain(side.ledger),
                "memory": plain(side.memory),
            }
            for side in figures.sides
        ],
        "compared": plain(figures.compared),
        "overridden": plain(figures.overridden),
        "pairs": [
            {
                "first": figures.sides[0].letter,
                "second": side.letter,
                "finding": words,
                "total": plain(paired.total),
                "categories": plain(paired.by_category),
                "unpaired": paired.unpaired,
                "changes": plain(paired.changes),
            }
            for side, paired, words in figures.pairs
        ],
        "warnings": plain(figures.warnings),
    }


def _side(letter: str, unit: Unit, prices: Prices | None, tokenizer: Tokenizer) -> Side:
    return Side(
        letter=letter,
        unit=unit,
        score=score_table(unit.reading, unit.group),
        ledger=ledger(unit.reading, prices),
        memory=memory_figures(unit.reading, tokenizer),
    )


def _warnings(units: Sequence[Unit]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(w for unit in units for w in provenance(unit.reading).warnings))
