"""Conditions: what the answering agent may know."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

HistoryInPrompt = Literal["none", "evidence", "all"]


@dataclass(frozen=True, slots=True)
class Condition:
    """One value of `--mode`. `history` says how much of it stands in the question's prompt."""

    name: str
    forms_memory: bool = False
    consolidates: bool = False
    history: HistoryInPrompt = "none"
    meaning: str = ""


CONDITIONS: Mapping[str, Condition] = MappingProxyType(
    {
        condition.name: condition
        for condition in (
            Condition("baseline", meaning="no history, no memory, no tools"),
            Condition("memory", forms_memory=True, meaning="the memory that the agent wrote while reading"),
            Condition(
                "memory-consolidate",
                forms_memory=True,
                consolidates=True,
                meaning="the same, and the system's consolidator after every session",
            ),
            Condition("oracle", history="evidence", meaning="the evidence sessions, in the prompt"),
            Condition("full-history", history="all", meaning="the whole history, in the prompt"),
        )
    }
)


class ConditionError(Exception):
    """A condition that does not exist, in one sentence."""


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """`baseline,memory` as conditions, in the order given, each once. Raises ConditionError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in CONDITIONS]
    if unknown or not names:
        raise ConditionError(
            f"there is no condition {unknown[0] if unknown else text!r}; choose from {', '.join(CONDITIONS)}"
        )
    return tuple(CONDITIONS[name] for name in dict.fromkeys(names))
