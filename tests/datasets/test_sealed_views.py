"""No history holds an evaluation mark, in any data set we ship or find."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_dshmem.bundled import bundled_path
from pytest_dshmem.datasets.catalog import open_benchmark
from pytest_dshmem.datasets.views import Benchmark, History, Question, Reference, Session, Turn

DIA_ID = re.compile(r"\bD\d+:\d+\b")
NAMES = ("locomo", "longmemeval")


def session_ids(path: Path) -> set[str]:
    return {name for item in json.loads(path.read_text()) for name in item.get("haystack_session_ids", ())}


@pytest.mark.parametrize("name", NAMES)
def test_no_history_of_a_sample_corpus_holds_a_mark(name: str) -> None:
    benchmark = open_benchmark(name, sample_corpus=True, environment={})
    marks = session_ids(bundled_path("corpora", f"{name}-sample.json"))
    assert marks or name == "locomo"
    for listing in benchmark.listings():
        shown = repr(benchmark.history(listing.sample_id))
        assert not DIA_ID.search(shown)
        assert "has_answer" not in shown
        assert "query" not in shown
        assert not [mark for mark in marks if mark in shown]
        assert benchmark.question(listing.question_id).text not in shown


def test_no_view_holds_a_field_of_another() -> None:
    def fields(*views: type) -> set[str]:
        return {field.name for view in views for field in dataclasses.fields(view)}

    evaluation = {"gold", "category", "evidence", "abstention", "question_id"}
    assert fields(Reference) == evaluation
    assert not fields(History, Session, Turn) & evaluation
    assert not fields(Question) & evaluation
    assert not fields(History, Session, Turn) & {"asked_on", "question"}


@pytest.mark.parametrize(("name", "variant"), [("locomo", None), ("longmemeval", "oracle")])
def test_no_history_of_the_real_files_holds_a_mark(
    open_real: Callable[..., Benchmark], name: str, variant: str | None
) -> None:
    benchmark = open_real(name, variant=variant)
    seen = set()
    for listing in benchmark.listings():
        if listing.sample_id in seen:
            continue
        seen.add(listing.sample_id)
        shown = repr(benchmark.history(listing.sample_id))
        assert not DIA_ID.search(shown)
        assert not re.search(r"has_answer|answer_[0-9a-f]{8}", shown)
    assert len(seen) == {"locomo": 10, "longmemeval": 500}[name]
