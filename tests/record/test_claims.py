"""Claims: a unit of work is one process's at a time, and free in the moment in which that process dies."""

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_dshmem.record import claims as claims_module
from pytest_dshmem.record.claims import Claims, anyone_alive
from pytest_dshmem.record.journal import Journal, RecordError

HOLDER = """
import sys
from pathlib import Path
from pytest_dshmem.record.claims import Claims

claims = Claims(Path(sys.argv[1]))
print(claims.take(sys.argv[2]), flush=True)
sys.stdin.read()
"""

RACER = """
import sys
from pathlib import Path
from pytest_dshmem.record.claims import Claims

folder, name = Path(sys.argv[1]), sys.argv[2]
with Claims(folder / "claims") as claims:
    for unit in range(200):
        done = folder / f"done-{unit}"
        if not done.exists() and claims.take(str(unit)):
            if not done.exists():
                with (folder / "work.txt").open("a") as work:
                    work.write(f"{unit} {name}\\n")
                done.touch()
            claims.drop(str(unit))
"""


class Holder:
    """A process that holds one unit until it is ended."""

    def __init__(self, folder: Path, unit: str) -> None:
        arguments = [sys.executable, "-c", HOLDER, str(folder), unit]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.got_it = self.process.stdout.readline().strip() == "True"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=30)

    def leave(self) -> None:
        self.process.communicate(timeout=30)


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Callable[[str], Holder]]:
    holders: list[Holder] = []

    def start(unit: str) -> Holder:
        holders.append(Holder(tmp_path, unit))
        return holders[-1]

    yield start
    for holder in holders:
        if holder.process.poll() is None:
            holder.kill()


@pytest.fixture
def claims(tmp_path: Path) -> Iterator[Claims]:
    with Claims(tmp_path) as claims:
        yield claims


@pytest.fixture
def _death_is_seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_module, "ALIVE_MEMORY_SECONDS", 0.0)


def test_a_unit_is_taken_once_and_again_when_it_was_given_back(claims: Claims) -> None:
    assert claims.take("a")
    assert not claims.take("a")
    assert claims.take("b")
    claims.drop("a")
    assert claims.take("a")


def test_what_one_holder_has_the_other_does_not_get(tmp_path: Path, claims: Claims) -> None:
    with Claims(tmp_path) as other:
        assert claims.take("a")
        assert not other.take("a")
        other.drop("a")
        assert not other.take("a"), "only the owner gives a unit back"
        claims.drop("a")
        assert other.take("a")
        assert not claims.take("a")


def test_closing_frees_whatever_is_still_held(tmp_path: Path, claims: Claims) -> None:
    other = Claims(tmp_path)
    assert other.take("a")
    other.close()
    assert claims.take("a")
    other.close()
    assert claims.others_at() == 0


@pytest.mark.usefixtures("_death_is_seen_at_once")
def test_a_unit_of_a_killed_process_is_free_in_that_moment(
    claims: Claims, hold: Callable[[str], Holder]
) -> None:
    holder = hold("a")
    assert holder.got_it
    assert not claims.take("a")
    assert claims.others_at() == 1
    holder.kill()
    assert claims.others_at() == 0
    assert claims.take("a")


def test_a_death_is_seen_soon_by_one_who_has_just_looked(
    claims: Claims, hold: Callable[[str], Holder]
) -> None:
    holder = hold("a")
    assert not claims.take("a")
    holder.kill()
    end = time.monotonic() + 10 * claims_module.ALIVE_MEMORY_SECONDS
    while not claims.take("a"):
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.usefixtures("_death_is_seen_at_once")
def test_of_those_who_find_a_dead_owner_one_gets_the_unit(
    tmp_path: Path, claims: Claims, hold: Callable[[str], Holder]
) -> None:
    hold("a").kill()
    with Claims(tmp_path) as second, Claims(tmp_path) as third:
        got: list[str] = []
        threads = [
            threading.Thread(target=lambda who=who: got.append(who.owner) if who.take("a") else None)
            for who in (claims, second, third)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        while not got:  # each may have taken another's look at the dead owner's lock for the owner's life
            got += [who.owner for who in (claims, second, third) if who.take("a")]
        assert len(got) == 1


def test_others_are_counted_by_the_units_that_they_are_at(
    tmp_path: Path, claims: Claims, hold: Callable[[str], Holder]
) -> None:
    hold("ask:one/q1")
    with Claims(tmp_path) as third:
        assert third.take("ask:one/q2")
        assert third.take("ask:one/q3")
        assert third.take("ask:two/q1")
        assert claims.take("ask:one/q4")
        assert claims.others_at("ask:one/") == 2
        assert claims.others_at("ask:two/") == 1
        assert claims.others_at("form:") == 0


@pytest.mark.usefixtures("_death_is_seen_at_once")
def test_life_in_a_folder_is_seen(tmp_path: Path, hold: Callable[[str], Holder]) -> None:
    assert not anyone_alive(tmp_path / "nothing")
    holder = hold("a")
    assert anyone_alive(tmp_path)
    holder.kill()
    assert not anyone_alive(tmp_path)


def test_processes_that_race_do_every_unit_once(tmp_path: Path) -> None:
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, str(tmp_path), f"p{number}"]) for number in range(4)
    ]
    assert [racer.wait(120) for racer in racers] == [0, 0, 0, 0]
    done = [line.split() for line in (tmp_path / "work.txt").read_text().splitlines()]
    assert Counter(unit for unit, _who in done) == {str(unit): 1 for unit in range(200)}


def test_threads_of_one_process_do_every_unit_once(claims: Claims) -> None:
    taken: list[int] = []
    threads = [
        threading.Thread(target=lambda: taken.extend(unit for unit in range(100) if claims.take(str(unit))))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(100))


def test_a_claim_costs_less_than_a_millisecond(claims: Claims) -> None:
    started = time.process_time()
    for unit in range(1540):
        assert claims.take(f"ask:f/{unit}")
        claims.drop(f"ask:f/{unit}")
    assert (time.process_time() - started) / 1540 < 0.001


def test_a_claim_that_cannot_be_written_is_not_had(claims: Claims, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise RecordError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_write", refuse)
        with pytest.raises(RecordError, match="disk is full"):
            claims.take("a")
    assert claims.take("a")
