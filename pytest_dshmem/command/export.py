"""`dshmem export`: a run's answers in the files that LongMemEval's own scripts read."""

import argparse
import re
from pathlib import Path
from typing import cast, get_args

from pytest_dshmem.command.terminal import fail, positive_count, refuse
from pytest_dshmem.experiment.judging.errors import JudgeError
from pytest_dshmem.experiment.judging.export import OfficialExport, write_official
from pytest_dshmem.experiment.judging.protocol import ProtocolName
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.report.numbers import plural
from pytest_dshmem.report.reading import Group, RunReading, read_run

OFFICIAL = "longmemeval-official"
UNKNOWN_JUDGE = "unknown"
_KEY = re.compile(r"(?P<name>.+)-\d+-[0-9a-f]+")


class ExportError(Exception):
    """What cannot be exported as asked, in one sentence."""


def add_export_command(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Registers `export`."""
    parser = subparsers.add_parser("export", help="write what LongMemEval's own scripts read")
    parser.add_argument("run_directory", type=Path, metavar="RUN", help="run directory")
    parser.add_argument(
        "--official",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder for hypotheses.jsonl and the evaluation log; one below it for each condition of several",
    )
    parser.add_argument("--condition", metavar="NAME", help="only this condition")
    parser.add_argument("--repeat", type=positive_count, metavar="N", help="only this repeat")
    parser.set_defaults(run=_export)


def _export(arguments: argparse.Namespace) -> int:
    try:
        reading = _official_reading(arguments.run_directory)
        groups = _wanted(reading, arguments.condition, arguments.repeat)
        for group in groups:
            folder = arguments.official if len(groups) == 1 else arguments.official / _folder_name(group)
            _tell(group, _write(reading.of(group), folder), reading.protocol)
    except ExportError as error:
        return refuse(error)
    except (RecordError, JudgeError) as error:
        return fail(error)
    return 0


def _official_reading(path: Path) -> RunReading:
    """The run under the official protocol where it was judged so, else as it was judged last."""
    reading = read_run(path)
    benchmark = reading.setting("benchmark")
    if benchmark != "longmemeval":
        raise ExportError(
            f"the official format is LongMemEval's and this run is of {benchmark}; its answers are in "
            f"{path / 'hypotheses.jsonl'}, a line each"
        )
    official = [key for key in reading.protocols if _protocol_name(key) == OFFICIAL]
    if official and reading.protocol not in official:
        return read_run(path, protocol=official[-1])
    return reading


def _wanted(reading: RunReading, condition: str | None, repeat: int | None) -> list[Group]:
    groups = [
        group
        for group in reading.groups
        if condition in (None, group.condition) and repeat in (None, group.repeat)
    ]
    if not groups:
        there = ", ".join(group.label for group in reading.groups) or "nothing"
        raise ExportError(f"the run holds no such condition or repeat; it holds {there}")
    return groups


def _write(reading: RunReading, folder: Path) -> OfficialExport:
    key = reading.protocol or ""
    return write_official(
        folder,
        reading.selected,
        reading.hypotheses,
        reading.verdicts,
        _protocol_name(key),
        _judge_model(reading, key),
    )


def _protocol_name(key: str) -> ProtocolName:
    """The name in a protocol's key; a key that is none of ours counts as a custom protocol."""
    match = _KEY.fullmatch(key)
    name = match["name"] if match else ""
    return cast(ProtocolName, name) if name in get_args(ProtocolName) else "custom"


def _judge_model(reading: RunReading, key: str) -> str:
    """The model that judged, from the manifest, or from the calls of a run whose manifest is silent."""
    described = reading.manifest.facts.get("judges", {}).get(key, {})
    calls = (call.model for verdict in reading.verdicts.values() for call in verdict.calls)
    return str(described.get("model") or next(calls, UNKNOWN_JUDGE))


def _folder_name(group: Group) -> str:
    return group.condition if group.repeat == 1 else f"{group.condition}-r{group.repeat}"


def _tell(group: Group, export: OfficialExport, protocol: str | None) -> None:
    questions = plural(export.answered + export.unanswered, "question")
    print(f"{group.label}: {questions}, {export.unanswered:,} of them unanswered and empty in the files")
    print(f"wrote {export.hypotheses}")
    if export.log is not None:
        print(f"wrote {export.log}, judged under {protocol or 'no protocol: nothing was answered'}")
    if export.reason is not None:
        print(export.reason)
