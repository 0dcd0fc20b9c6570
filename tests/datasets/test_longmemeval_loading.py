"""LongMemEval: parallel lists, odd haystacks and the index, on instances of our own writing."""

import json
import threading
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_dshmem.datasets import instance_index
from pytest_dshmem.datasets.fields import Record
from pytest_dshmem.datasets.instance_index import InstanceIndex, Survey, build_index
from pytest_dshmem.datasets.longmemeval import LongMemEval
from pytest_dshmem.datasets.views import DataError, EvidencePlace

Json = dict[str, Any]
Open = Callable[..., LongMemEval]


def test_sessions_are_joined_to_their_dates_and_sorted(open_longmemeval: Open, instance: Json) -> None:
    history = open_longmemeval(instance).history("ab12")
    assert (history.setting, history.participants) == ("assistant-chat", ("user", "assistant"))
    assert [session.number for session in history.sessions] == [1, 2]
    assert [session.date for session in history.sessions] == [
        datetime(2023, 5, 10, 10, 0),
        datetime(2023, 5, 20, 2, 21),
    ]
    assert [session.turns[0].text for session in history.sessions] == ["I have two cups.", "One more cup."]
    assert history.sessions[1].date_text == "2023/05/20 (Sat) 02:21"


def test_question_and_reference(open_longmemeval: Open, instance: Json) -> None:
    benchmark = open_longmemeval(instance)
    question, reference = benchmark.question("ab12"), benchmark.reference("ab12")
    assert (question.sample_id, question.asked_on) == ("ab12", "2023/05/30 (Tue) 23:40")
    assert (reference.gold, reference.category, reference.abstention) == ("3", "multi-session", False)
    # An answer session with marked turns is named by them, one without by itself.
    assert reference.evidence == (EvidencePlace(1), EvidencePlace(2, 1))


def test_an_abs_in_the_id_marks_an_abstention(open_longmemeval: Open, instance: Json) -> None:
    instance["question_id"] = "ab12_abs"
    benchmark = open_longmemeval(instance)
    assert [listing.abstention for listing in benchmark.listings()] == [True]
    assert benchmark.reference("ab12_abs").abstention


def test_sessions_of_one_minute_keep_the_order_of_the_file(open_longmemeval: Open, instance: Json) -> None:
    instance["haystack_dates"] = ["2023/05/20 (Sat) 02:21"] * 2
    history = open_longmemeval(instance).history("ab12")
    assert [session.turns[0].text for session in history.sessions] == ["One more cup.", "I have two cups."]


def test_nothing_odd_is_dropped_and_all_of_it_is_counted(open_longmemeval: Open, instance: Json) -> None:
    instance["haystack_dates"] += ["2023/06/01 (Thu) 00:00", "2023/05/21 (Sun) 08:00"]
    instance["haystack_session_ids"] += ["answer_late", "empty"]
    instance["haystack_sessions"] += [
        [{"role": "assistant", "content": " "}, {"role": "assistant", "content": "Hello?"}],
        [],
    ]
    instance["answer_session_ids"] += ["gone"]
    benchmark = open_longmemeval(instance)
    history = benchmark.history("ab12")
    assert [len(session.turns) for session in history.sessions] == [1, 2, 0, 2]
    assert history.sessions[3].turns[0].text == " "
    assert benchmark.reference("ab12").evidence == (EvidencePlace(1), EvidencePlace(2, 1), EvidencePlace(4))
    assert benchmark.oddities() == {
        "answer sessions that are not in the history": 1,
        "answers that are numbers": 1,
        "blank turns": 1,
        "instances whose sessions are not in order of date": 1,
        "instances with a repeated session id": 1,
        "instances with a session after the question": 1,
        "sessions in which one side speaks twice in a row": 1,
        "sessions opened by the assistant": 1,
        "sessions without turns": 1,
    }


def test_two_instances_that_share_a_session_share_nothing_else(
    open_longmemeval: Open, instance: Json
) -> None:
    other = {**instance, "question_id": "cd34", "question": "Another?", "answer": "no"}
    other |= {
        key: instance[key][:1] for key in ("haystack_dates", "haystack_session_ids", "haystack_sessions")
    }
    benchmark = open_longmemeval(instance, other)
    assert len(benchmark.history("ab12").sessions) == 2
    assert len(benchmark.history("cd34").sessions) == 1
    assert benchmark.reference("cd34").gold == "no"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"haystack_dates": []}, "0 haystack_dates, 2 haystack_session_ids and 2 haystack_sessions"),
        ({"question_type": "riddle"}, "'riddle' is not one of"),
        ({"question_date": "yesterday"}, "'question_date': 'yesterday' is not a date like"),
        ({"haystack_dates": ["2023/02/30 (Thu) 10:00"] * 2}, "haystack_dates[0]"),
        ({"answer": None}, "'answer' should be a text, not null"),
        ({"haystack_sessions": [[], "x"]}, "haystack_sessions[1]"),
        ({"haystack_sessions": [[{"role": "judge", "content": "x"}], []]}, "'judge' is neither user nor"),
        ({"haystack_sessions": [[], [{"role": "user"}]]}, "haystack_sessions[1][0]: the field 'content'"),
        ({"answer_session_ids": [1]}, "answer_session_ids[0]"),
    ],
)
def test_a_bad_instance_is_named(open_longmemeval: Open, instance: Json, change: Json, named: str) -> None:
    with pytest.raises(DataError) as raised:
        open_longmemeval({**instance, "question_id": "good"}, instance | change).listings()
    assert "instances.json, instance 1 (ab12)" in str(raised.value)
    assert named in str(raised.value)


def test_a_repeated_question_id_is_refused(open_longmemeval: Open, instance: Json) -> None:
    with pytest.raises(DataError, match="'ab12' is taken"):
        open_longmemeval(instance, instance).listings()


def test_the_index_is_built_once_and_then_loaded(
    open_longmemeval: Open, instance: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_longmemeval(instance)
    expected = (first.listings(), first.oddities())
    monkeypatch.setattr(instance_index, "build_index", lambda *_: pytest.fail("indexed again"))
    second = open_longmemeval(instance)
    assert (second.listings(), second.oddities()) == expected
    assert second.history("ab12") == first.history("ab12")


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"format": 1}', b'{"format": 1, "instances": [[1]]}'])
def test_a_broken_index_is_built_anew(
    open_longmemeval: Open, instance: Json, tmp_path: Path, damage: bytes
) -> None:
    expected = open_longmemeval(instance).listings()
    (stored,) = (tmp_path / "cache" / "index").glob("*.json")
    sound = stored.read_bytes()
    stored.write_bytes(damage)
    assert open_longmemeval(instance).listings() == expected
    assert stored.read_bytes() == sound


def test_an_index_of_another_content_is_never_used(open_longmemeval: Open, instance: Json) -> None:
    open_longmemeval(instance).listings()
    assert [x.question_id for x in open_longmemeval(instance | {"question_id": "new"}).listings()] == ["new"]


def test_only_one_of_many_builds_the_index(
    open_longmemeval: Open, instance: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Path] = []
    start = threading.Barrier(4)

    def build(path: Path, survey: Callable[[Record], Survey]) -> InstanceIndex:
        built.append(path)
        time.sleep(0.05)
        return build_index(path, survey)

    def listed(benchmark: LongMemEval) -> int:
        start.wait()
        return len(benchmark.listings())

    monkeypatch.setattr(instance_index, "build_index", build)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(listed, [open_longmemeval(instance) for _ in range(4)])) == [1] * 4
    assert len(built) == 1


def test_an_indented_file_reads_like_a_compact_one(
    open_longmemeval: Open, instance: Json, tmp_path: Path
) -> None:
    instances = [instance | {"question_id": f"q{number}", "answer": 'a "b" \\ {c]\n'} for number in range(5)]
    compact = open_longmemeval(*instances)
    expected = [(compact.history(f"q{n}"), compact.reference(f"q{n}")) for n in range(5)]
    path = tmp_path / "indented.json"
    texts = [json.dumps(each, indent=4).replace("\n", "\n    ") for each in instances]
    path.write_text("[\n    " + ",\n    ".join(texts) + "\n]\n")
    indented = LongMemEval(path, compact.file, None)
    assert indented.listings() == compact.listings()
    assert [(indented.history(f"q{n}"), indented.reference(f"q{n}")) for n in range(5)] == expected


def test_indexing_never_holds_the_file(open_longmemeval: Open, instance: Json) -> None:
    long_turn = {"role": "user", "content": 'He said "so" \\ and [left}. ' * 3000}
    instance["haystack_sessions"] = [[long_turn], [long_turn]]
    benchmark = open_longmemeval(*(instance | {"question_id": f"q{number}"} for number in range(120)))
    assert benchmark.file.bytes > 18_000_000
    tracemalloc.start()
    assert len(benchmark.listings()) == 120
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 9_000_000


def test_a_file_that_changed_after_indexing_is_refused(
    open_longmemeval: Open, instance: Json, tmp_path: Path
) -> None:
    benchmark = open_longmemeval(instance)
    benchmark.listings()
    (tmp_path / "instances.json").write_text(json.dumps([instance | {"question_id": "zz99"}]))
    with pytest.raises(DataError, match="has changed since it was indexed"):
        benchmark.history("ab12")


def test_a_cache_that_cannot_be_written_is_one_sentence(
    open_longmemeval: Open, instance: Json, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(DataError, match="set DSHMEM_CACHE to a folder that can"):
        open_longmemeval(instance).listings()


@pytest.mark.parametrize(
    "text", ["", " ", "[]", "{}", "[", "[{}", "[{}]]", "[1]", '["x"]', "[{},,{}]", "[{}]x", "[[]]"]
)
def test_a_file_that_is_no_list_of_instances_is_one_sentence(
    open_longmemeval: Open, tmp_path: Path, text: str
) -> None:
    benchmark = open_longmemeval()
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"other\.json"):
        LongMemEval(path, benchmark.file, None).listings()
