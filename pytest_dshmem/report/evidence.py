"""The texts of the turns that a data set marks as evidence, for the diagnosis of wrong answers."""

from collections.abc import Iterable
from functools import lru_cache

from pytest_dshmem.datasets.views import Benchmark, EvidencePlace, History
from pytest_dshmem.record.entries import Selected


def evidence_texts(benchmark: Benchmark, selected: Iterable[Selected]) -> dict[str, tuple[str, ...]]:
    """By question id the marked turns, each as its text and, where there is one, the picture's caption.

    A mark that names no turn gives no text: a whole session is too much to look for. Neither does a mark that
    points past the history's end.
    """
    # One is kept and no more: a history can be large, and questions come sample by sample.
    histories = lru_cache(maxsize=1)(benchmark.history)
    texts: dict[str, tuple[str, ...]] = {}
    for chosen in selected:
        question = chosen.key.question_id
        if question not in texts:
            history = histories(chosen.sample_id)
            said = (_said(history, place) for place in benchmark.reference(question).evidence)
            texts[question] = tuple(text for text in said if text)
    return texts


def _said(history: History, place: EvidencePlace) -> str:
    turns = next((session.turns for session in history.sessions if session.number == place.session), ())
    if place.turn is None or not 1 <= place.turn <= len(turns):
        return ""
    turn = turns[place.turn - 1]
    return f"{turn.text} {turn.caption}" if turn.caption else turn.text
