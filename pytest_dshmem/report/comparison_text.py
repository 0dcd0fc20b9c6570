"""A comparison as text for a terminal of 80 columns."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from pytest_dshmem.experiment.scoring import ScoreRow
from pytest_dshmem.experiment.statistics import PairedComparison
from pytest_dshmem.report import numbers
from pytest_dshmem.report.compare import Change, Difference, Paired
from pytest_dshmem.report.comparison_figures import ComparisonFigures, Side
from pytest_dshmem.report.lines import BLANK, Line, Row, Style, heading, paragraph, table

Measured = tuple[str, Callable[[Side], str]]


def comparison_lines(figures: ComparisonFigures) -> list[Line]:
    """The whole comparison: sides, accuracy, pairs, cost and memory, changed questions."""
    lines = [heading("comparison")]
    for warning in figures.warnings:
        lines += paragraph(warning, "warning")
    for side in figures.sides:
        lines += paragraph(f"{side.letter}  {side.unit.label}", indent=2)
    lines += _differences("what differs", figures.compared, "dim")
    lines += _differences("compared by force though these differ", figures.overridden, "warning")
    lines += [BLANK, *_accuracy(figures)]
    for side, paired, words in figures.pairs:
        lines += [BLANK, *_pair(figures.sides[0], side, paired), BLANK, *paragraph(words, indent=2)]
    lines += [BLANK, *_cost_and_memory(figures)]
    for side, paired, _ in figures.pairs:
        lines += [BLANK, *_changes(figures.sides[0], side, paired)]
    for warning in figures.warnings:
        lines += paragraph(warning, "warning")
    return lines


def _differences(title: str, differences: Sequence[Difference], style: Style) -> list[Line]:
    if not differences:
        return []
    return paragraph(f"{title}: {'; '.join(map(str, differences))}", style, indent=2)


def _accuracy(figures: ComparisonFigures) -> list[Line]:
    rows = [Row(("accuracy", *(side.letter for side in figures.sides)), "heading")]
    for category in figures.categories:
        rows.append(Row((category, *(rate(side.score.row(category)) for side in figures.sides))))
    rows.append(Row(("total", *(rate(side.score.total) for side in figures.sides)), "heading"))
    return table(rows)


def rate(row: ScoreRow | None) -> str:
    """An accuracy with what it was divided by."""
    if row is None or not row.judged:
        return numbers.NOTHING
    return f"{numbers.percent(row.accuracy)} ({row.correct:,}/{row.judged:,})"


def _pair(first: Side, second: Side, paired: Paired) -> list[Line]:
    names = (f"{second.letter} against {first.letter}", "pairs", "both", f"only {first.letter}")
    rows = [Row((*names, f"only {second.letter}", "neither", "points", "McNemar p"), "heading")]
    for category, comparison in paired.by_category.items():
        rows.append(Row(_pair_cells(category, comparison)))
    rows.append(Row(_pair_cells("total", paired.total), "heading"))
    lines = table(rows)
    if paired.unpaired:
        lines += paragraph(
            f"{paired.unpaired} selected questions were not judged in both", "warning", indent=2
        )
    return lines


def _pair_cells(label: str, paired: PairedComparison) -> tuple[str, ...]:
    counts = (paired.n, paired.both_right, paired.only_a, paired.only_b, paired.both_wrong)
    points = numbers.NOTHING if paired.difference is None else f"{100 * paired.difference:+.1f}"
    return (label, *(f"{count:,}" for count in counts), points, p_value(paired.p_value))


def p_value(p: float) -> str:
    """A p-value with three decimals, or that it is smaller."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def measures(figures: ComparisonFigures) -> tuple[Measured, ...]:
    """Cost, latency and memory of a side, each with its label."""
    currency = "" if figures.prices is None else figures.prices.currency

    def tokens(side: Side, with_formation: bool) -> str:
        cost = side.ledger.question_with_formation if with_formation else side.ledger.question
        return numbers.NOTHING if cost is None else numbers.whole(cost.tokens, cost.tokens_at_least)

    def money(side: Side, with_formation: bool) -> str:
        cost = side.ledger.question_with_formation if with_formation else side.ledger.question
        return numbers.NOTHING if cost is None else numbers.money(cost.money, currency, cost.money_at_least)

    return (
        ("tokens a question", lambda side: tokens(side, False)),
        ("tokens, with forming", lambda side: tokens(side, True)),
        ("money a question", lambda side: money(side, False)),
        ("money, with forming", lambda side: money(side, True)),
        ("seconds a question, median", lambda s: numbers.duration(s.ledger.phases["qa"].seconds.median)),
        ("seconds a question, p90", lambda s: numbers.duration(s.ledger.phases["qa"].seconds.p90)),
        ("forming a memory, median", lambda s: numbers.duration(s.ledger.formation_seconds.median)),
        ("memory, median bytes", lambda s: _if_formed(s, numbers.size(s.memory.bytes.median))),
        ("memory, median tokens", lambda s: _if_formed(s, numbers.whole(s.memory.tokens.median))),
        ("history / memory", lambda s: compression(s.memory.compression)),
        ("prompt tokens, median", lambda s: numbers.whole(s.memory.prompt_tokens.median)),
        ("files opened, mean", _mean_opened),
    )


def compression(ratio: float | None) -> str:
    """How many times smaller the memory is than the history."""
    return numbers.NOTHING if ratio is None else f"{ratio:.1f} : 1"


def _if_formed(side: Side, text: str) -> str:
    return text if side.memory.formations else numbers.NOTHING


def _mean_opened(side: Side) -> str:
    asked = len(side.unit.reading.hypotheses)
    total = side.memory.opened.total
    return numbers.NOTHING if not asked or total is None else f"{total / asked:.2f}"


def _cost_and_memory(figures: ComparisonFigures) -> list[Line]:
    rows = [Row(("cost and memory", *(side.letter for side in figures.sides)), "heading")]
    rows += [Row((label, *(of(side) for side in figures.sides))) for label, of in measures(figures)]
    tokenizers = sorted({side.memory.tokenizer for side in figures.sides})
    return [*table(rows), *paragraph(f"memory tokens counted with {', '.join(tokenizers)}", "dim", indent=2)]


def _changes(first: Side, second: Side, paired: Paired) -> list[Line]:
    won = [change for change in paired.changes if change.second]
    lost = [change for change in paired.changes if change.first]
    return [
        *_change_list(f"right in {first.letter} and wrong in {second.letter}", lost, "bad"),
        *_change_list(f"wrong in {first.letter} and right in {second.letter}", won, "good"),
    ]


def _change_list(title: str, changes: Sequence[Change], style: Style) -> Iterator[Line]:
    yield Line(f"  {title}: {len(changes)}", style)
    for category, ids in _by_category(changes):
        yield from paragraph(f"{category}: {', '.join(ids)}", indent=4)


def _by_category(changes: Sequence[Change]) -> Iterable[tuple[str, list[str]]]:
    for category in dict.fromkeys(change.category for change in changes):
        yield category, [change.question_id for change in changes if change.category == category]
