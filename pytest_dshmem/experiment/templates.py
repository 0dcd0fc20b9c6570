"""Prompt templates: texts put into `{name}` places, in one pass."""

import re
from collections.abc import Mapping

_PLACE = re.compile(r"\{([a-z]+)\}")


def fill(template: str, texts: Mapping[str, str]) -> str:
    """The template with its places filled.

    What looks like a place within a text stays as it is, and so does a place that there is no text for.
    """
    return _PLACE.sub(lambda place: texts.get(place.group(1), place.group(0)), template)


def places(template: str) -> frozenset[str]:
    """The names of a template's places."""
    return frozenset(_PLACE.findall(template))
