"""What a runtime is made of: the evaluation rows, the guard's policies, the recorder and a memory system."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_dshmem.harness.endpoint import Endpoint, HarnessError
from pytest_dshmem.harness.sandbox import IsolatedHome

GUARD_FOLDER = Path(__file__).parent / "guard"
EVALUATION_ROWS = GUARD_FOLDER / "evaluation.yml"

RUNTIME_OPTIONS = "--max-semi-space-size=16"
"""Megabytes for new objects in the runtime's heap, which it fills before it looks for what can go. Its own
choice is 32, of which it takes three times as much. `guard/heap.mjs` does the same for what is older."""

INHERITED_VARIABLES = frozenset(
    {
        "PATH",
        "LANG",
        "TZ",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "NODE_EXTRA_CA_CERTS",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
    }
)


@dataclass(frozen=True, slots=True)
class Policy:
    """What sessions of one role may do. `turn_seconds` bounds a turn inside of the runtime."""

    tools: tuple[str, ...] = ()
    read_roots: tuple[Path, ...] = ()
    max_steps: int = 8
    turn_seconds: float = 300.0
    effort: str | None = None
    max_tokens: int | None = None

    def as_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "tools": list(self.tools),
            "readRoots": [str(root) for root in self.read_roots],
            "maxSteps": self.max_steps,
            "turnSeconds": self.turn_seconds,
        }
        if self.effort is not None:
            config["reasoningEffort"] = self.effort
        if self.max_tokens is not None:
            config["maxTokens"] = self.max_tokens
        return config


@dataclass(frozen=True, slots=True)
class ModelRetries:
    """How the harness itself repeats a failed model call, in seconds."""

    attempts: int = 5
    first_delay: float = 0.5
    longest_delay: float = 30.0
    idle_seconds: float = 120.0

    def as_config(self) -> dict[str, Any]:
        backoff = {
            "initialDelayMs": round(self.first_delay * 1000),
            "maxDelayMs": round(self.longest_delay * 1000),
            "jitterRatio": 0.2,
        }
        return {
            "streamIdleTimeoutMs": round(self.idle_seconds * 1000),
            "retryPolicy": {"mode": "normal", "maxRetries": self.attempts, "backoff": backoff},
        }


@dataclass(frozen=True, slots=True)
class Composition:
    """Everything that decides how a runtime behaves, its home apart."""

    endpoint: Endpoint
    model: str
    policies: Mapping[str, Policy]
    memory_rows: Sequence[Mapping[str, Any]] = ()
    required_rows: tuple[str, ...] = ()
    retries: ModelRetries = field(default_factory=ModelRetries)

    def write_patch(self, home: IsolatedHome, nonce: str) -> None:
        """Writes the patch that turns the stock profile into this composition."""
        # JSON is YAML: these items continue the list of the evaluation rows.
        items = "\n".join(f"- {json.dumps(row)}" for row in self._rows(home, nonce))
        home.patch.write_text(EVALUATION_ROWS.read_text(encoding="utf-8") + "\n" + items + "\n", "utf-8")

    def _rows(self, home: IsolatedHome, nonce: str) -> list[dict[str, Any]]:
        guard = {
            "id": "dshmem-guard",
            "name": str(GUARD_FOLDER / "guard.mjs"),
            "config": {
                "nonce": nonce,
                "policies": {role: policy.as_config() for role, policy in self.policies.items()},
            },
        }
        recorder = {
            "id": "dshmem-recorder",
            "name": str(GUARD_FOLDER / "recorder.mjs"),
            "config": {"file": str(home.calls_file)},
        }
        waits_for_guard = {
            "id": "sdk-jsonrpc-server",
            "inject": ["sdkAppStartup", "loader", "dshmemGuard"],
        }
        reads = any("read" in policy.tools for policy in self.policies.values())
        files = {"read": reads, "readImage": False, "write": False, "edit": False}
        return [
            waits_for_guard,
            {"id": "tool-fs", "config": files},
            {"id": "llm-deepseek", "config": self.retries.as_config()},
            {"insert": [*(dict(row) for row in self.memory_rows), recorder, guard]},
        ]


def child_environment(home: IsolatedHome, endpoint: Endpoint) -> dict[str, str]:
    """The variables that a harness process gets on top of the inherited ones that it may keep."""
    return {
        "HOME": str(home.paths.home),
        "DSH_HOME": str(home.paths.dsh_home),
        "TMPDIR": str(home.temporary_folder),
        "PKG_NATIVE_CACHE_PATH": str(home.native_cache),
        "DSH_TELEMETRY_MODE": "OFF",
        **endpoint.environment(),
    }


def inherited_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that a harness process may inherit: no credential is among it."""
    return {
        name: value
        for name, value in environment.items()
        if name in INHERITED_VARIABLES or name.startswith("LC_")
    }


def write_launcher(home: IsolatedHome, command: Sequence[str]) -> None:
    """Writes a script that drops all other variables of the caller's and then becomes the runtime.

    The SDK hands its whole environment down and has no way to take a variable out of it.
    """
    kept = INHERITED_VARIABLES | child_environment(home, Endpoint(api_key="")).keys() | {"DEEPSEEK_BASE_URL"}
    dropped = [
        name
        for name in os.environ
        if name not in kept and not name.startswith("LC_") and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
    ]
    lines = [
        "#!/bin/sh",
        f"unset {' '.join(sorted(dropped))}" if dropped else ":",
        f"export NODE_OPTIONS={RUNTIME_OPTIONS}",
        f"echo $$ >{shlex.quote(str(home.process_file))}",
        f'exec {shlex.join(command)} "$@" 2>>{shlex.quote(str(home.stderr_file))}',
    ]
    _write_program(home.launcher, "\n".join(lines) + "\n")


def _write_program(file: Path, text: str) -> None:
    """Writes a file that is to be run at once.

    It is written by another process: were it open here, a process that another thread starts at that moment
    would hold it open too, and the system refuses to run what is open for writing ("text file busy").
    """
    write = ("/bin/sh", "-c", 'umask 077 && cat > "$0" && chmod 700 "$0"', str(file))
    done = subprocess.run(write, input=text, text=True, encoding="utf-8", capture_output=True, check=False)
    if done.returncode != 0:
        raise HarnessError(f"the launcher cannot be written: {done.stderr.strip()[:200]}")
