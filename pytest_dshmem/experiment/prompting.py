"""What is said to the agent: versioned prompts, and histories written out as text."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from pytest_dshmem.datasets.views import History, Question, Session, Turn
from pytest_dshmem.experiment.condition import Condition
from pytest_dshmem.experiment.templates import fill

PROMPTS = Path(__file__).parent / "prompts"
PROMPT_VERSION = 1


def ingestion_prompt(history: History, session: Session) -> str:
    """What the agent is told when one session is brought to its memory."""
    fields = {
        "participants": " and ".join(history.participants),
        "date": session.date_text,
        "history": session_text(session),
    }
    return fill(_read(f"ingest-{history.setting}"), fields)


def question_prompt(question: Question, condition: Condition, history: History | None = None) -> str:
    """What the agent is asked. A history goes in for the conditions that show one."""
    fields = {"date": question.asked_on, "question": question.text}
    if history is not None:
        return fill(_read("question-history"), {**fields, "history": sessions_text(history.sessions)})
    return fill(_read("question-memory" if condition.forms_memory else "question-baseline"), fields)


def sessions_text(sessions: Iterable[Session]) -> str:
    return "\n\n".join(session_text(session) for session in sessions)


def session_text(session: Session) -> str:
    """One dated session between tags, a line a turn, shared pictures as marked captions."""
    lines = [f'<session date="{session.date_text}">', *map(_turn_text, session.turns), "</session>"]
    return "\n".join(lines)


def prompt_hashes() -> dict[str, str]:
    """A short hash of every prompt by name, for the run's manifest."""
    return {
        file.stem: hashlib.sha256(file.read_bytes()).hexdigest()[:16]
        for file in sorted(PROMPTS.glob("*.txt"))
    }


def _turn_text(turn: Turn) -> str:
    picture = f" [shares an image: {turn.caption}]" if turn.caption else ""
    return f"{turn.speaker}: {turn.text}{picture}"


def _read(name: str) -> str:
    return (PROMPTS / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")
