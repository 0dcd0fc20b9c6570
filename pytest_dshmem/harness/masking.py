"""Keeping the secrets of a child's environment out of everything that is written down about it."""

import re
from collections.abc import Mapping
from typing import Any

_SECRET_VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_MASK = "***"


def masked(value: Any, environment: Mapping[str, str]) -> Any:
    """A JSON value without the values of the environment's secret variables, however deep they stand."""
    secrets = [text for name, text in environment.items() if text and _SECRET_VARIABLE.search(name)]
    return _without(value, secrets)


def _without(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, _MASK)
        return value
    if isinstance(value, Mapping):
        return {_without(key, secrets): _without(inner, secrets) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without(inner, secrets) for inner in value]
    return value
