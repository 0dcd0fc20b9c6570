"""Collection: a data set's questions become parameters of tests, and options narrow them."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pytest_dshmem.experiment.condition import Condition, parse_conditions
from pytest_dshmem.face.options import Options

if TYPE_CHECKING:
    from pytest_dshmem.datasets.views import Benchmark, Listing

MARKER = "dshmem"


@dataclass(frozen=True, slots=True)
class FormationCase:
    """One sample under one condition in one repeat: what session-scoped fixtures are made for."""

    benchmark: str
    sample_id: str
    condition: Condition
    repeat: int


@dataclass(frozen=True, slots=True)
class QuestionCase:
    """One question under one condition in one repeat, as a test's parameter."""

    id: str
    question_id: str
    category: str
    abstention: bool

    formation: FormationCase


def benchmark_of(metafunc: pytest.Metafunc) -> str | None:
    """The benchmark that a test function is marked with; None where it is none of ours."""
    marker = metafunc.definition.get_closest_marker(MARKER)
    if marker is None or "question" not in metafunc.fixturenames:
        return None
    if len(marker.args) != 1 or not isinstance(marker.args[0], str):
        raise pytest.UsageError(f'the marker {MARKER} takes one name: @pytest.mark.{MARKER}("locomo")')
    return marker.args[0]


def open_data(name: str, options: Options) -> Benchmark:
    """The data set that the options ask for. Without one, `--offline` takes the sample corpus."""
    from pytest_dshmem.datasets.catalog import open_benchmark

    sample_corpus = options.offline and options.data is None and "DSHMEM_DATA" not in os.environ
    return open_benchmark(
        name,
        environment=os.environ,
        folder=options.data,
        allow_unpinned=options.allow_unpinned,
        variant=options.variant,
        captions=not options.no_captions,
        sample_corpus=sample_corpus,
    )


def cases(benchmark: Benchmark, options: Options) -> list[QuestionCase]:
    """Every question under every condition in every repeat, formation by formation."""
    conditions = parse_conditions(options.mode)
    listings = _chosen(benchmark, options)
    several = len(conditions) > 1
    # pytest shares a session fixture between tests whose parameter is the same object.
    formations = functools.cache(FormationCase)
    found = [
        _case(listing, formations(benchmark.name, listing.sample_id, condition, repeat), several)
        for repeat in range(1, options.repeat + 1)
        for condition in conditions
        for listing in listings
    ]
    order = {
        sample: place for place, sample in enumerate(dict.fromkeys(one.formation.sample_id for one in found))
    }
    return sorted(found, key=lambda case: (case.formation.repeat, order[case.formation.sample_id]))


def parametrize(metafunc: pytest.Metafunc, found: Sequence[QuestionCase]) -> None:
    """Gives a test its questions. The formation is a parameter of its own: its fixtures are shared.

    Both get the session's scope: pytest would give both the question's, and end the formation's with a test.
    """
    metafunc.parametrize(
        ("formation_case", "question"),
        [pytest.param(case.formation, case, id=case.id) for case in found],
        indirect=True,
        scope="session",
    )


def limit(items: list[pytest.Item], count: int) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The first questions of each condition and benchmark, and those beyond."""
    kept: list[pytest.Item] = []
    beyond: list[pytest.Item] = []
    seen: dict[tuple[str, str, int], int] = {}
    for item in items:
        case = case_of(item)
        if case is None:
            kept.append(item)
            continue
        group = (case.formation.benchmark, case.formation.condition.name, case.formation.repeat)
        seen[group] = seen.get(group, 0) + 1
        (kept if seen[group] <= count else beyond).append(item)
    return kept, beyond


def case_of(item: pytest.Item) -> QuestionCase | None:
    """The question behind a test; None for a test that is none of ours."""
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get("question") if callspec is not None else None
    return case if isinstance(case, QuestionCase) else None


def _chosen(benchmark: Benchmark, options: Options) -> list[Listing]:
    from pytest_dshmem.datasets.selection import read_selection, split_of
    from pytest_dshmem.datasets.views import DataError

    wanted = None if options.select == "full" else read_selection(options.select, benchmark)
    categories = {name.strip() for name in options.category.split(",") if name.strip()}
    unknown = categories - set(benchmark.categories)
    if unknown:
        raise DataError(
            f"--dshmem-category: {benchmark.name} has no category {sorted(unknown)[0]!r}; "
            f"it has {', '.join(benchmark.categories)}"
        )
    return [
        listing
        for listing in benchmark.listings()
        if (wanted is None or listing.question_id in wanted)
        and (not categories or listing.category in categories)
        and (options.split == "all" or split_of(listing.sample_id, benchmark.name) == options.split)
        and _fits_abstention(listing, options.abstention)
    ]


def _fits_abstention(listing: Listing, wanted: str) -> bool:
    return wanted == "with" or listing.abstention == (wanted == "only")


def _case(listing: Listing, formation: FormationCase, several: bool) -> QuestionCase:
    parts = [listing.question_id]
    parts += [formation.condition.name] if several else []
    parts += [f"r{formation.repeat}"] if formation.repeat > 1 else []
    return QuestionCase(
        id="-".join(parts),
        question_id=listing.question_id,
        category=listing.category,
        abstention=listing.abstention,
        formation=formation,
    )


def our_cases(items: Iterable[pytest.Item]) -> list[QuestionCase]:
    """The questions among collected tests, in order."""
    return [case for case in map(case_of, items) if case is not None]
