"""The embedded model: a reply from the request alone, with no clock, no chance and no memory of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_dshmem.offline.keeping import best_lines, description_of, file_name_of, kept_lines, name_of
from pytest_dshmem.offline.notes import Note, Schema, arguments_for, edits_field, holds_text
from pytest_dshmem.offline.recall import answer, guess, notes_for
from pytest_dshmem.offline.situation import Situation, situation_of
from pytest_dshmem.offline.transcript import Line, Session, lines_in

READ = "read"
GLOBAL_CHARACTERS = 8_000
"""When global memory is longer than this, nothing is added to it."""
FACTS_CHARACTERS = 40_000
"""When a person's file is longer than this, nothing is added to it."""

FACTS_PER_SESSION = 6
"""Sentences that a consolidation adds to what is known of a person."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool that the model wants to be run."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says: an optional thought, a text, and tools to run."""

    text: str = ""
    tool_uses: tuple[ToolUse, ...] = ()
    thought: str | None = None


def reply_to(request: Mapping[str, Any]) -> Reply:
    """The reply to a Messages API request."""
    reply = _decide(situation_of(request))
    thinking = request.get("thinking")
    if isinstance(thinking, Mapping) and thinking.get("type") == "enabled":
        return replace(reply, thought=_thought(reply))
    return reply


def _decide(situation: Situation) -> Reply:
    for tool, schema in situation.tools.items():
        edits = edits_field(schema)
        if edits:
            return _consolidate(situation, tool, *edits)
    if situation.question:
        return _answer(situation, situation.question)
    write = next(
        (name for name, schema in situation.tools.items() if name != READ and holds_text(schema)), None
    )
    if situation.sessions and write:
        return _ingest(situation, situation.sessions[-1], write)
    return Reply("I have read it.")


def _ingest(situation: Situation, session: Session, tool: str) -> Reply:
    """Writes a session's notes, once more under another name if they are refused, and then says so."""
    schema = situation.tools[tool]
    tries = [call for call in situation.calls if call.name == tool]
    if tries and not tries[0].refused:
        return Reply("What may be useful later has been written down.")
    lines = kept_lines(session)
    if not lines:
        return Reply("There is nothing in this session to keep.")
    note = _session_note(session, lines, {entry.stem: entry.revision for entry in situation.index})
    if not tries:
        notes = [note]
        if len(situation.global_memory) < GLOBAL_CHARACTERS:
            notes.append(Note(_as_text(best_lines(session, 1)), scope="global"))
        return Reply(tool_uses=tuple(ToolUse(tool, arguments_for(schema, one)) for one in notes))
    again = arguments_for(schema, replace(note, name=f"{note.name}-again", mode="append", revision=None))
    if again not in [call.arguments for call in tries]:
        return Reply(tool_uses=(ToolUse(tool, again),))
    return Reply("Memory does not take what I wanted to write down.")


def _consolidate(situation: Situation, tool: str, field: str, schema: Schema) -> Reply:
    """Proposes notes of a session that has none, and adds to each person's file what is new about them."""
    if any(call.name == tool and not call.refused for call in situation.calls):
        return Reply("Memory is up to date.")
    session = situation.finished
    notes = list[Note]()
    if session and not any(call.name == tool for call in situation.calls):
        if name_of(session) not in situation.details and (lines := kept_lines(session)):
            notes.append(_session_note(session, lines, {}))
        notes += filter(None, (_facts_about(person, session, situation) for person in session.speakers))
    return Reply(tool_uses=(ToolUse(tool, {field: [arguments_for(schema, note) for note in notes]}),))


def _session_note(session: Session, lines: tuple[Line, ...], revisions: Mapping[str, str | None]) -> Note:
    name = name_of(session)
    note = Note(_as_text(lines), name=name, description=description_of(lines))
    return replace(note, mode="replace", revision=revisions[name]) if revisions.get(name) else note


def _facts_about(person: str, session: Session, situation: Situation) -> Note | None:
    """New facts about a person for the file of that name, or None if there are none."""
    name = file_name_of(person)
    if not name or person == "assistant":
        return None
    present = situation.details.get(name, "")
    if len(present) > FACTS_CHARACTERS:
        return None
    known = lines_in(present)
    new = tuple(line for line in best_lines(session, FACTS_PER_SESSION, person) if line not in known)
    if not new:
        return None
    return Note(_as_text(new), name=name, description=description_of(known + new, f"facts about {person}: "))


def _answer(situation: Situation, question: str) -> Reply:
    """Answers from a history if there is one, else from memory, opening the notes that may help first."""
    told = tuple(
        session.line(remark, remark.text) for session in situation.sessions for remark in session.remarks
    )
    if told:
        return Reply(answer(question, told))
    if situation.folder is None and not situation.global_lines:
        return Reply(guess(question))
    reads = [call for call in situation.calls if call.name == READ]
    wanted = notes_for(question, situation.index) if READ in situation.tools and not reads else ()
    if wanted:
        paths = (f"{situation.folder}/{entry.file}" for entry in wanted)
        return Reply(tool_uses=tuple(ToolUse(READ, {"file_path": path}) for path in paths))
    opened = tuple(line for call in reads if not call.refused for line in lines_in(call.result))
    return Reply(answer(question, tuple(dict.fromkeys(opened + situation.global_lines))))


def _as_text(lines: tuple[Line, ...]) -> str:
    return "\n".join(line.written() for line in lines)


def _thought(reply: Reply) -> str:
    if reply.tool_uses:
        return f"First {', then '.join(use.name for use in reply.tool_uses)}."
    return "What I have seen is enough to reply."
