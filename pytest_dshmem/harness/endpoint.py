"""Where the model is reached, and with which credential: kept in memory, handed to child processes only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

API_KEY_VARIABLE = "DEEPSEEK_API_KEY"
BASE_URL_VARIABLE = "DEEPSEEK_BASE_URL"
CREDENTIALS_FILE = ".credentials.yaml"
DOTENV_FILE = ".env"


class HarnessError(Exception):
    """The harness cannot be set up as asked: what, where and what to do, in one sentence."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model endpoint. The key never appears in a representation of this object."""

    api_key: str = field(repr=False)
    base_url: str | None = None
    provider: str = "deepseek-official"

    def environment(self) -> dict[str, str]:
        """The variables that a harness process needs to reach the model."""
        variables = {API_KEY_VARIABLE: self.api_key}
        if self.base_url is not None:
            variables[BASE_URL_VARIABLE] = self.base_url
        return variables


@dataclass(frozen=True, slots=True)
class SourceHome:
    """What is taken over from a user's DSH home: credential and default model, nothing else."""

    api_key: str | None = field(repr=False)
    model: str | None


def resolve_endpoint(
    environment: Mapping[str, str], *, base_url: str | None, source: SourceHome | None
) -> Endpoint:
    """The real endpoint. Raises HarnessError where no credential is to be had."""
    api_key = environment.get(API_KEY_VARIABLE) or (source.api_key if source else None)
    if not api_key:
        raise HarnessError(
            f"no model credential: set {API_KEY_VARIABLE}, or name a DSH home that has one with "
            "--dshmem-source-home, or use --offline for the embedded stand-in"
        )
    return Endpoint(api_key=api_key, base_url=base_url or environment.get(BASE_URL_VARIABLE))


def read_source_home(folder: Path) -> SourceHome:
    """Reads a user's DSH home without writing to it. Raises HarnessError where it cannot be read."""
    if not folder.is_dir():
        raise HarnessError(f"the source home {folder} is not a folder")
    stored = _stored_credential(folder / CREDENTIALS_FILE) or _dotenv_credential(folder / DOTENV_FILE)
    return SourceHome(api_key=stored, model=_default_model(folder / "profiles"))


def _stored_credential(file: Path) -> str | None:
    references = _read_yaml(file).get("refs") if file.is_file() else None
    value = references.get(API_KEY_VARIABLE) if isinstance(references, dict) else None
    return value if isinstance(value, str) else None


def _dotenv_credential(file: Path) -> str | None:
    if not file.is_file():
        return None
    for line in _read_text(file).splitlines():
        name, separator, value = line.strip().removeprefix("export ").partition("=")
        if separator and name.strip() == API_KEY_VARIABLE:
            return value.strip().strip("'\"") or None
    return None


def _default_model(profiles: Path) -> str | None:
    for file in sorted(profiles.glob("*/cordis.patch.yml")):
        for row in _read_yaml_rows(file):
            config = row.get("config")
            if row.get("id") == "agent-default-model" and isinstance(config, dict):
                model = config.get("model")
                if isinstance(model, str):
                    return model
    return None


def _read_yaml(file: Path) -> dict[str, Any]:
    document = _load_yaml(file)
    return document if isinstance(document, dict) else {}


def _read_yaml_rows(file: Path) -> list[dict[str, Any]]:
    document = _load_yaml(file)
    return [row for row in document if isinstance(row, dict)] if isinstance(document, list) else []


def _load_yaml(file: Path) -> object:
    import yaml

    class IgnoringTags(yaml.SafeLoader):
        """Reads expressions (`!!js …`) as the text they are."""

    IgnoringTags.add_multi_constructor("", lambda _loader, _suffix, node: getattr(node, "value", None))
    try:
        return yaml.load(_read_text(file), Loader=IgnoringTags)
    except yaml.YAMLError as error:
        # The parser's own message quotes the line, which may hold the secret.
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark else ""
        raise HarnessError(f"{file} is not valid YAML{place}") from None


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HarnessError(f"cannot read {file}: {error.__class__.__name__}") from error
