"""What a request puts before the model: tools, a task, the memory shown, and the calls made so far."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_dshmem.offline.recall import IndexEntry
from pytest_dshmem.offline.transcript import Line, Session, finished_session_in, lines_in, sessions_in

_QUESTION = re.compile(r"^Question:[ \t]*(?P<text>.+?)\s*(?:\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)
_TOLD = re.compile(r".*</(?:session|history)>", re.DOTALL)
_TASK = re.compile(r"<session\b|<finished_session\b|^Question:", re.MULTILINE)
_GLOBAL = re.compile(r"<global_memory>(?P<text>.*?)</global_memory>", re.DOTALL)
_WORKSPACE = re.compile(
    r'<workspace_memory dir="(?P<folder>[^"]*)">(?P<text>.*?)</workspace_memory>', re.DOTALL
)
_INDEX_LINE = re.compile(
    r"^- \[[^\]]+\]\((?P<file>[^)]+\.md)\)(?: \(rev (?P<revision>[^)]*)\))?: ?(?P<description>.*)$",
    re.MULTILINE,
)
_DETAIL = re.compile(r'<detail name="(?P<name>[^"]*)" revision="[^"]*">\n(?P<text>.*?)\n</detail>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that the model made for the present task, with what came of it."""

    name: str
    arguments: Mapping[str, Any]
    result: str
    refused: bool


@dataclass(frozen=True, slots=True)
class Situation:
    """One request as the model understands it.

    `tools` maps names to the JSON schemas of their arguments. `details` are the memory files that a
    consolidation is shown in full, by name.
    """

    tools: Mapping[str, Mapping[str, Any]]
    sessions: tuple[Session, ...]
    finished: Session | None
    question: str | None
    folder: str | None
    index: tuple[IndexEntry, ...]
    global_memory: str
    details: Mapping[str, str]
    calls: tuple[ToolCall, ...]

    @property
    def global_lines(self) -> tuple[Line, ...]:
        return tuple(line for line in lines_in(self.global_memory) if line.said_on)


def situation_of(request: Mapping[str, Any]) -> Situation:
    """Reads a Messages API request. Parts that are missing are empty: what they say is up to the sender."""
    messages = [message for message in request.get("messages", ()) if isinstance(message, Mapping)]
    place, task = _task(messages)
    shown = "\n".join(text for message in messages for text in _texts(message) if text != task)
    workspace = _last(_WORKSPACE, shown)
    global_memory = _last(_GLOBAL, task if "<finished_session" in task else shown)
    return Situation(
        tools=_tools(request),
        sessions=sessions_in(task),
        finished=finished_session_in(task),
        question=_question(task),
        folder=workspace["folder"] if workspace else None,
        index=_index(workspace["text"]) if workspace else (),
        global_memory=global_memory["text"] if global_memory else "",
        details={match["name"]: match["text"] for match in _DETAIL.finditer(task)},
        calls=tuple(_calls(messages[place:])),
    )


def _task(messages: list[Mapping[str, Any]]) -> tuple[int, str]:
    """The place of the message that sets the present task, and its text; else those of the last user text."""
    latest = (0, "")
    for place in reversed(range(len(messages))):
        if messages[place].get("role") != "user":
            continue
        for text in _texts(messages[place]):
            if _TASK.search(text):
                return place, text
            latest = latest if latest[1] else (place, text)
    return latest


def _question(task: str) -> str | None:
    told = _TOLD.match(task)
    match = _QUESTION.search(task, told.end() if told else 0)
    return " ".join(match["text"].split()) if match else None


def _index(text: str) -> tuple[IndexEntry, ...]:
    return tuple(
        IndexEntry(match["file"], match["description"], match["revision"])
        for match in _INDEX_LINE.finditer(text)
    )


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for match in pattern.finditer(text):
        found = match
    return found


def _tools(request: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    tools = (tool for tool in request.get("tools") or () if isinstance(tool, Mapping) and "name" in tool)
    return {str(tool["name"]): _mapping(tool.get("input_schema")) for tool in tools}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _blocks(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    for block in content if isinstance(content, list) else ():
        if isinstance(block, Mapping):
            yield block


def _texts(message: Mapping[str, Any]) -> list[str]:
    return [str(block.get("text", "")) for block in _blocks(message) if block.get("type") == "text"]


def _calls(messages: list[Mapping[str, Any]]) -> Iterator[ToolCall]:
    blocks = [block for message in messages for block in _blocks(message)]
    results = {str(block.get("tool_use_id")): block for block in blocks if block.get("type") == "tool_result"}
    for block in blocks:
        result = results.get(str(block.get("id"))) if block.get("type") == "tool_use" else None
        if result is not None:
            text = "\n".join(_texts(result))
            yield ToolCall(
                str(block.get("name")), _mapping(block.get("input")), text, result.get("is_error") is True
            )
