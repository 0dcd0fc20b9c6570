"""Notes that the model wants to keep, put into whatever arguments a memory tool takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Schema = Mapping[str, Any]

_TEXT_FIELDS = frozenset({"content", "text", "memory", "note", "body", "fact"})
_DESCRIPTION_FIELDS = frozenset({"description", "summary"})
_NAME_FIELDS = frozenset({"name", "title", "key", "topic"})
_FILE_FIELDS = frozenset({"file", "path", "file_name", "filename"})
_REVISION_FIELDS = frozenset({"expected_revision", "revision"})


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to write. A global note has no name; `revision` is that of the text it replaces, if any."""

    content: str
    scope: Literal["workspace", "global"] = "workspace"
    name: str | None = None
    description: str | None = None
    mode: Literal["append", "replace"] = "append"
    revision: str | None = None


def holds_text(schema: Schema) -> bool:
    """Whether a tool's arguments have a place for a text to keep."""
    return bool(_TEXT_FIELDS & _properties(schema).keys())


def edits_field(schema: Schema) -> tuple[str, Schema] | None:
    """The argument of a tool that takes a list of texts to keep, and the schema of one of them."""
    for name, inner in _properties(schema).items():
        items = inner.get("items")
        if isinstance(items, Mapping) and holds_text(items):
            return name, items
    return None


def arguments_for(schema: Schema, note: Note) -> dict[str, Any]:
    """The arguments that say what a note says, as far as the schema has fields for it.

    A required choice on which the note is silent takes its first value, another text the description.
    """
    required = schema.get("required")
    filled = {name: _value(name, inner, note) for name, inner in _properties(schema).items()}
    for name in required if isinstance(required, list) else ():
        if filled.get(name) is None and name in filled and not (note.name is None and name in _NAME_FIELDS):
            choices = _properties(schema)[name].get("enum")
            filled[name] = choices[0] if choices else (note.description or "notes")
    return {name: value for name, value in filled.items() if value is not None}


def _value(name: str, schema: Schema, note: Note) -> str | None:
    choices = schema.get("enum")
    if isinstance(choices, list):
        return next((wish for wish in (note.scope, note.mode) if wish in choices), None)
    if name in _TEXT_FIELDS:
        return note.content
    if name in _DESCRIPTION_FIELDS:
        return note.description
    if name in _NAME_FIELDS:
        return note.name
    if name in _FILE_FIELDS:
        return f"{note.name}.md" if note.name else None
    return note.revision if name in _REVISION_FIELDS else None


def _properties(schema: Schema) -> dict[str, Schema]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {str(name): inner for name, inner in properties.items() if isinstance(inner, Mapping)}
