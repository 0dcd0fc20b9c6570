"""Trouble on demand: rules by which the server fails, hangs or cuts a stream, for tests of what drives it.

A rules file is JSON: `{"rules": [RULE, …]}`. The first rule that applies to a request is obeyed. A rule says
which requests it is about; all that it says must hold:

    "api"         "messages" or "chat"
    "containing"  a text that the request's body holds
    "ordinals"    [3, 7]: the third and the seventh of the requests that the two above admit
    "every"       5: each fifth of them
    "rate"        0.1 with "seed" 7: a tenth of them, drawn by the body's hash and not by order, so that runs
                  with any concurrency meet the same trouble
    "times"       how often at most for the same body; 1 where a rate is given, otherwise without limit

and what happens then:

    "status"      429, 500, …: this error, with a "retry_after" of so many seconds if given
    "hang"        seconds before the answer
    "cut"         true: the stream ends before it is complete
    "drop"        true: the connection is closed without an answer
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "api": (str,),
    "containing": (str,),
    "ordinals": (list,),
    "every": (int,),
    "rate": (int, float),
    "seed": (int,),
    "times": (int,),
    "status": (int,),
    "retry_after": (int, float),
    "hang": (int, float),
    "cut": (bool,),
    "drop": (bool,),
}


class TroubleError(Exception):
    """A rules file that cannot be obeyed: which file, which rule, and why, in one sentence."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, as the module describes it."""

    api: str | None = None
    containing: str | None = None
    ordinals: tuple[int, ...] = ()
    every: int | None = None
    rate: float | None = None
    seed: int = 0
    times: int | None = None
    status: int | None = None
    retry_after: float | None = None
    hang: float = 0.0
    cut: bool = False
    drop: bool = False

    def admits(self, api: str, body: str) -> bool:
        return self.api in (None, api) and (self.containing is None or self.containing in body)

    def strikes(self, ordinal: int, digest: str) -> bool:
        """Whether the rule applies to the request with this 1-based place among those that it admits."""
        if self.ordinals and ordinal not in self.ordinals:
            return False
        if self.every is not None and ordinal % self.every:
            return False
        return self.rate is None or _draw(self.seed, digest) < self.rate

    @property
    def limit(self) -> float:
        """How often at most the rule applies to the same body."""
        if self.times is not None:
            return self.times
        return float("inf") if self.rate is None else 1


@dataclass(slots=True)
class Trouble:
    """The rules, and how often each has met which request."""

    rules: tuple[Rule, ...] = ()
    _admitted: Counter[int] = field(default_factory=Counter)
    _struck: Counter[tuple[int, str]] = field(default_factory=Counter)

    def for_request(self, api: str, body: bytes, digest: str) -> Rule:
        """The rule to obey for a request; an empty one if there is none."""
        text = body.decode(errors="replace") if self.rules else ""
        chosen: Rule | None = None
        for number, rule in enumerate(self.rules):
            if not rule.admits(api, text):
                continue
            self._admitted[number] += 1
            struck = self._struck[number, digest]
            if chosen is None and struck < rule.limit and rule.strikes(self._admitted[number], digest):
                self._struck[number, digest] += 1
                chosen = rule
        return chosen or Rule()


def read_trouble(path: Path) -> Trouble:
    """Reads a rules file. Raises TroubleError."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TroubleError(f"The trouble file {path} cannot be read: {error}.") from error
    rules = raw.get("rules") if isinstance(raw, dict) else None
    if not isinstance(rules, list):
        raise TroubleError(f'The trouble file {path} must hold {{"rules": [...]}}.')
    return Trouble(tuple(_rule(one, f"Rule {number} of {path}") for number, one in enumerate(rules, 1)))


def _rule(raw: object, where: str) -> Rule:
    if not isinstance(raw, dict):
        raise TroubleError(f"{where} must be an object.")
    settings: dict[str, Any] = dict(raw)
    for name, value in settings.items():
        if name not in _TYPES:
            known = ", ".join(one.name for one in fields(Rule))
            raise TroubleError(f"{where} has an unknown field {name!r}; known are: {known}.")
        if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and bool not in _TYPES[name]):
            raise TroubleError(f"{where}: {name} cannot be {value!r}.")
    if settings.get("every", 1) < 1:
        raise TroubleError(f"{where}: every must be at least 1.")
    return Rule(**{**settings, "ordinals": tuple(settings.get("ordinals", ()))})


def _draw(seed: int, digest: str) -> float:
    """A number in [0, 1) that a seed and a request's hash determine."""
    return int.from_bytes(sha256(f"{seed}:{digest}".encode()).digest()[:8]) / 2**64
