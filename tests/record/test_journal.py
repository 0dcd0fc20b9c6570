"""Journals: whole lines from any text, any number of writers, any crash, and a disk that refuses."""

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_dshmem.record.entries import Consolidation, FormationKey, Hypothesis, QuestionKey
from pytest_dshmem.record.journal import Journal, RecordError

REPLACED = "\ufffd"
TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)
AWKWARD = ["\ud800", "a\udc00b", "\u2028\u2029\x85", "\x00", '"}\n{"', "\r\n", "\ufeff", "é🙂", ""]
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

WRITER = """
import sys
from pathlib import Path
from pytest_dshmem.record.entries import Hypothesis, QuestionKey
from pytest_dshmem.record.journal import Journal

journal = Journal(Path(sys.argv[1]), Hypothesis)
for number in range(int(sys.argv[3])):
    key = QuestionKey(question_id=f"{sys.argv[2]}-{number}", condition="memory")
    journal.append(
        Hypothesis(key=key, sample_id="s", state="answered", hypothesis="x" * 9000, started_at=0, seconds=0)
    )
"""


def answer(text: str, question_id: str = "q1") -> Hypothesis:
    return Hypothesis(
        key=QuestionKey(question_id=question_id, condition="memory"),
        sample_id="s",
        state="answered",
        hypothesis=text,
        started_at=0.0,
        seconds=1.0,
    )


@pytest.fixture
def journal(tmp_path: Path) -> Journal[Hypothesis]:
    return Journal(tmp_path / "qa.jsonl", Hypothesis)


def texts(journal: Journal[Hypothesis]) -> list[str]:
    return [entry.hypothesis for entry in journal.read()]


@in_one_folder
@given(st.lists(TEXTS, max_size=8))
def test_what_was_written_is_read_in_order_as_ascii_lines(tmp_path: Path, written: list[str]) -> None:
    journal = Journal(tmp_path / "qa.jsonl", Hypothesis)
    journal.path.unlink(missing_ok=True)
    entries = [answer(text) for text in written]
    for entry in entries:
        journal.append(entry)
    contents = journal.read()
    assert list(contents) == entries
    assert contents.torn == 0
    raw = journal.path.read_bytes() if written else b""
    assert raw.isascii()
    assert raw.count(b"\n") == len(written)


@pytest.mark.parametrize("text", AWKWARD)
def test_any_text_survives_and_never_breaks_the_line(journal: Journal[Hypothesis], text: str) -> None:
    journal.append(answer(text))
    journal.append(answer("after"))
    first, second = texts(journal)
    assert second == "after"
    assert first == "".join(REPLACED if "\ud800" <= sign <= "\udfff" else sign for sign in text)


def test_halves_of_a_surrogate_pair_are_joined_and_a_lone_one_is_replaced() -> None:
    assert answer("\ud83d\ude42").hypothesis == "🙂"
    assert answer("a\ud83d").hypothesis == f"a{REPLACED}"
    receipt = {"status": "failed", "notes": ["\udc00", {"\ud800": 1}]}
    entry = Consolidation(
        key=FormationKey(sample_id="s", condition="memory-consolidate"),
        session=1,
        state="failed",
        receipt=receipt,
        started_at=0.0,
        seconds=0.0,
    )
    assert entry.receipt == {"status": "failed", "notes": [REPLACED, {REPLACED: 1}]}


def test_a_torn_last_line_is_counted_sealed_and_followed_by_whole_ones(
    journal: Journal[Hypothesis], tmp_path: Path
) -> None:
    journal.append(answer("first"))
    whole = journal.path.read_bytes()
    journal.append(answer("torn"))
    both = journal.path.read_bytes()
    for cut in range(len(whole) + 1, len(both) - 1):
        file = tmp_path / "cut.jsonl"
        file.write_bytes(both[:cut])
        torn = Journal(file, Hypothesis)
        assert (texts(torn), torn.read().torn) == (["first"], 1), f"cut at byte {cut}"
        torn.append(answer("next"))
        torn.append(answer("last"))
        assert (texts(torn), torn.read().torn) == (["first", "next", "last"], 1), f"cut at byte {cut}"


def test_a_line_that_lost_only_its_end_is_not_lost(journal: Journal[Hypothesis]) -> None:
    journal.append(answer("first"))
    journal.path.write_bytes(journal.path.read_bytes()[:-1])
    reader = journal.reader()
    assert [entry.hypothesis for entry in reader.new_entries()] == ["first"]
    journal.append(answer("next"))
    assert [entry.hypothesis for entry in reader.new_entries()] == ["next"]
    assert (texts(journal), journal.read().torn) == (["first", "next"], 0)


def test_a_reader_gives_each_line_once_and_leaves_an_unfinished_one(journal: Journal[Hypothesis]) -> None:
    reader = journal.reader()
    assert reader.new_entries() == []
    journal.append(answer("one"))
    journal.append(answer("two"))
    line = journal.path.read_bytes().splitlines(keepends=True)[0]
    with journal.path.open("ab") as file:
        file.write(line[:40])
    assert [entry.hypothesis for entry in reader.new_entries()] == ["one", "two"]
    assert reader.new_entries() == []
    with journal.path.open("ab") as file:
        file.write(line[40:])
    assert [entry.hypothesis for entry in reader.new_entries()] == ["one"]


def test_a_line_of_another_version_is_named_with_its_place(journal: Journal[Hypothesis]) -> None:
    journal.append(answer("one"))
    with journal.path.open("ab") as file:
        file.write(b'{"key": 1, "colour": "blue"}\n')
    with pytest.raises(RecordError, match=r"qa\.jsonl line 2 .* is not a record of this version"):
        journal.read()


def test_a_missing_journal_is_an_empty_one(journal: Journal[Hypothesis]) -> None:
    assert (texts(journal), journal.read().torn) == ([], 0)


def test_a_journal_needs_no_other_file_or_folder(journal: Journal[Hypothesis]) -> None:
    journal.append(answer("one"))
    assert [path.name for path in journal.path.parent.iterdir()] == ["qa.jsonl"]


def test_many_threads_leave_whole_lines(journal: Journal[Hypothesis]) -> None:
    def write(writer: int) -> None:
        own = Journal(journal.path, Hypothesis) if writer % 2 else journal
        for number in range(25):
            own.append(answer("x" * 5000, f"{writer}-{number}"))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    contents = journal.read()
    assert contents.torn == 0
    ids = [entry.key.question_id for entry in contents]
    assert sorted(ids) == sorted(f"{writer}-{number}" for writer in range(8) for number in range(25))
    assert all(
        [i for i in ids if i.startswith(f"{writer}-")] == [f"{writer}-{n}" for n in range(25)]
        for writer in range(8)
    )


def test_several_processes_leave_whole_lines(journal: Journal[Hypothesis]) -> None:
    arguments = [sys.executable, "-c", WRITER, str(journal.path)]
    writers = [subprocess.Popen([*arguments, f"w{number}", "60"]) for number in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    contents = journal.read()
    assert contents.torn == 0
    assert {entry.key.question_id for entry in contents} == {f"w{w}-{n}" for w in range(3) for n in range(60)}
    assert len(contents.entries) == 180


def test_only_one_writer_at_a_time_decides(journal: Journal[Hypothesis]) -> None:
    def write_if_first(number: int) -> None:
        with journal.writing() as write:
            if not texts(journal):
                write(answer(str(number)))

    threads = [threading.Thread(target=write_if_first, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts(journal)) == 1


def writes_at_most(size: int, *, then_full: bool = False) -> Callable[[int, bytes], int]:
    """A system call that writes a piece only, and has no room for a second one if so told."""
    real, calls = os.write, [0]

    def write(descriptor: int, data: bytes) -> int:
        calls[0] += 1
        if then_full and calls[0] > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[:size])

    return write


def test_a_line_written_in_pieces_is_whole(
    journal: Journal[Hypothesis], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", writes_at_most(7))
        journal.append(answer("in many pieces"))
    assert texts(journal) == ["in many pieces"]


@pytest.mark.parametrize("size", [0, 1, 50])
def test_a_disk_that_is_full_in_the_middle_of_a_line_leaves_the_file_as_it_was(
    journal: Journal[Hypothesis], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    journal.append(answer("before"))
    before = journal.path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", writes_at_most(size, then_full=True))
        with pytest.raises(RecordError, match=r"cannot write to qa\.jsonl in .*No space left.*make room"):
            journal.append(answer("lost"))
    assert journal.path.read_bytes() == before
    journal.append(answer("after"))
    assert texts(journal) == ["before", "after"]


@pytest.mark.parametrize("call", ["open", "fstat", "pread"])
def test_whatever_the_system_refuses_is_said_in_one_sentence(
    journal: Journal[Hypothesis], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    journal.append(answer("before"))

    def refuse(*_arguments: Any, **_more: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        with pytest.raises(RecordError, match="Permission denied") as caught:
            journal.append(answer("refused"))
    assert "\n" not in str(caught.value)


def test_a_missing_folder_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"cannot write to qa\.jsonl in .*gone"):
        Journal(tmp_path / "gone" / "qa.jsonl", Hypothesis).append(answer("x"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)],
            capture_output=True,
            check=False,
        )
    except OSError:
        pytest.skip("there is no mount command here to make a small disk with")
    if mounted.returncode != 0:
        pytest.skip("only root may mount a small disk here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_on_a_really_full_disk_every_line_is_whole_and_the_run_goes_on_when_there_is_room(
    small_disk: Path,
) -> None:
    journal = Journal(small_disk / "qa.jsonl", Hypothesis)
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 20_000)
    written = 0
    while shutil.disk_usage(small_disk).free >= 8192:
        journal.append(answer("x" * 3000, f"q{written}"))
        written += 1
    with pytest.raises(RecordError, match="No space left"):
        journal.append(answer("x" * 9000, "too much"))
    assert 5 < written < 30
    assert [entry.key.question_id for entry in journal.read()] == [f"q{n}" for n in range(written)]
    assert journal.read().torn == 0
    ballast.unlink()
    journal.append(answer("room again"))
    assert texts(journal)[-1] == "room again"
    assert all(json.loads(line) for line in journal.path.read_text().splitlines())
