"""The real files, counted. Skipped where DSHMEM_DATA does not name their folder."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_dshmem.datasets.views import Benchmark, DataError

# Sessions, turns, and questions of categories 1 to 4.
LOCOMO = {
    "conv-26": (19, 419, (32, 37, 13, 70)),
    "conv-30": (19, 369, (11, 26, 0, 44)),
    "conv-41": (32, 663, (31, 27, 8, 86)),
    "conv-42": (29, 629, (37, 40, 11, 111)),
    "conv-43": (29, 680, (31, 26, 14, 107)),
    "conv-44": (28, 675, (30, 24, 7, 62)),
    "conv-47": (31, 689, (20, 34, 13, 83)),
    "conv-48": (30, 681, (21, 42, 10, 118)),
    "conv-49": (25, 509, (37, 33, 13, 73)),
    "conv-50": (30, 568, (32, 32, 7, 87)),
}
OpenBenchmark = Callable[..., Benchmark]
NUMBERED = ("multi-hop", "temporal", "open-domain", "single-hop")


@pytest.fixture(scope="module")
def locomo(open_real: OpenBenchmark) -> Benchmark:
    return open_real("locomo")


@pytest.fixture(scope="module")
def oracle(open_real: OpenBenchmark) -> Benchmark:
    return open_real("longmemeval", variant="oracle")


def test_all_1540_questions_of_locomo_are_listed_in_a_stable_order(
    locomo: Benchmark, open_real: OpenBenchmark
) -> None:
    ids = [listing.question_id for listing in locomo.listings()]
    assert len(ids) == len(set(ids)) == 1540
    assert all(each.isascii() for each in ids)
    assert ids == sorted(ids)
    assert ids == [listing.question_id for listing in open_real("locomo").listings()]
    assert ids[:2] == ["conv-26-q000", "conv-26-q001"]
    assert sum(listing.sample_id == "conv-26" for listing in locomo.listings()) == 152
    assert locomo.file.pinned


@pytest.mark.parametrize("sample_id", LOCOMO)
def test_a_conversation_of_locomo_has_its_size(locomo: Benchmark, sample_id: str) -> None:
    sessions, turns, categories = LOCOMO[sample_id]
    history = locomo.history(sample_id)
    counted = Counter(each.category for each in locomo.listings() if each.sample_id == sample_id)
    assert len(history.sessions) == sessions
    assert sum(len(session.turns) for session in history.sessions) == turns
    assert tuple(counted[name] for name in NUMBERED) == categories
    dates = [session.date for session in history.sessions]
    assert dates == sorted(dates)
    assert [session.number for session in history.sessions] == list(range(1, sessions + 1))


def test_the_captions_of_locomo_are_all_there(locomo: Benchmark) -> None:
    histories = [locomo.history(sample_id) for sample_id in LOCOMO]
    turns = [turn for history in histories for session in history.sessions for turn in session.turns]
    assert sum(turn.caption is not None for turn in turns) == 1226


def test_what_is_odd_in_locomo(locomo: Benchmark) -> None:
    assert locomo.oddities() == {
        "adversarial questions left out": 446,
        "answers that are numbers": 6,
        "dates without a session": 16,
        "evidence marks without a turn": 3,
        "questions that stand twice in a sample": 12,
        "questions with irregular evidence": 9,
        "questions without evidence": 4,
        "sessions opened by the second speaker": 124,
    }


def test_evidence_of_locomo_is_found_wherever_there_is_any(locomo: Benchmark) -> None:
    lost = [each.question_id for each in locomo.listings() if not locomo.reference(each.question_id).evidence]
    assert len(lost) == 4


def test_the_oracle_has_500_questions_by_type(oracle: Benchmark) -> None:
    listings = oracle.listings()
    assert len({listing.question_id for listing in listings}) == 500
    assert Counter(listing.category for listing in listings) == {
        "temporal-reasoning": 133,
        "multi-session": 133,
        "knowledge-update": 78,
        "single-session-user": 70,
        "single-session-assistant": 56,
        "single-session-preference": 30,
    }
    assert Counter(listing.category for listing in listings if listing.abstention) == {
        "multi-session": 12,
        "temporal-reasoning": 6,
        "knowledge-update": 6,
        "single-session-user": 6,
    }


def test_what_is_odd_in_the_oracle(oracle: Benchmark) -> None:
    assert oracle.oddities() == {
        "answers that are numbers": 32,
        "instances whose sessions are not in order of date": 34,
        "instances with a session after the question": 43,
        "sessions in which one side speaks twice in a row": 1,
        "sessions opened by the assistant": 5,
    }


def test_every_instance_of_the_oracle_reads_in_order_with_evidence(oracle: Benchmark) -> None:
    for listing in oracle.listings():
        history = oracle.history(listing.sample_id)
        reference = oracle.reference(listing.question_id)
        dates = [session.date for session in history.sessions]
        assert dates == sorted(dates)
        assert reference.evidence
        for place in reference.evidence:
            assert place.turn is None or place.turn <= len(history.sessions[place.session - 1].turns)


def test_the_three_real_haystacks_of_s(real_data: Path, open_real: OpenBenchmark, oracle: Benchmark) -> None:
    path = real_data / "longmemeval" / "s_size_real3.json"
    small = open_real("longmemeval", folder=path, allow_unpinned=True)
    assert [listing.question_id for listing in small.listings()] == ["852ce960", "ba358f49", "6a1eabeb"]
    for listing in small.listings():
        assert len(small.history(listing.sample_id).sessions) > 30
        assert small.question(listing.question_id).text == oracle.question(listing.question_id).text
        assert small.reference(listing.question_id).gold == oracle.reference(listing.question_id).gold
    with pytest.raises(DataError, match="allow-unpinned"):
        open_real("longmemeval", folder=path)
