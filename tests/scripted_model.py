"""A model endpoint for tests: the DeepSeek Messages API on loopback, answering as the test's function says.

with ScriptedModel(lambda request: Reply(text="Hello.")) as model:
    ...  # point the runtime at model.url; afterwards look at model.requests
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One tool call of a reply."""

    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answers. `status` other than 200 is an HTTP error with `error` as its message;
    `cut` closes the stream in the middle; `delay` and `hang` are seconds before the first byte and after the
    headers; `stop_reason` is derived from the tool calls if it is not given."""

    text: str = ""
    thinking: str = ""
    tool_uses: tuple[ToolUse, ...] = ()
    stop_reason: str | None = None
    input_tokens: int = 100
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 20
    delay: float = 0.0
    hang: float = 0.0
    cut: bool = False
    status: int = 200
    error: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the endpoint saw it. Header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def session_id(self) -> str:
        return self.headers.get("x-deepseek-harness-session-id", "")

    @property
    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.body.get("tools", [])]

    @property
    def system(self) -> str:
        system = self.body.get("system", "")
        return system if isinstance(system, str) else "\n".join(block["text"] for block in system)

    @property
    def user_text(self) -> str:
        """All text of the user's side, runtime context included."""
        blocks = (block for content in self._contents("user") for block in content)
        return "\n".join(block["text"] for block in blocks if block.get("type") == "text")

    @property
    def tool_results(self) -> list[str]:
        """The texts of all tool results so far, the newest last."""
        blocks = (block for content in self._contents("user") for block in content)
        return [_text_of(block) for block in blocks if block.get("type") == "tool_result"]

    def _contents(self, role: str) -> Iterator[list[dict[str, Any]]]:
        for message in self.body.get("messages", []):
            if message["role"] == role:
                content = message["content"]
                yield [{"type": "text", "text": content}] if isinstance(content, str) else content


Handler = Callable[[Request], Reply]


class ScriptedModel:
    """The endpoint. Serves every request in a thread of its own, and keeps them all in `requests`."""

    def __init__(self, handler: Handler | None = None) -> None:
        self.handler: Handler = handler or (lambda _request: Reply(text="ok"))
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _RequestHandler)
        self._server.model = self
        self._thread = threading.Thread(target=self._server.serve_forever, name="scripted-model", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def answer(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
        return self.handler(request)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    model: ScriptedModel


class _RequestHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Tests say what they have to say themselves."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, json.loads(body))
        try:
            self._send(request, self.server.model.answer(request))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _send(self, request: Request, reply: Reply) -> None:
        time.sleep(reply.delay)
        if reply.status != 200:
            self._send_error(reply)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        time.sleep(reply.hang)
        for frame in frames(reply, str(request.body.get("model", ""))):
            self.wfile.write(f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n".encode())
            self.wfile.flush()

    def _send_error(self, reply: Reply) -> None:
        message = {"type": "error", "error": {"type": "api_error", "message": reply.error}}
        body = json.dumps(message).encode()
        self.send_response(reply.status)
        for name, value in {**reply.headers, "content-type": "application/json"}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def frames(reply: Reply, model: str) -> Iterator[dict[str, Any]]:
    """The frames of a reply, in the order of the Messages API."""
    usage = {
        "input_tokens": reply.input_tokens,
        "cache_read_input_tokens": reply.cache_read_tokens,
        "cache_creation_input_tokens": reply.cache_write_tokens,
    }
    message: dict[str, Any] = {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 0},
    }
    yield {"type": "message_start", "message": message}
    for index, (start, deltas) in enumerate(_blocks(reply)):
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    if reply.cut:
        return
    stop = reply.stop_reason or ("tool_use" if reply.tool_uses else "end_turn")
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": None},
        "usage": {**usage, "output_tokens": reply.output_tokens},
    }
    yield {"type": "message_stop"}


def _blocks(reply: Reply) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if reply.thinking:
        thought = {"type": "thinking_delta", "thinking": reply.thinking}
        signature = {"type": "signature_delta", "signature": "signed"}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [thought, signature]
    if reply.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": reply.text}]
    for number, use in enumerate(reply.tool_uses):
        start = {"type": "tool_use", "id": f"toolu_{time.time_ns()}_{number}", "name": use.name, "input": {}}
        yield start, [{"type": "input_json_delta", "partial_json": json.dumps(use.input)}]


def _text_of(tool_result: Mapping[str, Any]) -> str:
    content = tool_result.get("content", "")
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text")
