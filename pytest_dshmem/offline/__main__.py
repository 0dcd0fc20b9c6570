"""`python -m pytest_dshmem.offline`: serves the stand-ins until standard input ends, or on SIGTERM.

Prints one line, `ready http://127.0.0.1:PORT`, when it can be asked.
"""

import argparse
import asyncio
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from pytest_dshmem.offline.served import Capture
from pytest_dshmem.offline.server import CONTEXT_WINDOW, Server
from pytest_dshmem.offline.trouble import Trouble, TroubleError, read_trouble


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    with ExitStack() as files:
        try:
            trouble = read_trouble(options.trouble) if options.trouble else Trouble()
            capture = (
                Capture(files.enter_context(options.capture.open("a", encoding="utf-8")))
                if options.capture
                else None
            )
        except (TroubleError, OSError) as error:
            parser.error(str(error))
        server = Server(
            latency=options.latency,
            judge_latency=options.judge_latency,
            context_window=options.context_window,
            trouble=trouble,
            capture=capture,
        )
        asyncio.run(_serve(server, options.port))
    return 0


async def _serve(server: Server, port: int) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    watcher = threading.Thread(target=_await_end_of_input, args=(loop, stop), daemon=True)
    watcher.start()
    await server.serve(port, _announce, stop)


def _await_end_of_input(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Whoever started this process holds the other end of its input, and needs it until that is gone."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    loop.call_soon_threadsafe(stop.set)


def _announce(port: int) -> None:
    print(f"ready http://127.0.0.1:{port}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pytest_dshmem.offline", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="loopback port; 0, the default, takes a free one")
    parser.add_argument("--latency", type=_seconds, default=0.0, help="seconds before a reply of the model")
    parser.add_argument(
        "--judge-latency", type=_seconds, default=0.0, help="seconds before a reply of the judge"
    )
    parser.add_argument(
        "--context-window", type=int, default=CONTEXT_WINDOW, help="tokens that a request may have"
    )
    parser.add_argument("--capture", type=Path, help="file that gets a JSON line for each request")
    parser.add_argument("--trouble", type=Path, help="JSON file of rules for failing on purpose")
    return parser


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < 3600:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds from 0 to 3600")
    return value


if __name__ == "__main__":
    sys.exit(main())
