"""Reads the fields of a JSON object so that a bad value can be named with its place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pytest_dshmem.datasets.views import DataError

T = TypeVar("T")

_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Record:
    """A JSON object and where it stands. Every reader raises DataError naming file, item and field."""

    __slots__ = ("_fields", "place")

    def __init__(self, value: object, place: str) -> None:
        self.place = place
        if not isinstance(value, dict):
            raise self.fault(f"expected an object, found {_kind(value)}")
        self._fields: dict[str, Any] = value

    def fault(self, problem: str) -> DataError:
        return DataError(f"{self.place}: {problem}. Repair the file or fetch the published one.")

    def __contains__(self, key: str) -> bool:
        return key in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def named(self, name: str) -> Record:
        """The same object, called by its id from here on."""
        return Record(self._fields, f"{self.place} ({name})")

    def get(self, key: str, default: object) -> object:
        return self._fields.get(key, default)

    def value(self, key: str) -> object:
        if key not in self._fields:
            raise self.fault(f"the field {key!r} is missing")
        return self._fields[key]

    def text(self, key: str) -> str:
        return self._checked_text(key, self.value(key))

    def filled_text(self, key: str) -> str:
        """A text that says something."""
        text = self.text(key)
        if not text.strip():
            raise self.fault(f"the field {key!r} is blank")
        return text

    def identifier(self, key: str) -> str:
        """A text that is safe as a test id and as a file name."""
        text = self.text(key)
        if not _SAFE_ID.fullmatch(text):
            raise self.fault(
                f"the field {key!r} is {text!r}: only ASCII letters, digits, '.', '_' and '-' can be ids"
            )
        return text

    def gold(self, key: str) -> str:
        """An answer as text: some data sets write numbers as numbers."""
        value = self.value(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        return self._checked_text(key, value)

    def integer(self, key: str) -> int:
        value = self.value(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fault(f"the field {key!r} should be an integer, not {_kind(value)}")
        return value

    def items(self, key: str) -> list[Any]:
        value = self.value(key)
        if not isinstance(value, list):
            raise self.fault(f"the field {key!r} should be a list, not {_kind(value)}")
        return value

    def texts(self, key: str) -> list[str]:
        return [self._checked_text(f"{key}[{index}]", item) for index, item in enumerate(self.items(key))]

    def record(self, key: str) -> Record:
        return Record(self.value(key), f"{self.place}, {key}")

    def records(self, key: str) -> list[Record]:
        return [Record(item, f"{self.place}, {key}[{index}]") for index, item in enumerate(self.items(key))]

    def lists_of_records(self, key: str) -> list[list[Record]]:
        """A list of lists of objects."""
        rows = Record({f"{key}[{index}]": row for index, row in enumerate(self.items(key))}, self.place)
        return [rows.records(name) for name in rows]

    def _checked_text(self, key: str, value: object) -> str:
        if not isinstance(value, str):
            raise self.fault(f"the field {key!r} should be a text, not {_kind(value)}")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self.fault(
                f"the field {key!r} holds half a surrogate pair, which no file can store"
            ) from None
        return value


def parse_json(data: bytes, place: str) -> object:
    """The value of a JSON text, or a DataError that says where it breaks."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{place}: not valid JSON ({error}). Repair the file or fetch the published one."
        ) from None


def known(table: Mapping[str, T], key: str, kind: str, path: Path) -> T:
    """The entry of a table by id, or a DataError that says that the file has no such id."""
    if key not in table:
        raise DataError(f"{path} has no {kind} {key!r}: choose one that the file lists.")
    return table[key]


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")
