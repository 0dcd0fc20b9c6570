"""How a figure is printed: what was measured, against what, the bound, and the machine."""

import argparse
import os
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

PACKAGES = ("pytest-dshmem", "deepseek-harness-sdk", "pytest", "pytest-xdist")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number and the bound that it has to keep: at most (or, with `at_least`, at least) so much."""

    measure: str
    value: float
    bound: float
    unit: str = "times"
    at_least: bool = False
    from_what: str = ""

    @property
    def holds(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        return (
            f"{self.measure}: {self.value:.2f} {self.unit} (bound {sign} {self.bound:g}): {verdict}"
            f"{f'; {self.from_what}' if self.from_what else ''}"
        )


def ratio(
    measure: str, measured: float, against: float, bound: float, *, unit: str = "s", at_least: bool = False
) -> Figure:
    """The figure of one quantity over another, with both of them shown."""
    told = f"{measured:.2f} {unit} over {against:.2f} {unit}"
    return Figure(measure, measured / against, bound, at_least=at_least, from_what=told)


def median_of(count: int, measure: Callable[[], Sequence[Figure]]) -> list[Figure]:
    """Measures several times and keeps, figure by figure, the one in the middle (of two, the worse)."""
    rounds = [measure() for _ in range(count)]
    middle = []
    for same in zip(*rounds, strict=True):
        pick = statistics.median_low if same[0].at_least else statistics.median_high
        value = pick(figure.value for figure in same)
        middle.append(next(figure for figure in same if figure.value == value))
    return middle


def show(figures: Sequence[Figure]) -> int:
    """Prints figures and the machine's size. The exit status: 1 where a bound does not hold."""
    for figure in figures:
        print(figure)
    print(machine(), flush=True)
    return 0 if all(figure.holds for figure in figures) else 1


def parser_for(description: str | None) -> argparse.ArgumentParser:
    """A parser that shows a script's own words as they stand."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def machine() -> str:
    """The machine and the versions that figures belong to, in one line."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    return (
        f"on {os.cpu_count()} cores, {memory:.0f} GiB, load {os.getloadavg()[0]:.1f}, "
        f"{platform.system()}, Python {platform.python_version()}, {versions}"
    )
