"""Reading a judge's reply. A reply that cannot be read is `unparsed`; it is never taken for "wrong"."""

import json
import re
import string
from dataclasses import dataclass
from typing import Any, Literal

ParseRule = Literal["json-verdict", "yes-no"]

_FENCED = re.compile(r"\A```(?:json)?[ \t]*\n(?P<inside>.*)\n[ \t]*```\Z", re.DOTALL | re.IGNORECASE)
_VERDICTS = {"correct": True, "wrong": False}
_STRICT = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says. `correct` is None where that cannot be read; `reason` is the judge's, or ours."""

    correct: bool | None
    strict: bool | None = None
    reason: str | None = None

    @property
    def readable(self) -> bool:
        return self.correct is not None


def read_reply(rule: ParseRule, reply: str) -> Reading:
    """Read a reply by the rule of its protocol. Never raises."""
    return read_yes_no(reply) if rule == "yes-no" else read_json_verdict(reply)


def read_json_verdict(reply: str) -> Reading:
    """Read `{"reason": "...", "verdict": "correct" | "wrong"}`.

    White space around it, or one code fence around all of it, is allowed. Text before or after it, a second
    verdict, or any other word in its place is not.
    """
    text = reply.strip()
    fenced = _FENCED.match(text)
    try:
        found = json.loads(fenced["inside"] if fenced else text, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError):
        return Reading(None, reason="the reply is not one JSON object")
    if not isinstance(found, dict):
        return Reading(None, reason="the reply is not a JSON object")
    word = found.get("verdict")
    correct = _VERDICTS.get(word.strip().lower()) if isinstance(word, str) else None
    if correct is None:
        return Reading(None, reason='the reply holds no verdict "correct" or "wrong"')
    reason = found.get("reason")
    return Reading(correct, reason=writable(reason) if isinstance(reason, str) else None)


def read_yes_no(reply: str) -> Reading:
    """Read a reply as LongMemEval's evaluation does: right if "yes" occurs anywhere in it, in any case.

    `strict` is set only if the reply, without white space and punctuation around it, is exactly yes or no.
    A blank reply says nothing and is unreadable.
    """
    if not reply.strip():
        return Reading(None, reason="the reply is blank")
    exactly = reply.strip(string.whitespace + string.punctuation).lower()
    return Reading("yes" in reply.lower(), strict=_STRICT.get(exactly))


def writable(text: str) -> str:
    """The text with lone surrogates spelled out: JSON can carry them, a UTF-8 record cannot."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in the object")
    return found
