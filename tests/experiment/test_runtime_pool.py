"""The runtime pool: no more runtimes than the machine bears, shared where that is sound, and no deadlock."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fake_work import PATIENCE_SECONDS, wait_for

from pytest_dshmem.experiment import runtime_pool
from pytest_dshmem.experiment.runtime_pool import (
    LiveRuntimes,
    PoolClosed,
    RuntimePool,
    runtimes_that_fit,
    runtimes_that_pay,
)
from pytest_dshmem.harness.endpoint import HarnessError


class FakeRuntime:
    def __init__(self, house: "House") -> None:
        self._house = house
        self.alive = True
        self.killed = False

    def close(self) -> None:
        if self.alive:
            self.alive = False
            self._house.end_one()

    def kill(self) -> None:
        self.killed = True


class FakeHome:
    def __init__(self, house: "House", formation: str) -> None:
        self.formation = formation
        self.runtime = FakeRuntime(house)
        self.usable = True
        self.removed = False

    def remove(self) -> None:
        assert not self.runtime.alive, "the folders go when the runtime has ended"
        self.removed = True


class House:
    """Opens fake homes, and counts the runtimes that are alive, formations included."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.opened: list[FakeHome] = []
        self.alive = 0
        self.most_alive = 0
        self.refusal: Exception | None = None
        self.may_open = threading.Event()
        self.may_open.set()

    def open(self, _sandbox: object, formation: str, *_others: object) -> FakeHome:
        wait_for(self.may_open)
        if self.refusal is not None:
            raise self.refusal
        self.begin_one()
        self.opened.append(FakeHome(self, formation))
        return self.opened[-1]

    def begin_one(self) -> None:
        with self._lock:
            self.alive += 1
            self.most_alive = max(self.most_alive, self.alive)

    def end_one(self) -> None:
        with self._lock:
            self.alive -= 1

    @contextmanager
    def formation(self, pool: RuntimePool) -> Iterator[None]:
        with pool.for_formation():
            self.begin_one()
            try:
                yield
            finally:
                self.end_one()

    def homes_of(self, formation: str) -> int:
        return sum(1 for home in self.opened if home.formation == formation)


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> House:
    house = House()
    monkeypatch.setattr(runtime_pool, "open_question_home", house.open)
    return house


def pool_of(
    capacity: int,
    *,
    homes_a_snapshot: int = 2,
    writes_during_qa: bool = False,
    state_in: str = "dsh-home",
    live: LiveRuntimes | None = None,
) -> RuntimePool:
    system = SimpleNamespace(writes_during_qa=writes_during_qa, state=(SimpleNamespace(base=state_in),))
    settings = SimpleNamespace(system=system)
    return RuntimePool(
        cast(Any, None),
        cast(Any, settings),
        live or LiveRuntimes(),
        capacity=capacity,
        homes_a_snapshot=homes_a_snapshot,
    )


def at_once(tasks: list[Callable[[], None]]) -> None:
    """Runs tasks in threads of their own and waits for all; the first thing that went wrong is raised."""
    problems: list[BaseException] = []

    def carry_out(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=carry_out, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert not any(thread.is_alive() for thread in threads), "a deadlock"
    if problems:
        raise problems[0]


def asking(pool: RuntimePool, formation: str) -> Callable[[], None]:
    def ask() -> None:
        with pool.for_question(formation, None):
            pass

    return ask


class TestSharing:
    @pytest.mark.usefixtures("house")
    def test_questions_on_one_snapshot_share_a_home(self) -> None:
        pool = pool_of(4)
        with pool.for_question("a", None) as one, pool.for_question("a", None) as other:
            assert one is other
        with pool.for_question("a", None) as later:
            assert later is one

    @pytest.mark.usefixtures("house")
    def test_snapshots_share_nothing(self) -> None:
        pool = pool_of(4)
        with pool.for_question("a", None) as one, pool.for_question("b", None) as other:
            assert one is not other

    def test_a_second_home_is_opened_where_there_is_enough_to_do(self, house: House) -> None:
        pool = pool_of(8, homes_a_snapshot=2)
        everybody_asks = threading.Barrier(16)
        loads: Counter[object] = Counter()

        def ask() -> None:
            with pool.for_question("a", None) as home:
                loads[home] += 1
                everybody_asks.wait(PATIENCE_SECONDS)

        at_once([ask] * 16)
        assert house.homes_of("a") == 2
        assert sum(loads.values()) == 16
        assert min(loads.values()) >= 5, "they are shared evenly"

    def test_a_few_questions_do_not_pay_for_a_second_home(self, house: House) -> None:
        pool = pool_of(8, homes_a_snapshot=2)
        everybody_asks = threading.Barrier(4)

        def ask() -> None:
            with pool.for_question("a", None):
                everybody_asks.wait(PATIENCE_SECONDS)

        at_once([ask] * 4)
        assert house.homes_of("a") == 1

    def test_a_home_that_was_lost_is_given_to_nobody_and_ends_with_its_last_question(
        self, house: House
    ) -> None:
        pool = pool_of(4)
        with pool.for_question("a", None) as lost:
            with pool.for_question("a", None):
                house.opened[0].usable = False
                with pool.for_question("a", None) as new:
                    assert new is not lost
            assert house.opened[0].runtime.alive
        assert not house.opened[0].runtime.alive
        assert house.opened[0].removed
        assert house.opened[1].runtime.alive


class TestSystemsThatWriteDuringQuestions:
    def test_every_question_has_a_home_of_its_own(self, house: House) -> None:
        pool = pool_of(8, writes_during_qa=True)
        everybody_asks = threading.Barrier(3)
        homes: list[object] = []

        def ask() -> None:
            with pool.for_question("a", None) as home:
                homes.append(home)
                everybody_asks.wait(PATIENCE_SECONDS)

        at_once([ask] * 3)
        assert len(set(homes)) == 3
        assert house.alive == 0, "a home is used once"

    def test_a_workspace_that_is_written_to_is_one_questions_at_a_time(self, house: House) -> None:
        pool = pool_of(8, writes_during_qa=True, state_in="workspace")
        at_once([asking(pool, "a") for _ in range(6)])
        assert house.most_alive == 1
        assert len(house.opened) == 6


class TestCapacity:
    @pytest.mark.parametrize("capacity", [1, 2, 3])
    def test_more_snapshots_than_room_end_without_a_deadlock(self, house: House, capacity: int) -> None:
        pool = pool_of(capacity)

        def form_and_ask(sample: str) -> Callable[[], None]:
            def work() -> None:
                with house.formation(pool):
                    pass
                for _ in range(3):
                    asking(pool, sample)()
                pool.release(sample)

            return work

        at_once([form_and_ask(f"s{number}") for number in range(12)])
        assert 1 <= house.most_alive <= capacity
        pool.close()
        assert house.alive == 0

    @pytest.mark.parametrize("capacity", [1, 2, 5])
    def test_crowds_of_questions_keep_within_the_room_there_is(self, house: House, capacity: int) -> None:
        pool = pool_of(capacity)
        at_once([asking(pool, f"s{number % 6}") for number in range(60)])
        assert house.most_alive <= capacity

    @pytest.mark.parametrize("capacity", [1, 3])
    def test_so_do_those_that_share_nothing(self, house: House, capacity: int) -> None:
        pool = pool_of(capacity, writes_during_qa=True)
        at_once([asking(pool, f"s{number % 3}") for number in range(20)])
        assert house.most_alive <= capacity

    def test_an_idle_home_makes_room_for_one_that_is_needed(self, house: House) -> None:
        pool = pool_of(1)
        asking(pool, "a")()
        assert house.opened[0].runtime.alive
        with pool.for_question("b", None) as home:
            assert cast(FakeHome, home).formation == "b"
            assert house.opened[0].removed
        with house.formation(pool):
            assert house.opened[1].removed

    def test_a_home_with_a_question_in_it_never_makes_room(self, house: House) -> None:
        pool = pool_of(1)
        got = threading.Event()

        def ask_b() -> None:
            with pool.for_question("b", None):
                got.set()

        with pool.for_question("a", None):
            waiting = threading.Thread(target=ask_b, daemon=True)
            waiting.start()
            assert not got.wait(0.1)
            assert house.opened[0].runtime.alive
        wait_for(got)
        waiting.join(PATIENCE_SECONDS)

    def test_an_idle_home_of_the_same_snapshot_is_used_and_not_replaced(self, house: House) -> None:
        pool = pool_of(1, homes_a_snapshot=2)
        asking(pool, "a")()
        with ExitStack() as many_on_their_way:
            for _ in range(20):
                many_on_their_way.enter_context(pool._asking_in("a"))
            asking(pool, "a")()
        assert len(house.opened) == 1

    @pytest.mark.usefixtures("house")
    def test_questions_on_a_snapshot_that_is_ready_go_before_another_formation(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pool = pool_of(1)
        order: list[str] = []
        question_waits, formation_waits = threading.Event(), threading.Event()
        real_wait = pool._changed.wait

        def wait(timeout: float | None = None) -> bool:
            (question_waits if pool._questions_without_room else formation_waits).set()
            return real_wait(timeout)

        monkeypatch.setattr(pool._changed, "wait", wait)

        def ask() -> None:
            with pool.for_question("a", None):
                order.append("question")

        def form() -> None:
            with pool.for_formation():
                order.append("formation")

        with pool.for_formation():
            threads = [threading.Thread(target=form, daemon=True) for _ in range(3)]
            for thread in threads:
                thread.start()
            wait_for(formation_waits)
            threads.append(threading.Thread(target=ask, daemon=True))
            threads[-1].start()
            wait_for(question_waits)
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
        assert order == ["question", "formation", "formation", "formation"]

    def test_a_home_that_cannot_be_opened_takes_no_room(self, house: House) -> None:
        pool = pool_of(1)
        house.refusal = HarnessError("it did not start")
        for _ in range(3):
            with pytest.raises(HarnessError), pool.for_question("a", None):
                pass
        house.refusal = None
        asking(pool, "a")()
        assert len(house.opened) == 1

    def test_released_homes_end_and_those_in_use_stay(self, house: House) -> None:
        pool = pool_of(4)
        asking(pool, "a")()
        with pool.for_question("b", None):
            pool.release("a")
            pool.release("b")
            assert [home.runtime.alive for home in house.opened] == [False, True]

    def test_what_the_machine_bears_goes_by_its_memory_and_the_work(self) -> None:
        assert runtimes_that_fit(16, free_bytes=lambda: 100_000_000) == 2
        assert runtimes_that_fit(16, free_bytes=lambda: 4_000_000_000) == 10
        assert runtimes_that_fit(4, free_bytes=lambda: 64_000_000_000) == 6
        assert runtimes_that_fit(4) >= 2

    def test_processes_that_share_the_work_share_its_memory(self) -> None:
        assert runtimes_that_fit(16, 2, free_bytes=lambda: 4_000_000_000) == 5
        assert runtimes_that_fit(16, 8, free_bytes=lambda: 4_000_000_000) == 2

    def test_questions_on_one_snapshot_are_shared_out_over_the_processors(self) -> None:
        assert runtimes_that_pay(processors=1) == 2
        assert runtimes_that_pay(processors=16) == 16
        assert runtimes_that_pay(4, processors=16) == 4
        assert runtimes_that_pay() >= 2


class TestTheEnd:
    @pytest.mark.usefixtures("house")
    def test_nothing_is_given_out_after_it(self) -> None:
        pool = pool_of(4)
        pool.close()
        with pytest.raises(PoolClosed):
            asking(pool, "a")()
        with pytest.raises(PoolClosed), pool.for_formation():
            pass

    def test_every_idle_home_ends_with_it(self, house: House) -> None:
        pool = pool_of(4)
        asking(pool, "a")()
        asking(pool, "b")()
        pool.close()
        assert [home.removed for home in house.opened] == [True, True]

    @pytest.mark.usefixtures("house")
    def test_whoever_waits_is_told(self) -> None:
        pool = pool_of(1)
        told: list[str] = []

        def wait_in_vain(kind: str) -> None:
            try:
                if kind == "formation":
                    with pool.for_formation():
                        pass
                else:
                    asking(pool, kind)()
            except PoolClosed:
                told.append(kind)

        with pool.for_formation():
            threads = [
                threading.Thread(target=wait_in_vain, args=(kind,), daemon=True)
                for kind in ("formation", "a", "b")
            ]
            for thread in threads:
                thread.start()
            pool.close()
            for thread in threads:
                thread.join(PATIENCE_SECONDS)
        assert sorted(told) == ["a", "b", "formation"]

    def test_a_home_that_was_being_opened_ends_with_its_question(self, house: House) -> None:
        pool = pool_of(2)
        house.may_open.clear()
        asks = threading.Thread(target=asking(pool, "a"), daemon=True)
        asks.start()
        while not pool._starting["a"]:
            pass
        pool.close()
        house.may_open.set()
        asks.join(PATIENCE_SECONDS)
        assert house.alive == 0
        assert house.opened[0].removed


class TestLiveRuntimes:
    def test_all_that_are_alive_can_be_killed_and_later_ones_at_once(self, house: House) -> None:
        live, one, other = LiveRuntimes(), FakeRuntime(house), FakeRuntime(house)
        with live.holding(cast(Any, one)):
            live.kill_all()
            with live.holding(cast(Any, other)):
                assert (one.killed, other.killed) == (True, True)
        assert (one.alive, other.alive) == (False, False)

    def test_one_that_is_starting_can_be_killed_too(self, house: House) -> None:
        live, starting, too_late = LiveRuntimes(), FakeRuntime(house), FakeRuntime(house)
        live.add(cast(Any, starting))
        live.kill_all()
        live.add(cast(Any, too_late))
        assert (starting.killed, too_late.killed) == (True, True)

    def test_one_that_has_ended_is_left_alone(self, house: House) -> None:
        live, one = LiveRuntimes(), FakeRuntime(house)
        with live.holding(cast(Any, one)):
            pass
        live.kill_all()
        assert not one.killed
