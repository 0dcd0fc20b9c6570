"""Selecting by the last verdicts: what was wrong, what failed, what changed between the last two runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_dshmem.face.collection import case_of
from pytest_dshmem.face.options import Options

if TYPE_CHECKING:
    from pytest_dshmem.report.reading import RunReading

CACHE_KEY = "dshmem/verdicts"
RIGHT, WRONG = "right", "wrong"


def select_by_last_verdicts(
    config: pytest.Config, options: Options, items: list[pytest.Item]
) -> list[pytest.Item]:
    """Keeps the questions that --dshmem-rerun asks for; returns the others.

    Raises UsageError where nothing is known of earlier verdicts.
    """
    if not options.rerun:
        return []
    cache = _cache(config)
    if cache is None:
        raise pytest.UsageError(
            "--dshmem-rerun needs the verdicts in pytest's cache: run without -p no:cacheprovider"
        )
    known = cache.get(CACHE_KEY, {})
    if not known:
        raise pytest.UsageError("--dshmem-rerun: there are no verdicts of an earlier run in pytest's cache")
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        case = case_of(item)
        wanted = case is None or _is_wanted(
            known.get(_name(case.formation.benchmark, case.id), []), options.rerun
        )
        (kept if wanted else dropped).append(item)
    items[:] = kept
    return dropped


def remember_verdicts(config: pytest.Config, benchmark: str, reading: RunReading) -> list[str]:
    """Adds this run's verdicts to what is known; the ids that were right the last time and are wrong now."""
    cache = _cache(config)
    if cache is None:
        return []
    known = dict(cache.get(CACHE_KEY, {}))
    lost = []
    for chosen in reading.selected:
        verdict = reading.verdicts.get(chosen.key)
        if verdict is not None and verdict.state == "judged":
            now = RIGHT if verdict.correct else WRONG
        else:
            now = reading.state_of(chosen)
        name = _name(benchmark, chosen.id)
        before = known.get(name, [])
        if before and before[-1] == RIGHT and now == WRONG:
            lost.append(chosen.id)
        known[name] = [*before[-1:], now]
    cache.set(CACHE_KEY, known)
    return lost


def _cache(config: pytest.Config) -> pytest.Cache | None:
    """pytest's cache; None under `-p no:cacheprovider`."""
    return getattr(config, "cache", None)


def _is_wanted(last: list[str], wanted: str) -> bool:
    if not last:
        return False
    if wanted == "wrong":
        return last[-1] == WRONG
    if wanted == "failed":
        return last[-1] not in (RIGHT, WRONG)
    return len(last) > 1 and last[-1] != last[-2]


def _name(benchmark: str, case_id: str) -> str:
    return f"{benchmark}/{case_id}"
