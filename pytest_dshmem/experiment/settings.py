"""The settings of an experiment: everything that its hypotheses depend on, and how hard it may try."""

from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_dshmem.experiment.prompting import PROMPT_VERSION, prompt_hashes
from pytest_dshmem.harness.composition import ModelRetries
from pytest_dshmem.harness.endpoint import Endpoint
from pytest_dshmem.harness.memory_system import MemorySystem
from pytest_dshmem.record.fingerprint import FieldValue, flatten

IngestionWay = Literal["transcript", "replay"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a turn (steps and seconds), of a start, and the number of attempts at a unit of work."""

    ingest_steps: int = 16
    ingest_seconds: float = 600.0
    question_steps: int = 10
    question_seconds: float = 300.0
    start_seconds: float = 180.0
    attempts: int = 2
    context_window: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """One experiment's settings. `endpoint` decides where the model is, not what a result means."""

    endpoint: Endpoint
    model: str
    system: MemorySystem
    ingest_effort: str = "low"
    question_effort: str = "high"
    ingestion: IngestionWay = "transcript"
    limits: Limits = field(default_factory=Limits)
    retries: ModelRetries = field(default_factory=ModelRetries)

    def fields(self) -> dict[str, FieldValue]:
        """The settings that two runs must share to be the same run, as flat fields."""
        settings: dict[str, Any] = {
            "model": {
                "name": self.model,
                "provider": self.endpoint.provider,
                "ingest_effort": self.ingest_effort,
                "question_effort": self.question_effort,
            },
            "memory_system": {
                "name": self.system.name,
                "version": self.system.version,
                "fingerprint": self.system.fingerprint(),
            },
            "ingestion": {"way": self.ingestion},
            "limits": {
                "ingest_steps": self.limits.ingest_steps,
                "ingest_seconds": self.limits.ingest_seconds,
                "question_steps": self.limits.question_steps,
                "question_seconds": self.limits.question_seconds,
                "context_window": self.limits.context_window,
            },
            "prompts": {"version": PROMPT_VERSION, **prompt_hashes()},
        }
        return flatten(settings)
