"""What travels with a test report: a hypothesis, encoded where the report leaves its process for another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from pytest_dshmem.record.entries import Hypothesis

CARRIER = "dshmem"


def attach(item: pytest.Item, hypothesis: Hypothesis) -> None:
    """Puts a hypothesis on a test: once whole, and as single values that JUnit shows."""
    calls = hypothesis.calls
    used = [call.usage for call in calls if call.usage is not None]
    properties = {
        "dshmem_state": hypothesis.state,
        "dshmem_hypothesis": hypothesis.hypothesis,
        "dshmem_seconds": round(hypothesis.seconds, 3),
        "dshmem_calls": len(calls),
        "dshmem_failed_calls": sum(1 for call in calls if call.failure),
        "dshmem_input_tokens": sum(usage.input for usage in used),
        "dshmem_cache_read_tokens": sum(usage.cache_read for usage in used),
        "dshmem_output_tokens": sum(usage.output for usage in used),
        "dshmem_opened": " ".join(hypothesis.opened),
    }
    item.user_properties += [(name, str(value)) for name, value in properties.items()]
    item.user_properties.append((CARRIER, hypothesis))


def encode(serialized: dict[str, Any] | None) -> dict[str, Any] | None:
    """A report that leaves its process, with the hypothesis on it as a text. None is no report of a test."""
    if serialized is None or "user_properties" not in serialized:
        return serialized
    properties = [
        (name, value.model_dump_json() if name == CARRIER and not isinstance(value, str) else value)
        for name, value in serialized["user_properties"]
    ]
    return {**serialized, "user_properties": properties}


def detach(report: pytest.TestReport) -> Hypothesis | None:
    """Takes the hypothesis off a report; the single values stay for JUnit.

    The reports of a test's call and of its teardown both carry it: only the first one gives it.
    """
    carried = [value for name, value in report.user_properties if name == CARRIER]
    if not carried:
        return None
    report.user_properties = [pair for pair in report.user_properties if pair[0] != CARRIER]
    if report.when != "call":
        return None
    from pytest_dshmem.record.entries import Hypothesis

    (whole,) = carried
    return whole if isinstance(whole, Hypothesis) else Hypothesis.model_validate_json(str(whole))
