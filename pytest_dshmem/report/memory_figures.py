"""How large the frozen memory is, what of it came into the context, and how that goes with accuracy.

Tokens are counted with the tokenizer that is named with them. A file that is no UTF-8 text has no tokens:
None, not 0. Compression is tokens of raw history over tokens of frozen memory, only where both were counted
with the same tokenizer.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_dshmem.experiment.freezing import FILES
from pytest_dshmem.experiment.tokenizer import Tokenizer, find_tokenizer
from pytest_dshmem.record.entries import Formation, FormationKey, Hypothesis, MemoryFile
from pytest_dshmem.record.run_directory import RunDirectory
from pytest_dshmem.report.ledger import Measure, measure
from pytest_dshmem.report.reading import RunReading


@dataclass(frozen=True, slots=True)
class Rights:
    """Questions of one kind: how many, how many of them were judged, how many were right."""

    label: str
    questions: int
    judged: int
    correct: int

    @property
    def accuracy(self) -> float | None:
        return self.correct / self.judged if self.judged else None


@dataclass(frozen=True, slots=True)
class FileSize:
    """One frozen file. `tokens` is None where it is no text or is not in the snapshot any more."""

    root: str
    path: str
    bytes: int
    tokens: int | None


@dataclass(frozen=True, slots=True)
class Part:
    """The files of one place: `dsh-home/memory` are those in that folder, `dsh-home/memory/*` those below it.

    So a system that keeps global memory at the top and a folder for each workspace shows the two apart.
    """

    name: str
    files: int
    bytes: int
    tokens: int | None


@dataclass(frozen=True, slots=True)
class FrozenMemory:
    """The memory of one formation beside the history it was formed from, and how its questions went."""

    key: FormationKey
    files: tuple[FileSize, ...]
    bytes: int
    tokens: int | None
    history_tokens: int | None
    compression: float | None
    rights: Rights


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """All frozen memories of a reading. `history_tokenizer` is None where the manifest names none.

    `prompt_tokens` and `opened` are over the questions that were asked and for which they are known.
    `opened_files` counts, for each file, the questions that opened it.
    """

    tokenizer: str
    history_tokenizer: str | None
    formations: tuple[FrozenMemory, ...]
    parts: tuple[Part, ...]
    bytes: Measure
    tokens: Measure
    history_tokens: int | None
    compression: float | None
    prompt_tokens: Measure
    opened: Measure
    opened_files: Mapping[str, int]
    by_opened: tuple[Rights, ...]
    by_prompt_tokens: tuple[Rights, ...]


def memory_figures(reading: RunReading, tokenizer: Tokenizer | None = None) -> MemoryFigures:
    """The memory figures of a reading; its snapshots are read from the run's folder."""
    tokenizer = tokenizer or find_tokenizer()
    counted_with = _text_or_none(reading.manifest.facts.get("tokenizer"))
    asked_of = _by_formation(reading.hypotheses.values())
    frozen = tuple(
        _frozen_memory(reading, formation, tokenizer, asked_of)
        for formation in reading.formations.values()
        if formation.state == "frozen"
    )
    asked = list(reading.hypotheses.values())
    known_prompts = [h for h in asked if h.prompt_tokens is not None]
    files = [file for memory in frozen for file in memory.files]
    tokens = _sum_or_none(memory.tokens for memory in frozen)
    history = _sum_or_none(memory.history_tokens for memory in frozen)
    return MemoryFigures(
        tokenizer=tokenizer.name,
        history_tokenizer=counted_with,
        formations=frozen,
        parts=_parts(files),
        bytes=measure([memory.bytes for memory in frozen]),
        tokens=measure([memory.tokens for memory in frozen if memory.tokens is not None]),
        history_tokens=history,
        compression=_compression(history, tokens, counted_with == tokenizer.name),
        prompt_tokens=measure([h.prompt_tokens or 0 for h in known_prompts]),
        opened=measure([len(h.opened) for h in asked]),
        opened_files=dict(Counter(path for h in asked for path in dict.fromkeys(h.opened)).most_common()),
        by_opened=_by(reading, asked, lambda h: min(len(h.opened), 3), _opened_label),
        by_prompt_tokens=_by_prompt_tokens(reading, known_prompts),
    )


def rights(reading: RunReading, label: str, hypotheses: Iterable[Hypothesis]) -> Rights:
    """How the questions behind some hypotheses were judged."""
    asked = list(hypotheses)
    verdicts = [reading.verdicts[h.key] for h in asked if h.key in reading.verdicts]
    judged = [verdict for verdict in verdicts if verdict.state == "judged"]
    return Rights(label, len(asked), len(judged), sum(verdict.correct is True for verdict in judged))


def _frozen_memory(
    reading: RunReading,
    formation: Formation,
    tokenizer: Tokenizer,
    asked: Mapping[FormationKey, Sequence[Hypothesis]],
) -> FrozenMemory:
    key = formation.key
    snapshot = RunDirectory(reading.path).snapshot_folder(key)
    files = tuple(
        FileSize(file.root, file.path, file.bytes, _file_tokens(snapshot, file, tokenizer))
        for file in formation.files
    )
    tokens = _sum_or_none(file.tokens for file in files)
    facts = reading.manifest.facts
    history = _history_tokens(facts.get("history_tokens"), key.sample_id)
    return FrozenMemory(
        key=key,
        files=files,
        bytes=sum(file.bytes for file in files),
        tokens=tokens,
        history_tokens=history,
        compression=_compression(history, tokens, facts.get("tokenizer") == tokenizer.name),
        rights=rights(reading, key.sample_id, asked.get(key, ())),
    )


def _by_formation(hypotheses: Iterable[Hypothesis]) -> dict[FormationKey, list[Hypothesis]]:
    found: dict[FormationKey, list[Hypothesis]] = {}
    for hypothesis in hypotheses:
        key = FormationKey(
            sample_id=hypothesis.sample_id, condition=hypothesis.key.condition, repeat=hypothesis.key.repeat
        )
        found.setdefault(key, []).append(hypothesis)
    return found


def _file_tokens(snapshot: Path, file: MemoryFile, tokenizer: Tokenizer) -> int | None:
    place = PurePosixPath(file.root, file.path)
    if place.is_absolute() or ".." in place.parts:
        return None
    try:
        return tokenizer.count_tokens((snapshot / FILES / place).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


def _history_tokens(counts: Any, sample_id: str) -> int | None:
    count = counts.get(sample_id) if isinstance(counts, Mapping) else None
    return count if isinstance(count, int) else None


def _parts(files: Sequence[FileSize]) -> tuple[Part, ...]:
    places: dict[str, list[FileSize]] = {}
    for file in files:
        places.setdefault(_place(file), []).append(file)
    return tuple(
        Part(name, len(group), sum(f.bytes for f in group), _sum_or_none(f.tokens for f in group))
        for name, group in sorted(places.items())
    )


def _place(file: FileSize) -> str:
    folders = PurePosixPath(file.path).parent.parts
    top = "/".join((file.root, *folders[:1]))
    return f"{top}/*" if len(folders) > 1 else top


def _by(
    reading: RunReading,
    hypotheses: Iterable[Hypothesis],
    kind: Callable[[Hypothesis], int],
    label: Callable[[int], str],
) -> tuple[Rights, ...]:
    kinds: dict[int, list[Hypothesis]] = {}
    for hypothesis in hypotheses:
        kinds.setdefault(kind(hypothesis), []).append(hypothesis)
    return tuple(rights(reading, label(number), kinds[number]) for number in sorted(kinds))


def _opened_label(number: int) -> str:
    return {0: "no file opened", 1: "1 file opened", 2: "2 files opened"}.get(
        number, "3 or more files opened"
    )


def _by_prompt_tokens(reading: RunReading, hypotheses: Sequence[Hypothesis]) -> tuple[Rights, ...]:
    """Questions in up to four groups of about equal number, from the shortest prompts to the longest."""
    if len(hypotheses) < 2:
        return ()
    lengths = [h.prompt_tokens or 0 for h in hypotheses]
    bounds = sorted({*statistics.quantiles(lengths, n=4, method="inclusive"), max(lengths)})

    def group(hypothesis: Hypothesis) -> int:
        return next(i for i, bound in enumerate(bounds) if (hypothesis.prompt_tokens or 0) <= bound)

    return _by(reading, hypotheses, group, lambda number: f"up to {bounds[number]:,.0f} prompt tokens")


def _compression(history: int | None, memory: int | None, comparable: bool) -> float | None:
    return history / memory if comparable and history and memory else None


def _sum_or_none(counts: Iterable[int | None]) -> int | None:
    """The sum, or None where a part of it is unknown or there is no part at all."""
    known = list(counts)
    return sum(c for c in known if c is not None) if known and None not in known else None


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None
