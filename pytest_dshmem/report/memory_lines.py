"""The frozen memory in the terminal: how large, how much smaller than the history, what of it was used."""

from pytest_dshmem.report.ledger import Measure
from pytest_dshmem.report.lines import Line, entry
from pytest_dshmem.report.memory_figures import MemoryFigures, Rights
from pytest_dshmem.report.numbers import percent, plural, size, whole

MOST_OPENED = 3


def memory_section(memory: MemoryFigures) -> list[Line]:
    """Nothing for a condition that froze no memory, but for the tokens that its prompts took."""
    return [*_frozen(memory), *_context(memory)]


def _frozen(memory: MemoryFigures) -> list[Line]:
    if not memory.formations:
        return []
    formations = plural(len(memory.formations), "formation")
    lines = entry(
        "memory",
        f"{size(memory.bytes.median)}, {whole(memory.tokens.median)} tokens (median of {formations}; "
        f"counted with {memory.tokenizer})",
    )
    for part in memory.parts:
        text = f"{part.name}: {plural(part.files, 'file')}, {size(part.bytes)}, {whole(part.tokens)} tokens"
        lines += entry("", text, "dim")
    return lines + _compression(memory)


def _compression(memory: MemoryFigures) -> list[Line]:
    if memory.history_tokens is None:
        return []
    history = f"{memory.history_tokens:,} tokens in all"
    if memory.compression is not None:
        return entry("history", f"{history}, {memory.compression:.1f} times the memory")
    if memory.history_tokenizer != memory.tokenizer:
        other = memory.history_tokenizer or "an unnamed tokenizer"
        return entry("history", f"{history}, counted with {other}: not comparable with the memory's")
    return entry("history", history)


def _context(memory: MemoryFigures) -> list[Line]:
    lines: list[Line] = []
    if memory.prompt_tokens.median is not None:
        lines += entry("context", f"prompt tokens a question: {_spread(memory.prompt_tokens)}")
    if not memory.opened.total:
        return lines
    favourites = list(memory.opened_files.items())[:MOST_OPENED]
    most = ", ".join(f"{path} ({count:,})" for path, count in favourites)
    lines += entry("opened", f"files a question: {_spread(memory.opened)}; most often {most}")
    return lines + entry("", "; ".join(_told(rights) for rights in memory.by_opened))


def _spread(measure: Measure) -> str:
    return f"median {measure.median or 0:,.6g}, p90 {measure.p90 or 0:,.6g}"


def _told(rights: Rights) -> str:
    return f"{rights.label}: {percent(rights.accuracy)} correct ({rights.correct:,}/{rights.judged:,})"
