"""How large the histories are, in tokens: counted once for a file and kept, for a big file takes a minute."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_dshmem.datasets.cache import write_atomically
from pytest_dshmem.datasets.views import Benchmark, DataFile, History, Session
from pytest_dshmem.experiment.tokenizer import Tokenizer

FORMAT = 1
COUNTED_BETWEEN_WRITES = 50
"""So many histories are counted before the counts are written down: an interruption costs no more."""

Progress = Callable[[int, int], None]
"""Called with the number of histories counted so far, and of those to be counted now."""


@dataclass(frozen=True, slots=True)
class HistorySize:
    """Tokens of each session of one history, in order of the sessions."""

    sessions: tuple[int, ...]

    @property
    def tokens(self) -> int:
        return sum(self.sessions)


def history_size(history: History, tokenizer: Tokenizer) -> HistorySize:
    """Counts one history, each turn as `speaker: text`."""
    return HistorySize(tuple(_session_tokens(session, tokenizer) for session in history.sessions))


def history_sizes(
    benchmark: Benchmark,
    sample_ids: Iterable[str],
    tokenizer: Tokenizer,
    cache: Path,
    on_progress: Progress = lambda _done, _count: None,
) -> Mapping[str, HistorySize]:
    """The sizes of these samples' histories; those that no run has counted yet are counted now.

    Counts are kept in the cache folder under the file's hash and the tokenizer's name, those of a sample
    corpus are not. Raises DataError where a history cannot be read or the folder not be written.
    """
    wanted = tuple(dict.fromkeys(sample_ids))
    store = None if benchmark.file.sample_corpus else cache / "tokens" / _name(benchmark.file, tokenizer)
    known = {} if store is None else _load(store)
    missing = [sample for sample in wanted if sample not in known]
    for done, sample in enumerate(missing, start=1):
        known[sample] = history_size(benchmark.history(sample), tokenizer)
        if store is not None and (done % COUNTED_BETWEEN_WRITES == 0 or done == len(missing)):
            _save(store, known)
        on_progress(done, len(missing))
    return {sample: known[sample] for sample in wanted}


def _session_tokens(session: Session, tokenizer: Tokenizer) -> int:
    return sum(tokenizer.count_tokens(f"{turn.speaker}: {turn.text}") for turn in session.turns)


def _name(file: DataFile, tokenizer: Tokenizer) -> str:
    return f"{file.sha256}-{re.sub(r'[^A-Za-z0-9]+', '-', tokenizer.name)}.json"


def _load(store: Path) -> dict[str, HistorySize]:
    """What was counted before; nothing where there is no such file, or none that this version wrote."""
    try:
        content = json.loads(store.read_bytes())
        if content["format"] != FORMAT:
            return {}
        return {
            str(sample): HistorySize(tuple(int(count) for count in counts))
            for sample, counts in content["sessions"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _save(store: Path, sizes: Mapping[str, HistorySize]) -> None:
    counts = {sample: size.sessions for sample, size in sizes.items()}
    write_atomically(store, json.dumps({"format": FORMAT, "sessions": counts}).encode())
