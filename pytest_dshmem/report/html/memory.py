"""How large the frozen memory is and what of it was used, against accuracy."""

from collections.abc import Iterable, Sequence

from pytest_dshmem.report import numbers
from pytest_dshmem.report.comparison_text import compression
from pytest_dshmem.report.html.charts import Point, legend, scatter_chart
from pytest_dshmem.report.html.content import PageContent
from pytest_dshmem.report.html.elements import Markup, element, together
from pytest_dshmem.report.html.tables import TableRow, table
from pytest_dshmem.report.memory_figures import FrozenMemory, MemoryFigures, Rights

FEW_FORMATIONS = 12
MOST_FILES = 12


def memory_section(content: PageContent) -> Markup | None:
    """None where no condition froze a memory and no prompt was counted."""
    figures = [(one.condition, one.memory) for one in content.figures.conditions]
    formed = [(name, memory) for name, memory in figures if memory.formations]
    if not formed:
        return None
    tokenizers = ", ".join(sorted({memory.tokenizer for _, memory in formed}))
    return element(
        "section",
        element("h2", "Memory against accuracy"),
        element("p", f"Tokens of memory counted with {tokenizers}; prompt tokens are the provider's own."),
        _sizes(formed),
        _scatter(content, formed),
        (_uses(name, memory) for name, memory in formed),
        (_formations(name, memory) for name, memory in formed),
    )


def _sizes(formed: Sequence[tuple[str, MemoryFigures]]) -> Markup:
    columns = [
        "condition",
        "memories",
        "bytes",
        "tokens",
        "history tokens",
        "history / memory",
        "prompt tokens",
        "files opened",
    ]
    rows = [
        TableRow(
            name,
            (
                f"{len(memory.formations):,}",
                numbers.size(memory.bytes.median),
                numbers.whole(memory.tokens.median),
                numbers.whole(memory.history_tokens),
                compression(memory.compression),
                numbers.whole(memory.prompt_tokens.median),
                numbers.whole(memory.opened.median),
            ),
        )
        for name, memory in formed
    ]
    return table("Size of memories and prompts (medians), and the whole history", columns, rows)


def _scatter(content: PageContent, formed: Sequence[tuple[str, MemoryFigures]]) -> Markup | None:
    points = [
        Point(content.series[name], f"{frozen.key.sample_id}, {name}", frozen.tokens, frozen.rights.accuracy)
        for name, memory in formed
        for frozen in memory.formations
        if frozen.tokens is not None and frozen.rights.accuracy is not None
    ]
    if len(points) < 2:
        return None
    return element(
        "figure",
        scatter_chart("Accuracy against size of memory", "tokens of frozen memory", points),
        legend({name: content.series[name] for name, _ in formed}) if len(formed) > 1 else None,
        element(
            "figcaption",
            "One dot for each memory: its tokens, and the accuracy of the questions asked on it.",
        ),
    )


def _uses(name: str, memory: MemoryFigures) -> Markup:
    accuracies = [
        _rights(f"Accuracy by files opened: {name}", "files", memory.by_opened),
        _rights(f"Accuracy by length of prompt: {name}", "prompt", memory.by_prompt_tokens),
    ]
    return together(element("div", accuracies, class_="side-by-side"), _opened(name, memory))


def _rights(caption: str, column: str, rights: Iterable[Rights]) -> Markup | None:
    rows = [
        TableRow(
            one.label,
            (f"{one.questions:,}", numbers.percent(one.accuracy), f"{one.correct:,} / {one.judged:,}"),
        )
        for one in rights
    ]
    return table(caption, [column, "questions", "accuracy", "right / judged"], rows) if rows else None


def _opened(name: str, memory: MemoryFigures) -> Markup | None:
    """The files that most questions opened; how many others there are is said."""
    most = list(memory.opened_files.items())
    rows = [TableRow(element("code", path), (f"{count:,}",)) for path, count in most[:MOST_FILES]]
    if len(most) > MOST_FILES:
        rows.append(
            TableRow(
                f"{len(most) - MOST_FILES:,} other files", (f"{sum(c for _, c in most[MOST_FILES:]):,}",)
            )
        )
    return table(f"Files opened: {name}", ["file", "questions"], rows) if rows else None


def _formations(name: str, memory: MemoryFigures) -> Markup:
    columns = [
        "sample",
        "files",
        "bytes",
        "tokens",
        "history tokens",
        "history / memory",
        "accuracy",
        "right / judged",
    ]
    caption = f"Every frozen memory: {name}"
    shown = table(caption, columns, [_formation(frozen) for frozen in memory.formations])
    if len(memory.formations) <= FEW_FORMATIONS:
        return shown
    return element("details", element("summary", f"{caption} ({len(memory.formations):,})"), shown)


def _formation(frozen: FrozenMemory) -> TableRow:
    return TableRow(
        frozen.key.sample_id
        if frozen.key.repeat == 1
        else f"{frozen.key.sample_id}, repeat {frozen.key.repeat}",
        (
            f"{len(frozen.files):,}",
            numbers.size(frozen.bytes),
            numbers.whole(frozen.tokens),
            numbers.whole(frozen.history_tokens),
            compression(frozen.compression),
            numbers.percent(frozen.rights.accuracy),
            f"{frozen.rights.correct:,} / {frozen.rights.judged:,}",
        ),
    )
