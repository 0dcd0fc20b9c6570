"""The texts of the turns that a data set marks as evidence, for the diagnosis of wrong answers."""

from collections.abc import Iterable
from functools import cache

from pytest_dshmem.datasets.views import Benchmark, History, Turn


def evidence_texts(
    benchmark: Benchmark, question_ids: Iterable[str], sample_of: dict[str, str]
) -> dict[str, tuple[str, ...]]:
    """The marked turns of each question, as `text` and, where there is one, the picture's caption.

    `sample_of` maps question ids to sample ids. A mark that names no turn, or one that the history does not
    have, gives no text: a whole session is too much to look for.
    """
    histories = cache(benchmark.history)
    return {
        question: tuple(
            text
            for place in benchmark.reference(question).evidence
            if place.turn is not None
            and (text := _turn_text(histories(sample_of[question]), place.session, place.turn))
        )
        for question in question_ids
    }


def _turn_text(history: History, session: int, turn: int) -> str:
    turns = next((one.turns for one in history.sessions if one.number == session), ())
    return _said(turns[turn - 1]) if 0 < turn <= len(turns) else ""


def _said(turn: Turn) -> str:
    return f"{turn.text} {turn.caption}" if turn.caption else turn.text
