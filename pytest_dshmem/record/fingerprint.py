"""What a run's results depend on, as flat named fields, so that two runs can be told apart by name."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

FieldValue = str | int | float | bool | None


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, FieldValue]:
    """Nested settings as dotted fields: {"ask": {"effort": "high"}} becomes {"ask.effort": "high"}."""
    fields: dict[str, FieldValue] = {}
    for name, value in settings.items():
        place = f"{prefix}{name}"
        if isinstance(value, Mapping):
            fields.update(flatten(value, f"{place}."))
        elif isinstance(value, list | tuple):
            fields[place] = json.dumps(value)
        else:
            fields[place] = value
    return fields


def fingerprint(fields: Mapping[str, FieldValue]) -> str:
    """A short hash of all fields; equal fields in any order give the same. None is as good as no field."""
    given = {name: value for name, value in fields.items() if value is not None}
    text = json.dumps(given, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(
    recorded: Mapping[str, FieldValue], wanted: Mapping[str, FieldValue]
) -> list[tuple[str, FieldValue, FieldValue]]:
    """Fields in which two settings differ, as (field, recorded, wanted), in alphabetical order.

    There are differences exactly where the fingerprints differ: 1, 1.0 and True are three values.
    """
    names = sorted(set(recorded) | set(wanted))
    pairs = [(name, recorded.get(name), wanted.get(name)) for name in names]
    return [(name, one, other) for name, one, other in pairs if json.dumps(one) != json.dumps(other)]


def describe_differences(changed: list[tuple[str, FieldValue, FieldValue]]) -> str:
    """The differing fields in words: `ask.effort (was high, now low)`."""
    return "; ".join(f"{name} (was {before}, now {after})" for name, before, after in changed)
