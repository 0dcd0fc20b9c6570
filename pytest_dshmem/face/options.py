"""Every option of the plugin, once: command line, ini value, help, default and type come from this table.

Precedence: command line, then ini file, then environment (where the help names a variable), then default.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NewType, get_args, get_type_hints

import pytest

from pytest_dshmem.experiment.condition import CONDITIONS
from pytest_dshmem.face import checks
from pytest_dshmem.face.problems import PROBLEM_KEY

WORKER_KEY = "dshmem_options"

NameOrPath = NewType("NameOrPath", str)
"""A name that we know, or the absolute path of a file: what has a dot or a slash in it is a path."""

Paths = tuple[Path, ...]


def option(
    default: Any,
    text: str,
    *,
    flag: str | None = None,
    choices: tuple[str, ...] = (),
    metavar: str = "",
    check: Callable[[Any], None] | None = None,
) -> Any:
    metadata = {"help": text, "flag": flag, "choices": choices, "metavar": metavar, "check": check}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Options:
    """All options with their values. Paths are absolute."""

    mode: str = option(
        "memory",
        f"conditions, comma-separated: {', '.join(CONDITIONS)}",
        flag="--mode",
        metavar="MODES",
        check=checks.known_conditions,
    )
    offline: bool = option(
        False, "use the embedded model and judge; figures are not benchmark results", flag="--offline"
    )
    run: Path | None = option(
        None,
        "run directory: kept, and continued by the same command",
        metavar="DIR",
        check=checks.outside_of_repositories,
    )
    data: Path | None = option(None, "folder or file of the data set (env DSHMEM_DATA)", metavar="PATH")
    allow_unpinned: bool = option(False, "use a data file that is not the published one, and say so")
    variant: str = option("s", "size of LongMemEval", choices=("oracle", "s", "m"))
    no_captions: bool = option(False, "leave the captions of shared images out of LoCoMo")
    limit: int | None = option(None, "ask at most N questions of each condition", metavar="N")
    select: NameOrPath = option(
        "full", "smoke, stratified, full, or a file of question ids", metavar="NAME|FILE"
    )
    split: str = option("all", "questions to tune on, or to report on", choices=("all", "dev", "held-out"))
    category: str = option("", "only questions of these categories, comma-separated", metavar="NAMES")
    abstention: str = option("with", "unanswerable questions", choices=("with", "without", "only"))
    rerun: str = option("", "only questions by their last verdicts", choices=("wrong", "failed", "changed"))
    repeat: int = option(1, "do everything N times, to see the spread", metavar="N")
    memory: NameOrPath = option(
        "reference", "memory system: a bundled profile or a TOML file", metavar="NAME|PATH"
    )
    model: str = option("", "model of the agent (default: the source home's, or deepseek-v4-flash)")
    base_url: str = option("", "model endpoint (env DEEPSEEK_BASE_URL)", metavar="URL")
    source_home: Path | None = option(
        None,
        "DSH home to take model and credential from, and nothing else",
        metavar="DIR",
        check=checks.existing_folder,
    )
    ingest_effort: str = option("low", "reasoning effort while ingesting")
    question_effort: str = option("high", "reasoning effort while answering")
    ingestion: str = option("transcript", "how sessions come in", choices=("transcript", "replay"))
    context_window: int = option(1_000_000, "tokens that the model takes", metavar="N")
    ingest_timeout: float = option(600.0, "seconds for the ingestion of a session", metavar="S")
    question_timeout: float = option(300.0, "seconds for a question", metavar="S")
    start_timeout: float = option(180.0, "seconds for the start of a runtime", metavar="S")
    ingest_steps: int = option(16, "model calls that one session's ingestion may take", metavar="N")
    question_steps: int = option(10, "model calls that one question may take", metavar="N")
    attempts: int = option(2, "attempts at a session or question that failed", metavar="N")
    concurrency: int = option(4, "units of work in flight, in each process", metavar="K")
    sandbox: Path | None = option(
        None,
        "where sandboxes are made (default: a private temporary folder)",
        metavar="DIR",
        check=checks.outside_of_repositories,
    )
    judge_model: str = option("", "judge (env DSHMEM_JUDGE_MODEL, else gpt-4o-mini)", metavar="MODEL")
    judge_base_url: str = option("", "judge endpoint (env OPENAI_BASE_URL)", metavar="URL")
    judge_prompt: Path | None = option(
        None, "judge with the prompt in this file", metavar="FILE", check=checks.existing_file
    )
    official_script: Path | None = option(
        None,
        "judge with the prompts of LongMemEval's evaluate_qa.py",
        metavar="FILE",
        check=checks.existing_file,
    )
    judge_parameters: str = option(
        "", 'parameters of a judge call (default: {"temperature": 0})', metavar="JSON"
    )
    judge_concurrency: int = option(32, "judge calls in flight", metavar="K")
    judge_timeout: float = option(60.0, "seconds for a judge call", metavar="S")
    no_judge: bool = option(False, "do not judge now; `dshmem judge RUN` does it later")
    plan: bool = option(False, "say what the run would take, and run nothing")
    plan_from: Path | None = option(
        None, "plan with the averages that this run of the same settings measured", metavar="RUN"
    )
    prices: Path | None = option(None, "price file (TOML)", metavar="FILE", check=checks.existing_file)
    max_cost: float | None = option(None, "stop in good order when this much is spent", metavar="MONEY")
    max_tokens: int | None = option(None, "stop in good order when so many tokens are used", metavar="N")
    compare: Paths = option(
        (), "compare with these runs, comma-separated", metavar="RUNS", check=checks.existing_runs
    )
    force: bool = option(False, "compare runs even where they are not comparable, and say why")
    fail_under: float | None = option(
        None, "exit 1 if the accuracy in percent is lower", metavar="PERCENT", check=checks.percentage
    )
    no_worse_than: Path | None = option(
        None, "exit 1 unless at least as good as this run", metavar="RUN", check=checks.existing_run
    )
    html: Path | None = option(
        None, "write the report as one HTML file", metavar="FILE", check=checks.file_to_write
    )
    json: Path | None = option(None, "write the report as JSON", metavar="FILE", check=checks.file_to_write)
    overlay: Path | None = option(
        None,
        "published audit of wrong golds, for a second accuracy",
        metavar="FILE",
        check=checks.existing_file,
    )
    without_text: bool = option(False, "leave question and gold text out of the run and its reports")


def add_options(parser: pytest.Parser) -> None:
    """Registers every option on the command line and in the ini file."""
    group = parser.getgroup("dshmem", "memory benchmarks for DeepSeek Harness")
    for spec in dataclasses.fields(Options):
        flag, kind = _flag(spec), _kind(spec)
        if kind is bool:
            group.addoption(flag, dest=_dest(spec), action="store_true", default=None, help=_help(spec))
        else:
            group.addoption(
                flag,
                dest=_dest(spec),
                default=None,
                type=_reader(spec, Path.cwd()),
                metavar=_metavar(spec),
                help=_help(spec),
            )
        parser.addini(_dest(spec), f"{flag}: {spec.metadata['help']}", default=None)


def read_options(config: pytest.Config) -> Options:
    """The options of this session; a worker takes those that the controller has read."""
    sent = getattr(config, "workerinput", {})
    if PROBLEM_KEY in sent:
        raise pytest.UsageError(sent[PROBLEM_KEY])
    if WORKER_KEY in sent:
        return options_from_plain(sent[WORKER_KEY])
    return Options(**{spec.name: _value(config, spec) for spec in dataclasses.fields(Options)})


def wants_plan(config: pytest.Config) -> bool:
    """Whether this session is to plan and run nothing; a value that cannot be read is found later."""
    spec = next(spec for spec in dataclasses.fields(Options) if spec.name == "plan")
    try:
        return bool(_value(config, spec))
    except pytest.UsageError:
        return False


def options_as_plain(options: Options) -> dict[str, Any]:
    """Options as builtins that travel to a worker."""
    return {name: _plain(value) for name, value in dataclasses.asdict(options).items()}


def options_from_plain(plain: dict[str, Any]) -> Options:
    """What `options_as_plain` made, as options again."""
    kinds = {spec.name: _kind(spec) for spec in dataclasses.fields(Options)}
    values: dict[str, Any] = {name: _from_plain(value, kinds[name]) for name, value in plain.items()}
    return Options(**values)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [str(part) for part in value]
    return str(value) if isinstance(value, Path) else value


def _from_plain(value: Any, kind: Any) -> Any:
    if kind == Paths:
        return tuple(Path(part) for part in value)
    return Path(value) if kind is Path and value is not None else value


def _value(config: pytest.Config, spec: dataclasses.Field[Any]) -> Any:
    given = config.getoption(_dest(spec))
    if given is not None:
        return given
    written = config.getini(_dest(spec))
    if written in (None, "", []):
        return spec.default
    folder = config.inipath.parent if config.inipath else config.rootpath
    try:
        return _reader(spec, folder)(str(written))
    except argparse.ArgumentTypeError as error:
        raise pytest.UsageError(f"ini value {_dest(spec)}: {error}") from None


def _reader(spec: dataclasses.Field[Any], folder: Path) -> Callable[[str], Any]:
    """Reads a value off its text; paths are relative to `folder`."""
    kind, choices = _kind(spec), spec.metadata["choices"]

    def read(text: str) -> Any:
        if choices and text not in choices:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(choices)}")
        value = _parse(text, kind, folder)
        check = spec.metadata["check"] or (checks.more_than_nothing if kind in (int, float) else None)
        if check is not None:
            check(value)
        return value

    return read


def _parse(text: str, kind: Any, folder: Path) -> Any:
    if kind is bool:
        return _boolean(text)
    if kind in (int, float):
        return _number(text, kind)
    if kind is Path:
        return folder / Path(text).expanduser()
    if kind == Paths:
        return tuple(folder / Path(part.strip()).expanduser() for part in text.split(",") if part.strip())
    if kind is NameOrPath and ("/" in text or "." in text):
        return str(folder / Path(text).expanduser())
    return text


def _number(text: str, kind: Any) -> Any:
    try:
        return kind(text)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}") from None


def _boolean(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


@functools.cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Options)


def _kind(spec: dataclasses.Field[Any]) -> Any:
    hint = _hints()[spec.name]
    if hint == Paths:
        return Paths
    return next((part for part in get_args(hint) if part is not type(None)), hint)


def _flag(spec: dataclasses.Field[Any]) -> str:
    return spec.metadata["flag"] or f"--dshmem-{spec.name.replace('_', '-')}"


def _dest(spec: dataclasses.Field[Any]) -> str:
    return f"dshmem_{spec.name}"


def _metavar(spec: dataclasses.Field[Any]) -> str:
    return spec.metadata["metavar"] or "|".join(spec.metadata["choices"]) or "NAME"


def _help(spec: dataclasses.Field[Any]) -> str:
    default = spec.default
    shown = (
        f" (default: {default})"
        if default not in (None, "", False, ()) and "default" not in spec.metadata["help"]
        else ""
    )
    return f"{spec.metadata['help']}{shown}".replace("%", "%%")
