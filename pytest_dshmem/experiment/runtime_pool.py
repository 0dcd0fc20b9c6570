"""Runtimes of one process: how many there may be, which questions share one, and how all of them end."""

import contextlib
import itertools
import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_dshmem.experiment.freezing import Snapshot
from pytest_dshmem.experiment.question_homes import QuestionHome, open_question_home
from pytest_dshmem.experiment.settings import Settings
from pytest_dshmem.harness.runtime import Runtime
from pytest_dshmem.harness.sandbox import THIS_PROCESS, Sandbox

BYTES_A_RUNTIME = 400_000_000
SESSIONS_BEFORE_ANOTHER_RUNTIME = 6
WAIT_SECONDS = 1.0


class PoolClosed(Exception):
    """The run is over: no runtime is given out any more."""


class LiveRuntimes:
    """Every runtime that this process has alive, so that none outlives it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive: set[Runtime] = set()
        self._killed = False

    def add(self, runtime: Runtime) -> None:
        """Lets `kill_all` reach a runtime, which may only be starting; one that has ended is left alone."""
        with self._lock:
            self._alive.add(runtime)
            if self._killed:
                runtime.kill()

    @contextlib.contextmanager
    def holding(self, runtime: Runtime) -> Iterator[Runtime]:
        """Closes the runtime at the end, and lets `kill_all` reach it until then."""
        self.add(runtime)
        try:
            yield runtime
        finally:
            runtime.close()
            with self._lock:
                self._alive.discard(runtime)

    def kill_all(self) -> None:
        """Ends all work at once: every session in flight gets RuntimeLost."""
        with self._lock:
            self._killed = True
            for runtime in self._alive:
                runtime.kill()


@dataclass(eq=False, slots=True)
class Place:
    """One question home in the pool and the number of questions in it."""

    formation: str
    home: QuestionHome
    end: contextlib.ExitStack
    load: int = 0


class RuntimePool:
    """Gives out homes to ask questions in, and places for formations, within what the machine bears.

    Questions on one snapshot share homes, at most `homes_a_snapshot` of them, evenly. Where the pool is full,
    a home in which nothing is going on makes room for one that is needed.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        settings: Settings,
        live: LiveRuntimes,
        *,
        capacity: int,
        homes_a_snapshot: int,
    ) -> None:
        self._sandbox = sandbox
        self._settings = settings
        self._live = live
        self._capacity = capacity
        self._exclusive = settings.system.writes_during_qa
        self._homes_a_snapshot = self._limit_of_homes(homes_a_snapshot)
        self._changed = threading.Condition()
        self._places: list[Place] = []
        self._starting: Counter[str] = Counter()
        self._asking: Counter[str] = Counter()
        self._taken = 0
        self._questions_without_room = 0
        self._closed = False
        self._numbers = itertools.count(1)

    @contextlib.contextmanager
    def for_formation(self) -> Iterator[None]:
        """Room for one runtime of a formation. Raises PoolClosed."""
        self._take_room()
        try:
            yield
        finally:
            self._give_room_back()

    @contextlib.contextmanager
    def for_question(self, formation: str, snapshot: Snapshot | None) -> Iterator[QuestionHome]:
        """A home with the snapshot, for one question. Raises PoolClosed and HarnessError."""
        with self._asking_in(formation):
            place = self._join(formation) or self._start(formation, snapshot)
            try:
                yield place.home
            finally:
                self._leave(place)

    def release(self, formation: str) -> None:
        """Closes the homes of a formation of which no question is left."""
        with self._changed:
            idle = [place for place in self._places if place.formation == formation and place.load == 0]
            self._hide(idle)
        self._retire(idle)

    def close(self) -> None:
        """Closes every home; whoever waits for one gets PoolClosed."""
        with self._changed:
            self._closed = True
            places = list(self._places)
            self._hide(places)
            self._changed.notify_all()
        self._retire(places)

    def _limit_of_homes(self, wanted: int) -> int:
        if not self._exclusive:
            return wanted
        shares_workspace = any(root.base == "workspace" for root in self._settings.system.state)
        return 1 if shares_workspace else self._capacity

    @contextlib.contextmanager
    def _asking_in(self, formation: str) -> Iterator[None]:
        with self._changed:
            self._asking[formation] += 1
        try:
            yield
        finally:
            with self._changed:
                self._asking[formation] -= 1

    def _join(self, formation: str) -> Place | None:
        """A home that is there already; None where the caller shall start one, for which room is taken."""
        with self._changed:
            while True:
                self._require_open()
                place = self._least_loaded(formation)
                if place is not None and not self._may_start(formation):
                    place.load += 1
                    return place
                if self._may_start(formation):
                    victim = self._find_room(formation)
                    if victim is not None:
                        self._starting[formation] += 1
                        self._changed.notify_all()
                        break
                    if place is not None:
                        place.load += 1
                        return place
                    self._wait_for_room()
                else:
                    self._changed.wait(WAIT_SECONDS)
        self._end(victim)
        return None

    def _wait_for_room(self) -> None:
        """Waits, and goes before formations: a snapshot that is ready is asked before another is formed."""
        self._questions_without_room += 1
        try:
            self._changed.wait(WAIT_SECONDS)
        finally:
            self._questions_without_room -= 1

    def _start(self, formation: str, snapshot: Snapshot | None) -> Place:
        name = f"questions-{THIS_PROCESS}-{next(self._numbers)}"
        try:
            home = open_question_home(
                self._sandbox, formation, name, self._settings, snapshot, self._live.add
            )
        except BaseException:
            with self._changed:
                self._starting[formation] -= 1
                self._taken -= 1
                self._changed.notify_all()
            raise
        end = contextlib.ExitStack()
        end.callback(home.remove)
        end.enter_context(self._live.holding(home.runtime))
        place = Place(formation, home, end, load=1)
        with self._changed:
            self._starting[formation] -= 1
            self._places.append(place)
            self._changed.notify_all()
        return place

    def _leave(self, place: Place) -> None:
        with self._changed:
            place.load -= 1
            used_up = self._exclusive or self._closed or not place.home.usable
            gone = [place] if place.load == 0 and used_up and place in self._places else []
            self._hide(gone)
            self._changed.notify_all()
        self._retire(gone)

    def _least_loaded(self, formation: str) -> Place | None:
        limit = 1 if self._exclusive else self._fair_share(formation)
        open_places = [
            place
            for place in self._places
            if place.formation == formation and place.home.usable and place.load < limit
        ]
        return min(open_places, key=lambda place: place.load, default=None)

    def _fair_share(self, formation: str) -> int:
        """What one home may carry: homes that are about to be there get their part of what waits now."""
        asking, homes = self._asking[formation], self._homes_of(formation)
        return math.ceil(asking / homes) if self._starting[formation] else asking

    def _may_start(self, formation: str) -> bool:
        """Whether one more home is worth its start: all that there are, or will be, have enough to do."""
        homes = self._homes_of(formation)
        enough = 1 if self._exclusive else SESSIONS_BEFORE_ANOTHER_RUNTIME
        return homes < self._homes_a_snapshot and self._asking[formation] > homes * enough

    def _homes_of(self, formation: str) -> int:
        """The homes in use for a formation, those that are being started included."""
        ready = sum(1 for place in self._places if place.formation == formation and place.home.usable)
        return ready + self._starting[formation]

    def _find_room(self, formation: str | None = None) -> list[Place] | None:
        """Takes room for a runtime; the idle home of another formation that had to go for it, if any.

        None where all are busy.
        """
        if self._taken < self._capacity:
            self._taken += 1
            return []
        idle = next(
            (place for place in self._places if place.load == 0 and place.formation != formation), None
        )
        if idle is None:
            return None
        self._places.remove(idle)
        return [idle]

    def _take_room(self) -> None:
        with self._changed:
            victim = None
            while victim is None:
                self._require_open()
                victim = None if self._questions_without_room else self._find_room()
                if victim is None:
                    self._changed.wait(WAIT_SECONDS)
        self._end(victim)

    def _give_room_back(self) -> None:
        with self._changed:
            self._taken -= 1
            self._changed.notify_all()

    def _hide(self, places: list[Place]) -> None:
        """Gives these homes to nobody any more; they keep their room until they have ended."""
        for place in places:
            self._places.remove(place)

    def _retire(self, places: list[Place]) -> None:
        for place in places:
            try:
                place.end.close()
            finally:
                self._give_room_back()

    def _end(self, places: list[Place]) -> None:
        for place in places:
            place.end.close()

    def _require_open(self) -> None:
        if self._closed:
            raise PoolClosed


def runtimes_that_fit(
    concurrency: int, processes: int = 1, free_bytes: Callable[[], int] | None = None
) -> int:
    """How many runtimes this process may have: by its share of the machine's free memory, at least two, at
    most one a unit of work."""
    share = (free_bytes or _free_bytes)() // processes
    return max(2, min(concurrency + 2, share // BYTES_A_RUNTIME))


def runtimes_that_pay(processes: int = 1, processors: int | None = None) -> int:
    """How many runtimes of this process may share the questions on one snapshot: one a processor of its
    share, at least two. A runtime uses one processor, which is what bounds the turns that it can take."""
    return max(2, (processors or _processors()) // processes)


def _processors() -> int:
    """The processors that this process may use, of which there may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _free_bytes() -> int:
    """Memory that can be had without swapping; half of all there is where the system does not say."""
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            available = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(available.split()[1]) * 1024
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
