"""As much of HTTP/1.1 as the server needs: read a request, write a response, keep the connection."""

from asyncio import IncompleteReadError, LimitOverrunError, StreamReader, StreamWriter
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_dshmem.offline.exchange import Response

MAX_BODY_BYTES = 256 * 2**20
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


class BadRequestError(Exception):
    """Bytes that are no HTTP request of the kind that is served."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


async def read_request(reader: StreamReader) -> Request | None:
    """The next request of a connection, or None where the peer has closed it. Raises BadRequestError."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, target, _ = first.split(" ")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if "transfer-encoding" in headers:
            raise BadRequestError("a request body needs a content-length")
        length = int(headers.get("content-length", "0"))
        if not 0 <= length <= MAX_BODY_BYTES:
            raise BadRequestError(f"a body of {length} bytes is not taken")
        body = await reader.readexactly(length)
    except (IncompleteReadError, ConnectionError):
        return None
    except (LimitOverrunError, ValueError) as error:
        raise BadRequestError("the request's head cannot be read") from error
    return Request(method, target.partition("?")[0], headers, body)


async def write_response(writer: StreamWriter, response: Response, *, cut: bool = False) -> None:
    """Sends a response; one that is cut stops in the middle of its body, without the mark that ends it."""
    head = [
        f"HTTP/1.1 {response.status} {_REASONS.get(response.status, 'Error')}",
        f"content-type: {response.content_type}",
        *(f"{name}: {value}" for name, value in response.headers.items()),
    ]
    body = response.body[: len(response.body) // 2] if cut else response.body
    if response.streamed:
        head.append("transfer-encoding: chunked")
        body = b"%x\r\n%b\r\n" % (len(body), body) + (b"" if cut else b"0\r\n\r\n")
    else:
        head.append(f"content-length: {len(response.body)}")
    writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    await writer.drain()
