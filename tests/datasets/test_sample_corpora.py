"""The sample corpora: in the real formats, with the real traits, and answerable from their histories."""

import json
from collections import Counter

import pytest

from pytest_dshmem.bundled import bundled_path
from pytest_dshmem.datasets.catalog import open_benchmark
from pytest_dshmem.datasets.views import Benchmark


def sample(name: str) -> Benchmark:
    return open_benchmark(name, sample_corpus=True, environment={})


def said(benchmark: Benchmark, sample_id: str) -> str:
    history = benchmark.history(sample_id)
    return "\n".join(turn.text for session in history.sessions for turn in session.turns)


def test_locomo_sample_covers_every_category_in_two_conversations() -> None:
    benchmark = sample("locomo")
    for sample_id in ("conv-a", "conv-b"):
        mine = [each for each in benchmark.listings() if each.sample_id == sample_id]
        assert {each.category for each in mine} == set(benchmark.categories)
        assert 12 <= len(mine) <= 16
        sessions = benchmark.history(sample_id).sessions
        assert 4 <= len(sessions) <= 6
        assert all(8 <= len(session.turns) <= 14 for session in sessions)
        assert [session.date for session in sessions] == sorted(session.date for session in sessions)


def test_locomo_sample_has_the_traits_of_the_real_file() -> None:
    benchmark = sample("locomo")
    assert benchmark.oddities().keys() >= {
        "adversarial questions left out",
        "answers that are numbers",
        "dates without a session",
        "evidence marks without a turn",
        "questions with irregular evidence",
        "questions without evidence",
        "sessions opened by the second speaker",
    }
    numbers = [key for key in raw("locomo")[1]["conversation"] if key.startswith("session_10")]
    assert numbers == ["session_10_date_time", "session_10"]
    assert any(turn.caption for session in benchmark.history("conv-a").sessions for turn in session.turns)


def test_longmemeval_sample_covers_every_type_and_two_abstentions() -> None:
    benchmark = sample("longmemeval")
    assert {each.category for each in benchmark.listings()} == set(benchmark.categories)
    assert sum(each.abstention for each in benchmark.listings()) == 2
    assert all(3 <= len(benchmark.history(each.sample_id).sessions) <= 5 for each in benchmark.listings())


def test_longmemeval_sample_has_the_traits_of_the_real_file() -> None:
    assert sample("longmemeval").oddities().keys() >= {
        "answers that are numbers",
        "blank turns",
        "instances whose sessions are not in order of date",
        "instances with a repeated session id",
        "instances with a session after the question",
        "sessions opened by the assistant",
        "sessions without turns",
    }
    used = Counter(name for item in raw("longmemeval") for name in set(item["haystack_session_ids"]))
    assert max(used.values()) > 1


@pytest.mark.parametrize(
    ("name", "categories", "count"),
    [
        ("locomo", {"single-hop"}, 13),
        ("longmemeval", {"single-session-user", "single-session-assistant", "knowledge-update"}, 4),
    ],
)
def test_what_needs_no_reasoning_is_said_literally(name: str, categories: set[str], count: int) -> None:
    benchmark = sample(name)
    asked = [each for each in benchmark.listings() if each.category in categories and not each.abstention]
    assert len(asked) == count
    for each in asked:
        assert benchmark.reference(each.question_id).gold.lower() in said(benchmark, each.sample_id).lower()


@pytest.mark.parametrize("name", ["locomo", "longmemeval"])
def test_evidence_names_what_was_said(name: str) -> None:
    benchmark = sample(name)
    for listing in benchmark.listings():
        sessions = benchmark.history(listing.sample_id).sessions
        for place in benchmark.reference(listing.question_id).evidence:
            session = sessions[place.session - 1]
            assert session.turns
            assert place.turn is None or session.turns[place.turn - 1].text.strip()


def raw(name: str) -> list[dict[str, dict[str, str]]]:
    content: list[dict[str, dict[str, str]]] = json.loads(
        bundled_path("corpora", f"{name}-sample.json").read_text()
    )
    return content
