"""What a run would take, before anything is run."""

from pytest_dshmem.datasets.views import History
from pytest_dshmem.experiment.tokenizer import Tokenizer


def history_tokens(history: History, tokenizer: Tokenizer) -> int:
    """Tokens of a raw history, each turn as `speaker: text`."""
    return sum(
        tokenizer.count_tokens(f"{turn.speaker}: {turn.text}")
        for session in history.sessions
        for turn in session.turns
    )
