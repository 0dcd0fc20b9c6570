"""Placeholders such as `{dsh_home}` in the values of a memory system's profile."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def placeholders_in(value: Any) -> Iterator[str]:
    """Names of the placeholders in a TOML value, however deep."""
    if isinstance(value, str):
        yield from _PLACEHOLDER.findall(value)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from placeholders_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from placeholders_in(inner)


def render(value: Any, known: Mapping[str, str]) -> Any:
    """The TOML value with every placeholder replaced. Raises KeyError for an unknown name."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: known[match.group(1)], value)
    if isinstance(value, Mapping):
        return {key: render(inner, known) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [render(inner, known) for inner in value]
    return value
