"""LoCoMo: long conversations between two people, and questions about them."""

import pytest


@pytest.mark.dshmem("locomo")
def test_question(question, ask):
    """One question, asked in a fresh session that sees the sample's frozen memory and nothing else."""
    assert ask(question).answered
