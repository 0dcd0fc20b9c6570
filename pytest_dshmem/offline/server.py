"""The server of both stand-ins: one process, any number of slow requests at once."""

import asyncio
import json
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pytest_dshmem.offline import chat_api, messages_api
from pytest_dshmem.offline.exchange import NO_TOKENS, Response, digest_of, json_response
from pytest_dshmem.offline.http import BadRequestError, Request, read_request, write_response
from pytest_dshmem.offline.served import Capture, Served
from pytest_dshmem.offline.trouble import Rule, Trouble

REFUSED_KEY = "wrong-key"
"""The one API key that is refused, for tests of what happens then. Any other that is not empty is taken."""

CONTEXT_WINDOW = 1_000_000

ApiName = Literal["messages", "chat"]
_APIS: Mapping[str, ApiName] = {"/v1/messages": "messages", "/v1/chat/completions": "chat"}


@dataclass(slots=True)
class Server:
    """Answers requests on connections of loopback. Latencies are in seconds, the context window in tokens."""

    latency: float = 0.0
    judge_latency: float = 0.0
    context_window: int = CONTEXT_WINDOW
    trouble: Trouble = field(default_factory=Trouble)
    capture: Capture | None = None
    served: Served = field(default_factory=Served)

    async def serve(self, port: int, ready: Callable[[int], None], stop: asyncio.Event) -> None:
        """Serves on a loopback port (0: a free one, told to `ready`) until `stop` is set."""
        listener = await asyncio.start_server(self._converse, "127.0.0.1", port, backlog=1024)
        ready(listener.sockets[0].getsockname()[1])
        await stop.wait()
        listener.close()

    async def _converse(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Answers the requests of one connection, one after the other, until either side ends it."""
        try:
            while request := await read_request(reader):
                if not await self._answer(request, reader, writer):
                    break
        except BadRequestError as error:
            await write_response(writer, json_response(400, {"error": {"message": str(error)}}))
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _answer(self, request: Request, reader: StreamReader, writer: StreamWriter) -> bool:
        """Answers one request. Returns whether the connection can take another."""
        if request.path == "/served":
            await write_response(writer, json_response(200, self.served.as_json()))
            return True
        api = _APIS.get(request.path)
        if api is None or request.method != "POST":
            missing = messages_api.error(404, f"{request.method} {request.path} is not served here")
            self._record(request, missing)
            await write_response(writer, missing)
            return True
        self.served.enter()
        try:
            return await self._answer_api(api, request, reader, writer)
        finally:
            self.served.leave()

    async def _answer_api(
        self, api: ApiName, request: Request, reader: StreamReader, writer: StreamWriter
    ) -> bool:
        digest = digest_of(request.body)
        rule = self.trouble.for_request(api, request.body, digest)
        response = self._response(api, request, digest, rule)
        await asyncio.sleep((self.latency if api == "messages" else self.judge_latency) + rule.hang)
        totals = self.served.messages if api == "messages" else self.served.chat
        totals.requests += 1
        if reader.at_eof():
            totals.abandoned += 1
            self._record(request, None)
            return False
        if rule.drop or rule.cut or response.status != 200:
            totals.failed += 1
            response = replace(response, tokens=NO_TOKENS)
        else:
            totals.add(response.tokens)
        self._record(request, None if rule.drop else response)
        if rule.drop:
            return False
        await write_response(writer, response, cut=rule.cut)
        return not rule.cut

    def _response(self, api: ApiName, request: Request, digest: str, rule: Rule) -> Response:
        error = messages_api.error if api == "messages" else chat_api.error
        if rule.status is not None:
            headers = {} if rule.retry_after is None else {"retry-after": f"{rule.retry_after:g}"}
            return replace(error(rule.status, "trouble on demand"), headers=headers)
        if _key(request.headers) in ("", REFUSED_KEY):
            return error(401, "the API key is missing or refused")
        body = _parsed(request.body)
        if not isinstance(body, Mapping):
            return error(400, "the body is not a JSON object")
        if api == "messages":
            return messages_api.respond(body, digest, self.context_window)
        return chat_api.respond(body, digest)

    def _record(self, request: Request, response: Response | None) -> None:
        if self.capture is None:
            return
        status, tokens = (response.status, response.tokens) if response else (None, NO_TOKENS)
        self.capture.record(request.path, request.headers, _parsed(request.body), status, tokens)


def _key(headers: Mapping[str, str]) -> str:
    return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ").strip()


def _parsed(body: bytes) -> Any:
    """The JSON of a body, or its text where it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body.decode(errors="replace")
