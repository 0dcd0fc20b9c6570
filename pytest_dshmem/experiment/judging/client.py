"""One call to a Chat Completions endpoint, and how it ended.

Retrying is not done here, nor by the `openai` package: every attempt is a Call of its own in the record.
"""

import json
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from pytest_dshmem.experiment.judging.errors import JudgeError
from pytest_dshmem.experiment.judging.parse import writable
from pytest_dshmem.experiment.judging.protocol import Parameters, endpoint_host
from pytest_dshmem.record.entries import Call, Usage

if TYPE_CHECKING:
    from openai import APIStatusError

FailureName = Literal[
    "auth",
    "quota",
    "not-found",
    "rate-limit",
    "timeout",
    "server",
    "connection",
    "bad-request",
    "malformed-response",
]
_BY_STATUS: Mapping[int, FailureName] = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "not-found",
    408: "timeout",
    429: "rate-limit",
}
_REFUSED = frozenset({"auth", "quota", "not-found", "rate-limit", "bad-request"})
"""Failures in which the provider turned the request away: no token was read or written."""
_LONGEST_REASON = 300
_SHORTEST_SECRET = 16
"""A key shorter than this is a placeholder such as "none", which may occur in any text."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Where the judge is and how to get in. The key is kept in memory and shown nowhere."""

    base_url: str
    api_key: str = field(repr=False)
    timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        endpoint_host(self.base_url)
        if (
            not self.api_key
            or not self.api_key.isascii()
            or not self.api_key.isprintable()
            or " " in self.api_key
        ):
            raise JudgeError(
                "The judge's key is empty or holds characters that no key holds (white space, non-ASCII): "
                "check the environment variable that it comes from."
            )
        if not self.timeout_seconds > 0:
            raise JudgeError(
                f"The judge's time limit must be more than 0 seconds, not {self.timeout_seconds}."
            )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt brought no reply. `retry_after` is how many seconds the provider asks us to wait."""

    name: FailureName
    reason: str
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call and its reply, or its failure."""

    call: Call
    reply: str = ""
    failure: Failure | None = None


class ChatClient(AbstractContextManager["ChatClient"]):
    """A connection pool to one endpoint, shared by any number of threads."""

    def __init__(self, settings: ClientSettings) -> None:
        from openai import DefaultHttpxClient, OpenAI

        self._settings = settings
        self._client = OpenAI(
            base_url=settings.base_url,
            api_key=settings.api_key,
            max_retries=0,
            timeout=settings.timeout_seconds,
            # An endpoint on this machine is never reached through a proxy.
            http_client=DefaultHttpxClient(trust_env=not _is_loopback(endpoint_host(settings.base_url))),
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def complete(self, model: str, prompt: str, parameters: Parameters) -> Attempt:
        """Ask once, within the time limit. Never raises for what the endpoint does."""
        import openai

        started_at, started = time.time(), time.monotonic()
        reply, finish, usage = "", "error", None
        failure: Failure | None = None
        try:
            body = self._post(model, prompt, parameters, started + self._settings.timeout_seconds)
            reply, finish, usage = _read_completion(body)
        except (openai.APITimeoutError, _OutOfTimeError):
            failure = Failure("timeout", f"no reply within {self._settings.timeout_seconds:g} s")
        except openai.APIStatusError as error:
            failure = _status_failure(error)
            usage = Usage() if failure.name in _REFUSED else None
        except openai.APIConnectionError as error:
            failure = Failure("connection", f"the endpoint cannot be reached: {error.__cause__ or error}")
        except _BrokenOffError as error:
            failure = Failure("connection", f"the reply broke off: {error.__cause__}")
        except _MalformedError as error:
            failure = Failure("malformed-response", str(error))
        call = Call(
            purpose="judge",
            model=model,
            effort=_effort(parameters),
            started_at=started_at,
            seconds=time.monotonic() - started,
            finish=finish,
            failure=failure.name if failure else None,
            usage=usage,
        )
        return Attempt(call, self._without_key(reply), self._shortened(failure))

    def _post(self, model: str, prompt: str, parameters: Parameters, deadline: float) -> bytes:
        """The body of a reply, read by the piece.

        Providers send blanks to keep a connection alive: a limit on a single read would never be reached.
        """
        pieces = []
        with self._client.chat.completions.with_streaming_response.create(
            model=model, messages=[{"role": "user", "content": prompt}], extra_body=dict(parameters)
        ) as response:
            try:
                for piece in response.iter_bytes():
                    pieces.append(piece)
                    if time.monotonic() > deadline:
                        break
            except Exception as error:
                # The HTTP library's errors, which the openai package leaves as they are at this point.
                if time.monotonic() < deadline:
                    raise _BrokenOffError from error
        if time.monotonic() > deadline:
            raise _OutOfTimeError
        return b"".join(pieces)

    def _shortened(self, failure: Failure | None) -> Failure | None:
        if failure is None:
            return None
        reason = self._without_key(" ".join(failure.reason.split()))[:_LONGEST_REASON]
        return Failure(failure.name, reason, failure.retry_after)

    def _without_key(self, text: str) -> str:
        """The text as it may be recorded: endpoints quote keys in their errors, and could in a reply."""
        key = self._settings.api_key
        return writable(text if len(key) < _SHORTEST_SECRET else text.replace(key, "[key]"))


class _OutOfTimeError(Exception):
    pass


class _BrokenOffError(Exception):
    pass


class _MalformedError(Exception):
    pass


def _read_completion(body: bytes) -> tuple[str, str, Usage | None]:
    try:
        found = json.loads(body)
        choice = found["choices"][0]
        text = choice["message"]["content"]
    except (ValueError, RecursionError, KeyError, IndexError, TypeError):
        raise _MalformedError("the endpoint's answer is not a chat completion") from None
    finish = choice.get("finish_reason")
    return (
        text if isinstance(text, str) else "",
        writable(finish) if isinstance(finish, str) else "unknown",
        read_usage(found.get("usage")),
    )


def read_usage(found: Any) -> Usage | None:
    """A provider's usage block as ours: cached tokens taken out of the input, reasoning left in the output.

    None where there is none, or where it cannot be read: such a call is unmetered, not free of cost.
    """
    if not isinstance(found, Mapping):
        return None
    prompt, output = _count(found, "prompt_tokens"), _count(found, "completion_tokens")
    if prompt is None or output is None:
        return None
    cached = _count(found.get("prompt_tokens_details"), "cached_tokens")
    if cached is None:
        cached = _count(found, "prompt_cache_hit_tokens") or 0
    cached = min(cached, prompt)
    return Usage(
        input=prompt - cached,
        cache_read=cached,
        output=output,
        reasoning=_count(found.get("completion_tokens_details"), "reasoning_tokens"),
    )


def _count(found: Any, name: str) -> int | None:
    value = found.get(name) if isinstance(found, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _status_failure(error: "APIStatusError") -> Failure:
    status = error.status_code
    name = _BY_STATUS.get(status, "server" if status >= 500 else "bad-request")
    if name == "rate-limit" and "insufficient_quota" in {error.code, error.type}:
        name = "quota"
    return Failure(name, f"HTTP {status}: {_told(error)}", _retry_after(error.response.headers))


def _told(error: "APIStatusError") -> str:
    """What the endpoint says of an error, without the package's own preface."""
    told = error.body.get("message") if isinstance(error.body, Mapping) else None
    return (
        told if isinstance(told, str) else error.message.removeprefix(f"Error code: {error.status_code} - ")
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by the `retry-after` header, which holds a number or a date."""
    text = headers.get("retry-after", "")
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = parsedate_to_datetime(text)
        except ValueError:
            return None
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        seconds = (zoned - datetime.now(UTC)).total_seconds()
    return seconds if 0 <= seconds < float("inf") else None


def _effort(parameters: Parameters) -> str | None:
    effort = parameters.get("reasoning_effort")
    return effort if isinstance(effort, str) else None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
