"""Runs of the same configuration over time, and how their accuracy drifts.

The same configuration is the same manifest fingerprint, the same selection, condition and repeat, and the
same judge protocol. What moves between two such runs is the model behind the endpoint, or chance.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_dshmem.experiment.statistics import Interval, NoInterval, PairedComparison, wilson_interval
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.report.compare import Unit, pair_up, units_of
from pytest_dshmem.report.reading import Group, read_run


@dataclass(frozen=True, slots=True)
class Configuration:
    """What must be the same for a difference to be drift."""

    fingerprint: str
    protocol: str | None
    questions: frozenset[str]
    group: Group


@dataclass(frozen=True, slots=True)
class Occasion:
    """One run of a configuration. `drift` compares it with the first run of that configuration."""

    path: Path
    run_id: str
    created_at: float
    unit: Unit
    right: int
    judged: int
    interval: Interval | NoInterval
    drift: PairedComparison | None

    @property
    def accuracy(self) -> float | None:
        return self.right / self.judged if self.judged else None


@dataclass(frozen=True, slots=True)
class Series:
    """All runs of one configuration, oldest first."""

    configuration: Configuration
    occasions: tuple[Occasion, ...]

    @property
    def range(self) -> tuple[float, float] | None:
        """The lowest and the highest accuracy; None where fewer than two runs have one."""
        known = [o.accuracy for o in self.occasions if o.accuracy is not None]
        return (min(known), max(known)) if len(known) > 1 else None


@dataclass(frozen=True, slots=True)
class History:
    """Series in the order of their first run. `unreadable` says of what is no usable run why."""

    series: tuple[Series, ...]
    unreadable: tuple[str, ...]


def find_runs(folders: Iterable[Path]) -> list[Path]:
    """Run directories at or below the folders, without looking inside of runs. Raises RecordError."""
    found: list[Path] = []
    for folder in folders:
        if not folder.is_dir():
            raise RecordError(f"{folder} is not a folder; name a folder that holds run directories")
        found.extend(_runs_below(folder))
    return list(dict.fromkeys(found))


def history(folders: Iterable[Path]) -> History:
    """The series of all runs at or below the folders."""
    units: defaultdict[Configuration, list[Unit]] = defaultdict(list)
    unreadable = []
    for path in find_runs(folders):
        try:
            for unit in units_of([read_run(path)]):
                units[_configuration(unit)].append(unit)
        except RecordError as error:
            unreadable.append(str(error))
    series = [_series(configuration, members) for configuration, members in units.items()]
    series.sort(key=lambda one: one.occasions[0].created_at)
    return History(tuple(series), tuple(unreadable))


def _runs_below(folder: Path) -> list[Path]:
    if (folder / "run.json").is_file():
        return [folder]
    try:
        below = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink())
    except OSError as error:
        raise RecordError(f"cannot look into {folder}: {error.strerror or error}") from None
    return [run for entry in below for run in _runs_below(entry)]


def _configuration(unit: Unit) -> Configuration:
    reading = unit.reading
    return Configuration(
        fingerprint=reading.manifest.fingerprint,
        protocol=reading.protocol,
        questions=frozenset(unit.questions),
        group=unit.group,
    )


def _series(configuration: Configuration, units: Sequence[Unit]) -> Series:
    in_time = sorted(units, key=lambda unit: unit.reading.manifest.created_at)
    return Series(configuration, tuple(_occasion(unit, in_time[0]) for unit in in_time))


def _occasion(unit: Unit, first: Unit) -> Occasion:
    verdicts = unit.verdicts
    right = sum(verdicts.values())
    return Occasion(
        path=unit.reading.path,
        run_id=unit.reading.manifest.run_id,
        created_at=unit.reading.manifest.created_at,
        unit=unit,
        right=right,
        judged=len(verdicts),
        interval=wilson_interval(right, len(verdicts)),
        drift=None if unit is first else pair_up(first, unit).total,
    )
