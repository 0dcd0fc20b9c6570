"""What a run's figures are of, and what keeps them from being benchmark results.

Read from the manifest, from settings or facts of these names: `benchmark`, `data.name`, `data.sha256`,
`data.pinned`, `data.sample_corpus`, `offline`, `selection`, `split`, `memory_system.name`,
`memory_system.version`, `model.name`, `ingestion.way`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pytest_dshmem.record.fingerprint import FieldValue
from pytest_dshmem.report.reading import RunReading

OFFLINE = "offline: these figures are not benchmark results"
JUDGED_OFFLINE = "judged by the embedded judge: these figures are not benchmark results"
SAMPLE_CORPUS = "sample corpus: these figures are not benchmark results"
SMOKE = "smoke"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where figures come from. A text is empty where the manifest does not say it.

    `warnings` are what every page must say, at its head and at its foot. `publishes_total` is False for a
    smoke selection, whose few questions say that all works and nothing of how well.
    """

    run_id: str
    created_at: float
    benchmark: str
    data_name: str
    data_sha256: str
    memory_system: str
    model: str
    ingestion: str
    selection: str
    split: str
    judge_protocol: str
    judge_models: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def publishes_total(self) -> bool:
        return self.selection != SMOKE


def provenance(reading: RunReading) -> Provenance:
    """The provenance of a reading."""

    def text(name: str) -> str:
        value = reading.setting(name)
        return "" if value is None else str(value)

    judges = (call.model for verdict in reading.verdicts.values() for call in verdict.calls)
    system = " ".join(part for part in (text("memory_system.name"), text("memory_system.version")) if part)
    return Provenance(
        run_id=reading.manifest.run_id,
        created_at=reading.manifest.created_at,
        benchmark=text("benchmark"),
        data_name=text("data.name"),
        data_sha256=text("data.sha256"),
        memory_system=system,
        model=text("model.name"),
        ingestion=text("ingestion.way"),
        selection=text("selection"),
        split=text("split"),
        judge_protocol=reading.protocol or "",
        judge_models=tuple(dict.fromkeys(judges)),
        warnings=_warnings(reading.setting, reading.protocol),
    )


def _warnings(setting: Callable[[str], FieldValue], protocol: str | None) -> tuple[str, ...]:
    found = []
    if setting("offline") is not False:
        found.append(OFFLINE if setting("offline") else _silent("whether the model was a real one"))
    elif setting(f"judges.{protocol}.offline"):
        found.append(JUDGED_OFFLINE)
    if setting("data.sample_corpus") is not False:
        corpus = setting("data.sample_corpus")
        found.append(SAMPLE_CORPUS if corpus else _silent("whether the data set is a sample corpus"))
    elif setting("data.pinned") is not True:
        found.append(
            f"unpinned file: {setting('data.name') or 'the data set'} is not the published one, "
            "and its figures compare with no others"
        )
    return tuple(found)


def _silent(what: str) -> str:
    return f"the manifest does not say {what}: do not take these figures for benchmark results"
