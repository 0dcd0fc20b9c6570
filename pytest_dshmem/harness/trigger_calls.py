"""Firing a trigger outside of the runtime: a loopback request or a command. Credentials stay out of argv."""

import http.client
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pytest_dshmem.harness.companions import Companions
from pytest_dshmem.harness.endpoint import HarnessError
from pytest_dshmem.harness.paths import HomePaths
from pytest_dshmem.harness.placeholders import render
from pytest_dshmem.harness.triggers import CommandTrigger, HttpTrigger, StatusEvidence

_EXCERPT = 300


@dataclass(frozen=True, slots=True)
class Reply:
    """What a trigger answered: a JSON object, or the exit status and last complaint of a command."""

    body: dict[str, Any] | None
    exit_status: int | None = None
    complaint: str | None = None


class CommandHost(Protocol):
    """What a command needs of the runtime: its folders, its environment, and how to start `dsh`."""

    @property
    def paths(self) -> HomePaths: ...

    @property
    def environment(self) -> Mapping[str, str]: ...

    @property
    def dsh_command(self) -> tuple[str, ...]: ...

    @property
    def patches(self) -> tuple[Path, ...]: ...

    @property
    def companions(self) -> Companions: ...


def post_to_route(url: str, session_id: str, timeout_seconds: float, token: str | None = None) -> Reply:
    """POSTs `{"sessionId": …}` on loopback. Raises TimeoutError, or HarnessError for a bad reply."""
    headers = {"content-type": "application/json"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    body = json.dumps({"sessionId": session_id}).encode()
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")
    # A proxy of the user's has no business with a loopback address.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_seconds) as response:
            return Reply(_json_object(response.read().decode("utf-8", "replace"), request.selector))
    except urllib.error.HTTPError as error:
        said = error.read().decode("utf-8", "replace")[:_EXCERPT]
        raise HarnessError(f"{request.selector} answered with HTTP {error.code}: {said}") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise TimeoutError(f"no answer within {timeout_seconds:.0f} s") from error
        raise HarnessError(f"{request.selector} cannot be reached: {error.reason}") from error
    except (http.client.HTTPException, ConnectionError) as error:
        raise HarnessError(f"{request.selector} broke off its answer: {type(error).__name__}") from error


def post_to_listener(trigger: HttpTrigger, folders: Mapping[str, str], session_id: str) -> Reply:
    """POSTs to a plugin's own listener, at the port and with the token that it left in its endpoint file."""
    file = Path(render(trigger.endpoint_file, folders))
    try:
        endpoint = json.loads(file.read_text(encoding="utf-8"))
        port, token = int(endpoint["port"]), endpoint.get("token")
    except OSError as error:
        raise HarnessError(f"the endpoint file {file.name} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HarnessError(
            f"the endpoint file {file.name} does not hold a JSON object with a port"
        ) from error
    return post_to_route(
        f"http://127.0.0.1:{port}{trigger.route}", session_id, trigger.timeout_seconds, token
    )


def run_command(
    trigger: CommandTrigger, folders: Mapping[str, str], host: CommandHost, session_id: str
) -> Reply:
    """Runs the command in the workspace. Raises TimeoutError after killing it with all that it started."""
    arguments = list(_arguments(trigger.command, {**folders, "session_id": session_id}, host))
    try:
        process = host.companions.start(arguments, host.environment, host.paths.workspace)
    except OSError as error:
        raise HarnessError(f"the command {arguments[0]} cannot be run: {error.strerror}") from error
    try:
        output, errors = process.communicate(timeout=trigger.timeout_seconds)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"the command did not end within {trigger.timeout_seconds:.0f} s") from None
    finally:
        host.companions.end(process)
    speaks = isinstance(trigger.evidence, StatusEvidence)
    body = _json_object(_last_line(output) or "", "the command") if speaks else None
    return Reply(body, process.returncode, _last_line(errors))


def _arguments(command: tuple[str, ...], known: Mapping[str, str], host: CommandHost) -> Iterator[str]:
    for argument in command:
        if argument == "{dsh}":
            yield from host.dsh_command
        elif argument == "{patches}":
            for patch in host.patches:
                yield from ("--patch", str(patch))
        else:
            yield render(argument, known)


def _json_object(text: str, speaker: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise HarnessError(f"{speaker} did not answer with a JSON object")
    return value


def _last_line(text: str) -> str | None:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_EXCERPT] if lines else None
