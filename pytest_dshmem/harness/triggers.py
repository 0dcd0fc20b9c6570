"""How a profile says that its system consolidates, and what it accepts as evidence that this has finished."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, model_validator

from pytest_dshmem.harness.paths import Base
from pytest_dshmem.record.entries import ConsolidationState


class ProfilePart(BaseModel):
    """A part of a profile: immutable, and with no room for a misspelt key."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StatusEvidence(ProfilePart):
    """A status word in the reply. `status` and `reason` are dotted paths in its JSON object."""

    kind: Literal["status"]
    status: str = Field(default="status", min_length=1)
    reason: str | None = None
    committed: tuple[str, ...] = Field(min_length=1)
    no_change: tuple[str, ...] = ()
    truncated: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _each_word_has_one_meaning(self) -> "StatusEvidence":
        words = [*self.committed, *self.no_change, *self.truncated, *self.failed]
        doubled = sorted({word for word in words if words.count(word) > 1})
        if doubled:
            raise ValueError(f"the status word {doubled[0]!r} has two meanings")
        return self

    def meaning(self, word: str) -> ConsolidationState | None:
        """The state that a status word stands for; None for a word the profile does not know."""
        words: dict[ConsolidationState, tuple[str, ...]] = {
            "committed": self.committed,
            "no-change": self.no_change,
            "truncated": self.truncated,
            "failed": self.failed,
        }
        return next((state for state, known in words.items() if word in known), None)


class ExitStatusEvidence(ProfilePart):
    """The exit status of a command. Any status that is not listed is a failure."""

    kind: Literal["exit-status"]
    committed: tuple[int, ...] = (0,)
    no_change: tuple[int, ...] = ()
    truncated: tuple[int, ...] = ()


class FilesEvidence(ProfilePart):
    """A file that matches `glob` under a base folder has appeared or changed since the last consolidation."""

    kind: Literal["files"]
    base: Base
    glob: str = Field(min_length=1)


class QuietEvidence(ProfilePart):
    """The state has changed since the last consolidation, and has then been quiet for `seconds`."""

    kind: Literal["quiet"]
    seconds: PositiveFloat


ReplyEvidence = Annotated[StatusEvidence | FilesEvidence, Field(discriminator="kind")]
CommandEvidence = Annotated[StatusEvidence | ExitStatusEvidence | FilesEvidence, Field(discriminator="kind")]
SilentEvidence = Annotated[FilesEvidence | QuietEvidence, Field(discriminator="kind")]
Evidence = StatusEvidence | ExitStatusEvidence | FilesEvidence | QuietEvidence


class NoConsolidation(ProfilePart):
    """The system has no consolidator; the condition `memory-consolidate` is not for it."""

    trigger: Literal["none"]


class JsonRpcTrigger(ProfilePart):
    """A method `{sessionId}` that the plugin adds to the runtime in which sessions are ingested."""

    trigger: Literal["jsonrpc"]
    process: Literal["ingest"] = "ingest"
    method: str = Field(min_length=1)
    timeout_seconds: PositiveFloat
    evidence: ReplyEvidence


class WebRouteTrigger(ProfilePart):
    """A route of the plugin's own on the loopback server of the web profile: POST `{"sessionId": …}`."""

    trigger: Literal["web-route"]
    process: Literal["web"] = "web"
    route: str = Field(pattern="^/")
    start_timeout_seconds: PositiveFloat = 120.0
    timeout_seconds: PositiveFloat
    evidence: ReplyEvidence


class HttpTrigger(ProfilePart):
    """A loopback listener of the plugin's own. `endpoint_file` is the JSON `{port, token}` that it leaves."""

    trigger: Literal["http"]
    process: Literal["ingest"] = "ingest"
    endpoint_file: str = Field(min_length=1)
    route: str = Field(pattern="^/")
    timeout_seconds: PositiveFloat
    evidence: ReplyEvidence


class CommandTrigger(ProfilePart):
    """A command run once a session. Besides the placeholders of `config` it may hold `{session_id}`, and as
    arguments of their own `{dsh}` (the runtime's command) and `{patches}` (`--patch FILE` for each patch)."""

    trigger: Literal["command"]
    process: Literal["command"] = "command"
    command: tuple[str, ...] = Field(min_length=1)
    timeout_seconds: PositiveFloat
    evidence: CommandEvidence


class AutomaticTrigger(ProfilePart):
    """The system consolidates on its own after a session; all one can do is wait for evidence."""

    trigger: Literal["automatic"]
    process: Literal["ingest"] = "ingest"
    timeout_seconds: PositiveFloat
    evidence: SilentEvidence


Trigger = JsonRpcTrigger | WebRouteTrigger | HttpTrigger | CommandTrigger | AutomaticTrigger
Consolidation = Annotated[NoConsolidation | Trigger, Field(discriminator="trigger")]
