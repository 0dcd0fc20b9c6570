"""Keeping secrets, and the paths of one machine, out of what is written down about a process."""

import re
from collections.abc import Mapping
from typing import Any

from pytest_dshmem.harness.paths import HomePaths

_SECRET_VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_MASK = "***"
_SANDBOX = "$SANDBOX"


def masked(value: Any, environment: Mapping[str, str], paths: HomePaths) -> Any:
    """A JSON value without the secrets of the environment and the path of the sandbox, however deep."""
    secrets = {text: _MASK for name, text in environment.items() if text and _SECRET_VARIABLE.search(name)}
    return _replaced(value, {**secrets, str(paths.workspace.parent): _SANDBOX})


def _replaced(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for word, mask in words.items():
            value = value.replace(word, mask)
        return value
    if isinstance(value, Mapping):
        return {_replaced(key, words): _replaced(inner, words) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, words) for inner in value]
    return value
