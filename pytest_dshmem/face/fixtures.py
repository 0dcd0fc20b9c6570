"""Fixtures: a formation and its frozen snapshot once a session, a question and its hypothesis a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_dshmem.face.collection import FormationCase, QuestionCase
from pytest_dshmem.face.results import attach
from pytest_dshmem.face.session import BenchmarkSession, session_of

if TYPE_CHECKING:
    from pytest_dshmem.datasets.views import Question
    from pytest_dshmem.experiment.freezing import Snapshot
    from pytest_dshmem.record.entries import Formation, Hypothesis

    Ask = Callable[[Question], Hypothesis]


@pytest.fixture(scope="session")
def dshmem(request: pytest.FixtureRequest) -> BenchmarkSession:
    """The session's benchmarks: their data, runs and engines."""
    return session_of(request.config)


@pytest.fixture(scope="session")
def formation_case(request: pytest.FixtureRequest) -> FormationCase:
    """One sample under one condition."""
    case: FormationCase = request.param
    return case


@pytest.fixture(scope="session")
def formation(formation_case: FormationCase, dshmem: BenchmarkSession) -> Formation | None:
    """The isolated home's formation, ended well. None for a condition that forms no memory."""
    return dshmem.formation(formation_case)


@pytest.fixture(scope="session")
def snapshot(
    formation: Formation | None, formation_case: FormationCase, dshmem: BenchmarkSession
) -> Snapshot | None:
    """The frozen memory that all questions of the sample start from. None where there is no memory."""
    return dshmem.snapshot(formation_case) if formation is not None else None


@pytest.fixture
def question(request: pytest.FixtureRequest, dshmem: BenchmarkSession) -> Question:
    """The question's text and date. There is no way from here to its gold answer."""
    case: QuestionCase = request.param
    return dshmem.question(case)


@pytest.fixture
def ask(
    question: Question, snapshot: Snapshot | None, dshmem: BenchmarkSession, request: pytest.FixtureRequest
) -> Ask:
    """Asks the test's question in a fresh session on the snapshot; the hypothesis goes into the record.

    A question without an answer (error, timeout, blocked, empty, …) ends the test, and says why in one line.
    """
    del snapshot  # asking begins when it is frozen
    case: QuestionCase = request.node.callspec.params["question"]

    def ask_once(asked: Question) -> Hypothesis:
        if asked.id != question.id:
            raise ValueError(f"this test asks {question.id}, not {asked.id}")
        hypothesis = dshmem.hypothesis(case)
        attach(request.node, hypothesis)
        if not hypothesis.answered:
            pytest.fail(f"{hypothesis.state}: {hypothesis.reason or 'no answer came'}", pytrace=False)
        return hypothesis

    return ask_once
