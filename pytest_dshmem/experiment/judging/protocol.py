"""How to judge: prompt, model, parameters and the rule by which a reply is read.

Figures under two protocols are two measurements. The key tells them apart wherever a verdict is stored.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

from pytest_dshmem.experiment.judging.errors import JudgeError
from pytest_dshmem.experiment.judging.item import JudgeItem
from pytest_dshmem.experiment.judging.parse import ParseRule
from pytest_dshmem.experiment.templates import fill, places

ProtocolName = Literal["dshmem-binary", "dshmem-longmemeval", "longmemeval-official", "custom"]
Parameters = Mapping[str, Any]

DEFAULT_PARAMETERS: Parameters = MappingProxyType({"temperature": 0})

_OURS_TO_SET = frozenset({"model", "messages", "stream"})
_PROMPTS = Path(__file__).parent / "prompts"
_REPLY_FORMAT = "reply-format.txt"
_BINARY = "binary.txt"
_ABSTENTION = "longmemeval-abstention.txt"
_BY_CATEGORY = MappingProxyType(
    {
        "single-session-user": "longmemeval-fact.txt",
        "single-session-assistant": "longmemeval-fact.txt",
        "multi-session": "longmemeval-fact.txt",
        "temporal-reasoning": "longmemeval-temporal.txt",
        "knowledge-update": "longmemeval-update.txt",
        "single-session-preference": "longmemeval-preference.txt",
    }
)
_PLACEHOLDERS = ("question", "reference", "hypothesis")


@dataclass(frozen=True, slots=True)
class Protocol:
    """One way to judge. Made by the functions below, or by `official_protocol`.

    `endpoint` is the host that serves the model, without port, path or credential. `prompt_sha256` covers
    every text that a prompt can be made of; `render` makes the prompt of one item and raises JudgeError
    where the protocol has none for it. `extra` holds further facts for the manifest that change no verdict.
    """

    name: ProtocolName
    version: int
    model: str
    endpoint: str
    parameters: Parameters
    prompt_sha256: str
    parse_rule: ParseRule
    render: Callable[[JudgeItem], str] = field(repr=False, compare=False)
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> str:
        """Name, version and a hash of all that can change a verdict: `dshmem-binary-1-0123456789ab`."""
        return f"{self.name}-{self.version}-{_sha256(json.dumps(self._facts(), sort_keys=True))[:12]}"

    def describe(self) -> dict[str, Any]:
        """The protocol as plain JSON values, for a run's manifest."""
        return {"key": self.key, **self._facts(), **self.extra}

    def _facts(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "version": self.version,
            "model": self.model,
            "endpoint": self.endpoint,
            "parameters": dict(self.parameters),
            "prompt_sha256": self.prompt_sha256,
            "parse_rule": self.parse_rule,
        }


def binary_protocol(model: str, base_url: str, parameters: Parameters = DEFAULT_PARAMETERS) -> Protocol:
    """`dshmem-binary`: correct or wrong, as generous as users of LoCoMo expect."""
    return Protocol(
        name="dshmem-binary",
        version=1,
        model=model,
        endpoint=endpoint_host(base_url),
        parameters=checked_parameters(parameters),
        prompt_sha256=_bundled_hash(_BINARY, _REPLY_FORMAT),
        parse_rule="json-verdict",
        render=partial(prompt_of, _with_reply_format(_bundled(_BINARY))),
    )


def longmemeval_protocol(model: str, base_url: str, parameters: Parameters = DEFAULT_PARAMETERS) -> Protocol:
    """`dshmem-longmemeval`: a rubric per question type, abstention questions first whatever their type.

    The rubrics ask for what LongMemEval's evaluation asks for, in our own words: figures come close to the
    official ones and are not the official ones.
    """
    names = sorted({_ABSTENTION, *_BY_CATEGORY.values()})
    return Protocol(
        name="dshmem-longmemeval",
        version=1,
        model=model,
        endpoint=endpoint_host(base_url),
        parameters=checked_parameters(parameters),
        prompt_sha256=_bundled_hash(*names, _REPLY_FORMAT),
        parse_rule="json-verdict",
        render=partial(_fill_by_category, {name: _with_reply_format(_bundled(name)) for name in names}),
    )


def custom_protocol(
    path: Path, model: str, base_url: str, parameters: Parameters = DEFAULT_PARAMETERS
) -> Protocol:
    """`custom`: the rubric is a file of the user's. The form of the reply is asked for after its text.

    Raises JudgeError where the file cannot be read or lacks {question}, {reference} or {hypothesis}.
    """
    try:
        rubric = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise JudgeError(f"The judge prompt {path} is not UTF-8 text: save it as UTF-8.") from error
    except OSError as error:
        raise JudgeError(f"The judge prompt {path} cannot be read: {error.strerror or error}.") from error
    missing = [f"{{{name}}}" for name in _PLACEHOLDERS if name not in places(rubric)]
    if missing:
        raise JudgeError(
            f"The judge prompt {path} lacks {', '.join(missing)}: without it a judge does not see what it "
            "is to judge."
        )
    return Protocol(
        name="custom",
        version=1,
        model=model,
        endpoint=endpoint_host(base_url),
        parameters=checked_parameters(parameters),
        prompt_sha256=_sha256(_with_reply_format(rubric)),
        parse_rule="json-verdict",
        render=partial(prompt_of, _with_reply_format(rubric)),
        extra={"prompt_file_sha256": _sha256(rubric)},
    )


def prompt_of(template: str, item: JudgeItem) -> str:
    """The template with the item's texts in it."""
    return fill(template, {"question": item.question, "reference": item.gold, "hypothesis": item.hypothesis})


def checked_parameters(parameters: Parameters) -> Parameters:
    """The parameters, unchangeable. Raises JudgeError for one that cannot be sent or that we set."""
    reserved = sorted(_OURS_TO_SET & parameters.keys())
    if reserved:
        raise JudgeError(f"The judge's parameters may not set {', '.join(reserved)}: leave that out.")
    try:
        json.dumps(dict(parameters), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise JudgeError(f"The judge's parameters are not plain JSON values: {error}.") from error
    return MappingProxyType(dict(parameters))


def endpoint_host(base_url: str) -> str:
    """The host of an http(s) address, lower-cased.

    Raises JudgeError where there is none, or where the address holds a credential (it would be recorded).
    """
    plain = base_url.isascii() and base_url.isprintable() and " " not in base_url
    try:
        parts = urlsplit(base_url)
        host = parts.hostname if plain and parts.port != 0 else None
        (host or "").encode("idna")
    except ValueError:
        host = None
    if not host or parts.scheme not in {"http", "https"}:
        raise JudgeError(
            "The judge's base URL is not an http or https address such as https://api.openai.com/v1: "
            "give it by option or environment."
        )
    if parts.username is not None or parts.password is not None:
        raise JudgeError(
            "The judge's base URL holds a user or password: give the key apart from the address."
        )
    return host


def _fill_by_category(templates: Mapping[str, str], item: JudgeItem) -> str:
    name = _ABSTENTION if item.abstention else _BY_CATEGORY.get(item.category)
    if name is None:
        raise JudgeError(
            f"The protocol dshmem-longmemeval has no rubric for questions of type {item.category!r} "
            f"({item.key.question_id}): it knows {', '.join(_BY_CATEGORY)}."
        )
    return prompt_of(templates[name], item)


def _with_reply_format(rubric: str) -> str:
    return f"{rubric.rstrip()}\n\n{_bundled(_REPLY_FORMAT)}"


def _bundled(name: str) -> str:
    return (_PROMPTS / name).read_text(encoding="utf-8")


def _bundled_hash(*names: str) -> str:
    return _sha256("\0".join(f"{name}\0{_bundled(name)}" for name in names))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
