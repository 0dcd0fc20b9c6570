"""How a question's test is called in pytest's progress: by the state of its hypothesis."""

from __future__ import annotations

from typing import Any

import pytest

LETTERS = {"timeout": "T", "blocked": "B", "empty": "0", "contaminated": "C", "context-overflow": "O"}
STATE = "dshmem_state"
SECONDS = "dshmem_seconds"


def of(report: pytest.TestReport, config: pytest.Config) -> Any:
    """(category, letter, word) for an asked question; None leaves a report to pytest."""
    del config
    properties = dict(getattr(report, "user_properties", []))
    if report.when != "call" or STATE not in properties:
        return None
    state, seconds = str(properties[STATE]), f"{float(properties[SECONDS]):.1f} s"
    if report.passed:
        return "passed", ".", f"{state.upper()} {seconds}"
    return "failed", LETTERS.get(state, "F"), f"{state.upper()} {seconds}"
