"""Consolidating one finished session, by whatever trigger the memory system's profile names.

A receipt says how it ended. Only positive evidence is success: a system that says nothing in time has timed
out, and one that says something unknown has failed.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from pytest_dshmem.harness.companions import Companions
from pytest_dshmem.harness.endpoint import HarnessError
from pytest_dshmem.harness.evidence import Finding, StateWatch, judge_exit_status, judge_status
from pytest_dshmem.harness.masking import masked
from pytest_dshmem.harness.memory_system import MemorySystem
from pytest_dshmem.harness.paths import HomePaths
from pytest_dshmem.harness.trigger_calls import Reply, post_to_listener, post_to_route, run_command
from pytest_dshmem.harness.triggers import (
    AutomaticTrigger,
    CommandTrigger,
    ExitStatusEvidence,
    HttpTrigger,
    JsonRpcTrigger,
    NoConsolidation,
    StatusEvidence,
    Trigger,
    WebRouteTrigger,
)
from pytest_dshmem.harness.web_profile import WebCommand, WebProfile
from pytest_dshmem.record.entries import ConsolidationState

EVALUATION_ROWS = ("dshmem-guard", "dshmem-recorder")


class ConsolidationHost(Protocol):
    """What consolidation needs of the runtime in which the session was ingested."""

    @property
    def paths(self) -> HomePaths: ...

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of a further process on this home, credential included."""
        ...

    @property
    def dsh_command(self) -> tuple[str, ...]: ...

    @property
    def patches(self) -> tuple[Path, ...]: ...

    @property
    def companions(self) -> Companions:
        """Where further processes on this home are started, so that none outlives the runtime."""
        ...

    def request(self, method: str, params: dict[str, Any], timeout: float) -> dict[str, Any]:
        """One JSON-RPC request. Raises TimeoutError, directly or as the cause, where no answer came in time,
        and HarnessError where the request was refused."""
        ...


@dataclass(frozen=True, slots=True)
class Receipt:
    """How a consolidation ended. `raw` is the system's own receipt, `reason` says why it is not a success."""

    state: ConsolidationState
    raw: dict[str, Any] | None
    reason: str | None
    seconds: float


class Consolidator:
    """Consolidates the sessions of one formation, one after the other. Close it before the home is frozen.

    Open it before the first session is ingested: evidence in files counts from the last consolidation, or
    from the opening.
    """

    def __init__(self, system: MemorySystem, host: ConsolidationHost) -> None:
        if isinstance(system.consolidation, NoConsolidation):
            raise HarnessError(
                f"the memory system {system.name} has no consolidation: use --mode memory, or describe "
                "the trigger in its profile"
            )
        self._system = system
        self._host = host
        self._trigger: Trigger = system.consolidation
        self._watch = StateWatch(self._trigger.evidence, system, host.paths)
        self._web: WebProfile | None = None

    def consolidate(self, session_id: str) -> Receipt:
        """Consolidates one session. Every failure of the system is a receipt; a lost runtime is raised."""
        started = time.monotonic()
        reply: Reply | None = None
        try:
            reply = self._fire(session_id)
            finding = self._judge(reply, started + self._trigger.timeout_seconds)
        except TimeoutError as error:
            finding = Finding("timeout", str(error) or self._silence())
        except HarnessError as error:
            finding = Finding("failed", str(error))
        except Exception as error:
            if not isinstance(error.__cause__, TimeoutError):
                raise
            finding = Finding("timeout", self._silence())
        return self._receipt(finding, reply, time.monotonic() - started)

    def close(self) -> None:
        """Ends the web profile, if one was started."""
        if self._web is not None:
            self._web.close()
            self._web = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _receipt(self, finding: Finding, reply: Reply | None, seconds: float) -> Receipt:
        # A provider may repeat the key that it refuses, and a receipt goes into the record.
        raw = masked(reply.body if reply else None, self._host.environment, self._host.paths)
        reason = masked(finding.reason, self._host.environment, self._host.paths)
        return Receipt(finding.state, raw, reason, seconds)

    def _fire(self, session_id: str) -> Reply:
        host, trigger = self._host, self._trigger
        match trigger:
            case JsonRpcTrigger():
                return Reply(
                    host.request(trigger.method, {"sessionId": session_id}, timeout=trigger.timeout_seconds)
                )
            case WebRouteTrigger():
                address = self._web_profile(trigger).address()
                return post_to_route(address + trigger.route, session_id, trigger.timeout_seconds)
            case HttpTrigger():
                return post_to_listener(trigger, self._system.path_values(host.paths), session_id)
            case CommandTrigger():
                return run_command(trigger, self._system.path_values(host.paths), host, session_id)
            case AutomaticTrigger():
                return Reply(None)

    def _judge(self, reply: Reply, deadline: float) -> Finding:
        evidence = self._trigger.evidence
        match evidence:
            case StatusEvidence():
                return judge_status(evidence, reply.body)
            case ExitStatusEvidence():
                return judge_exit_status(evidence, reply.exit_status, reply.complaint)
            case _:
                return self._watch.wait(deadline)

    def _web_profile(self, trigger: WebRouteTrigger) -> WebProfile:
        if self._web is None:
            self._web = WebProfile(
                WebCommand(
                    dsh_command=self._host.dsh_command,
                    patches=self._host.patches,
                    environment=self._host.environment,
                    folder=self._host.paths.workspace,
                    required_rows=(*self._system.rows, *EVALUATION_ROWS),
                    start_seconds=trigger.start_timeout_seconds,
                ),
                self._host.companions,
            )
        return self._web

    def _silence(self) -> str:
        return f"no answer within {self._trigger.timeout_seconds:.0f} s"
