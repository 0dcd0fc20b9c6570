"""Whether a run directory can be published as it is: no secret in it, and no path of the machine it ran on.

What people and models said (questions, golds, answers, replies, memories) may hold any path; there only this
machine's own folders count. Everywhere else every absolute path counts. Things that look like keys count
everywhere.
"""

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_dshmem.report.seal import REPORTS, record_names
from pytest_dshmem.report.verify import Finding

SPOKEN_FIELDS = frozenset({"question", "gold", "hypothesis", "reply", "reason"})

_KEY = re.compile(
    r"\bsk-[A-Za-z0-9_-]{16,}|\bBearer\s+[A-Za-z0-9._~+/-]{16,}|\bgh[pousr]_[A-Za-z0-9]{30,}|\bhf_[A-Za-z0-9]{30,}"
    r"|\bAKIA[0-9A-Z]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_ABSOLUTE_PATH = re.compile(
    r"(?<![\w./:])/(?:home|root|Users|tmp|var|private|mnt|media|opt|srv|workspace|data)/[^\s\"'<>|]+"
    r"|\b[A-Za-z]:\\\\?(?:Users|Documents and Settings)\\[^\s\"'<>|]+"
)


def publishing_findings(run: Path, folders: Sequence[Path] | None = None) -> tuple[Finding, ...]:
    """What stands against publishing a run: each file and place once for each kind of trouble.

    `folders` are this machine's own, by default the home, the temporary folder and the run's own place.
    """
    own = tuple(str(folder) for folder in (machine_folders(run) if folders is None else folders))
    names = [*record_names(run), *sorted(name for name in REPORTS if (run / name).is_file())]
    return tuple(finding for name in names for finding in _in_file(run, name, own))


def machine_folders(run: Path) -> tuple[Path, ...]:
    """Folders that tell about this machine and its user."""
    candidates = (Path.home(), Path(tempfile.gettempdir()), run.resolve().parent)
    return tuple(dict.fromkeys(folder for folder in candidates if len(folder.parts) > 1))


def _in_file(run: Path, name: str, own: Sequence[str]) -> Iterator[Finding]:
    text = (run / name).read_bytes().decode("utf-8", "replace")
    if name.startswith("snapshots/") and not name.endswith("/manifest.json"):
        yield from _in_text(name, None, text, own, is_spoken=True)
    elif name.endswith(".jsonl"):
        for number, line in enumerate(text.split("\n"), start=1):
            yield from _in_json(name, f"line {number}", line, own)
    elif name.endswith(".json"):
        yield from _in_json(name, None, text, own)
    else:
        yield from _in_text(name, None, text, own, is_spoken=True)


def _in_json(name: str, item: str | None, text: str, own: Sequence[str]) -> Iterator[Finding]:
    try:
        value = json.loads(text) if text.strip() else None
    except ValueError:
        value = text
    found = dict.fromkeys(
        finding
        for field, words in _texts(value)
        for finding in _in_text(name, item, words, own, is_spoken=field in SPOKEN_FIELDS)
    )
    yield from found


def _texts(value: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a JSON value with the name of the field that holds it; names of fields are texts too."""
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield field, name
            yield from _texts(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, field)


def _in_text(
    name: str, item: str | None, text: str, own: Sequence[str], *, is_spoken: bool
) -> Iterator[Finding]:
    if _KEY.search(text):
        yield Finding(name, "holds something that looks like a key; it is not shown here", item)
    own_path = next((folder for folder in own if _names_folder(text, folder)), None)
    if own_path is not None:
        yield Finding(name, f"names a folder of this machine ({own_path})", item)
        return
    path = None if is_spoken else _ABSOLUTE_PATH.search(text)
    if path is not None:
        yield Finding(name, f"holds an absolute path ({path[0]})", item)


def _names_folder(text: str, folder: str) -> bool:
    return folder in text and re.search(rf"(?<![\w.-]){re.escape(folder)}(?![\w.-])", text) is not None
