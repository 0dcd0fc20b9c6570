"""A memory system: a DSH plugin described by a profile, so that nothing here need know it by name.

A profile is a TOML file. It says how the plugin is installed and which rows prove that it is active, where
its state lies, which tools the agent gets, how it consolidates, and where its token usage can be read.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PrivateAttr, ValidationError, model_validator

from pytest_dshmem.harness.paths import Base, HomePaths
from pytest_dshmem.harness.placeholders import placeholders_in, render
from pytest_dshmem.harness.triggers import (
    CommandTrigger,
    Consolidation,
    HttpTrigger,
    NoConsolidation,
    ProfilePart,
    WebRouteTrigger,
)

SDK = "sdk"
"""The profile of the runtimes that ingest and answer."""

CONFIG_PLACEHOLDERS = frozenset({"dsh_home", "home", "workspace", "memory_root", "model", "provider"})
PATH_PLACEHOLDERS = frozenset({"dsh_home", "home", "workspace", "memory_root"})
COMMAND_PLACEHOLDERS = PATH_PLACEHOLDERS | {"session_id", "dsh", "patches"}


class ProfileError(Exception):
    """A profile that cannot be used: which file, which key, and why, in one sentence."""


def _plain_relative(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts:
        raise ValueError(f"{path!r} must be a relative path without '..'")
    return path


class FileInstall(ProfilePart):
    """A plugin module on disk. `path` is relative to the profile; its folder is part of the fingerprint."""

    kind: Literal["file"]
    row: str = Field(min_length=1)
    path: str = Field(min_length=1)
    config: dict[str, Any] = Field(default_factory=dict)


class PackageInstall(ProfilePart):
    """A published package, added with `dsh plugin --profile … add`. No `row`: it brings its own rows."""

    kind: Literal["package"]
    row: str | None = None
    package: str = Field(min_length=1)
    version: str = Field(pattern=r"^\d+\.\d+\.\d+\S*$")
    allow_builds: tuple[str, ...] = ()
    config: dict[str, Any] = Field(default_factory=dict)

    @property
    def specifier(self) -> str:
        return f"{self.package}@{self.version}"


class StateRoot(ProfilePart):
    """One folder of the system's state: everything under it that `include` matches and `exclude` does not."""

    name: str = Field(pattern="^[a-z][a-z0-9-]*$")
    base: Base
    path: str = Field(min_length=1)
    kind: Literal["markdown", "sqlite", "json"]
    include: tuple[str, ...] = ("**/*",)
    exclude: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _stays_inside_its_base(self) -> "StateRoot":
        for path in (self.path, *self.include, *self.exclude):
            _plain_relative(path)
        return self

    def folder(self, paths: HomePaths) -> Path:
        return paths.folder(self.base) / self.path

    def files(self, paths: HomePaths) -> tuple[PurePosixPath, ...]:
        """The files of this root at the moment, relative to its folder, in order. Links are left out."""
        folder = self.folder(paths)
        found = {file for pattern in self.include for file in folder.glob(pattern)}
        left_out = {file for pattern in self.exclude for file in folder.glob(pattern)}
        kept = (file for file in found - left_out if file.is_file() and not file.is_symlink())
        return tuple(sorted(PurePosixPath(file.relative_to(folder).as_posix()) for file in kept))


class Tools(ProfilePart):
    """Tools by situation: the agent that ingests, the agent that is asked, and the system's own worker."""

    ingest: tuple[str, ...]
    qa: tuple[str, ...]
    worker: tuple[str, ...] = ()


class Settle(ProfilePart):
    """How long the state must be quiet before it is copied, and how long to wait for that."""

    quiet_seconds: NonNegativeFloat = 0.0
    timeout_seconds: PositiveFloat = 30.0


class UsageSource(ProfilePart):
    """Where the system's own model calls can be seen: in the recorder, in its receipt, or nowhere."""

    metering: Literal["recorder", "receipt", "unmetered"]


class MemorySystem(ProfilePart):
    """A memory system as its profile describes it. `unverified` lists what its makers are silent about.

    `captures_replay`: the system forms memory on its own from a finished session that is opened and closed
    without a turn being run in it, as replay does (see `harness.replay` for the events that it can see).
    """

    name: str = Field(pattern="^[a-z0-9][a-z0-9.-]*$")
    title: str = Field(min_length=1)
    version: str = Field(min_length=1)
    verified: bool
    unverified: tuple[str, ...] = ()
    rows: tuple[str, ...] = Field(min_length=1)
    install: Annotated[FileInstall | PackageInstall, Field(discriminator="kind")]
    state: tuple[StateRoot, ...] = Field(min_length=1)
    memory_roots: tuple[str, ...]
    injected: tuple[str, ...] = ()
    writes_during_qa: bool
    captures_replay: bool = False
    redirect_home: bool
    tools: Tools
    settle: Settle = Settle()
    consolidation: Consolidation
    usage: UsageSource

    _source: Path = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        self._source = Path((context or {}).get("source", "."))

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> "MemorySystem":
        problem = next(_contradictions(self), None)
        if problem:
            raise ValueError(problem)
        return self

    @property
    def consolidates(self) -> bool:
        return not isinstance(self.consolidation, NoConsolidation)

    @property
    def dsh_profiles(self) -> tuple[str, ...]:
        """The profiles of DSH that formation runs, all of which must have the plugin."""
        match self.consolidation:
            case WebRouteTrigger():
                return (SDK, "web")
            case CommandTrigger(command=command):
                named = (name for option, name in pairwise(command) if option == "--profile")
                return tuple(dict.fromkeys((SDK, *named)))
            case _:
                return (SDK,)

    @property
    def plugin_file(self) -> Path | None:
        """The plugin's module on disk; None for a package."""
        if isinstance(self.install, FileInstall):
            return (self._source.parent / self.install.path).resolve()
        return None

    def readable_roots(self, paths: HomePaths) -> tuple[Path, ...]:
        """The state folders that the agent may read."""
        return tuple(root.folder(paths) for root in self.state if root.name in self.memory_roots)

    def path_values(self, paths: HomePaths) -> dict[str, str]:
        """What the placeholders for folders stand for in one sandbox."""
        values = {"dsh_home": paths.dsh_home, "home": paths.home, "workspace": paths.workspace}
        roots = self.readable_roots(paths)
        return {
            name: str(path) for name, path in (values | ({"memory_root": roots[0]} if roots else {})).items()
        }

    def patch_rows(self, paths: HomePaths, *, model: str, provider: str) -> list[dict[str, Any]]:
        """Rows for the evaluation patch, `{id, name, config}`; none where the package brings its own."""
        if self.install.row is None:
            return []
        name = str(self.plugin_file) if isinstance(self.install, FileInstall) else self.install.package
        known = self.path_values(paths) | {"model": model, "provider": provider}
        return [{"id": self.install.row, "name": name, "config": render(self.install.config, known)}]

    def fingerprint(self) -> str:
        """sha256 over the profile and, for a plugin on disk, over every file of its folder."""
        digest = hashlib.sha256()
        for name, content in self._fingerprinted_files():
            for part in (name.encode(), content):
                digest.update(len(part).to_bytes(8, "big") + part)
        return digest.hexdigest()

    def _fingerprinted_files(self) -> Iterator[tuple[str, bytes]]:
        yield "profile", self._source.read_bytes()
        if self.plugin_file is not None:
            folder = self.plugin_file.parent
            for file in sorted(path for path in folder.rglob("*") if path.is_file()):
                yield file.relative_to(folder).as_posix(), file.read_bytes()


def _contradictions(system: MemorySystem) -> Iterator[str]:
    names = [root.name for root in system.state]
    for name in names:
        if names.count(name) > 1:
            yield f"state: two roots are named {name!r}"
    for name in system.memory_roots:
        if name not in names:
            yield f"memory_roots: there is no state root named {name!r}"
    if system.install.row is not None and system.install.row not in system.rows:
        yield f"rows: the installed row {system.install.row!r} is missing"
    if system.install.row is None and system.install.config:
        yield "install.config: a package that brings its own rows takes no config from here"
    if system.verified and system.unverified:
        yield "unverified: a verified profile cannot list anything as unverified"
    if not system.verified and not system.unverified:
        yield "unverified: an unverified profile must say what is unverified"
    yield from _unknown_placeholders(system)


def _unknown_placeholders(system: MemorySystem) -> Iterator[str]:
    templates: list[tuple[str, Any, frozenset[str]]] = [
        ("install.config", system.install.config, CONFIG_PLACEHOLDERS)
    ]
    if isinstance(system.consolidation, HttpTrigger):
        templates.append(
            ("consolidation.endpoint_file", system.consolidation.endpoint_file, PATH_PLACEHOLDERS)
        )
    if isinstance(system.consolidation, CommandTrigger):
        templates.append(("consolidation.command", system.consolidation.command, COMMAND_PLACEHOLDERS))
    for key, template, known in templates:
        for name in placeholders_in(template):
            if name not in known:
                yield f"{key}: {{{name}}} is not a placeholder; known are {', '.join(sorted(known))}"
            elif name == "memory_root" and not system.memory_roots:
                yield f"{key}: {{memory_root}} needs a state root in memory_roots"


def bundled_names(bundled: Path) -> list[str]:
    """Names of the profiles that come with the project."""
    return sorted(path.stem for path in bundled.glob("*.toml"))


def load_memory_system(name_or_path: str, bundled: Path) -> MemorySystem:
    """The memory system of a bundled profile's name, or of a path to a TOML file.

    Raises ProfileError for an unknown name, a file that cannot be read, invalid TOML or an invalid value.
    """
    source = _find(name_or_path, bundled)
    system = _parse(source)
    if system.plugin_file is not None and not system.plugin_file.is_file():
        raise ProfileError(f"{source}: install.path: there is no plugin file {system.plugin_file}")
    return system


def _find(name_or_path: str, bundled: Path) -> Path:
    if re.fullmatch(r"[a-z0-9][a-z0-9-]*", name_or_path) and (bundled / f"{name_or_path}.toml").is_file():
        return (bundled / f"{name_or_path}.toml").resolve()
    path = Path(name_or_path)
    if path.is_file():
        return path.resolve()
    known = ", ".join(bundled_names(bundled)) or "none"
    raise ProfileError(
        f"There is no memory system {name_or_path!r}: give a bundled name ({known}) or the path of a profile."
    )


def _parse(source: Path) -> MemorySystem:
    try:
        data = tomllib.loads(source.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"{source}: the profile cannot be read: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{source}: the profile is not valid TOML: {error}.") from error
    try:
        return MemorySystem.model_validate(data, context={"source": source})
    except ValidationError as error:
        raise ProfileError(f"{source}: {_first_problem(error)}.") from error


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    key = ".".join(str(part) for part in first["loc"])
    return f"{key}: {message}" if key else message
