"""LongMemEval: a user's past chats with an assistant, and one question for each history."""

import pytest


@pytest.mark.dshmem("longmemeval")
def test_question(question, ask):
    """One question, asked in a fresh session that sees the sample's frozen memory and nothing else."""
    assert ask(question).answered
