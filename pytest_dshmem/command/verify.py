"""`dshmem verify`: whether a run is complete, unaltered, and says what its records say."""

import argparse
from pathlib import Path

from pytest_dshmem.command.terminal import fail
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.report.publishing import publishing_findings
from pytest_dshmem.report.seal import seal_hash
from pytest_dshmem.report.verify import Verification, verify_run


def add_verify_command(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Registers `verify`."""
    parser = subparsers.add_parser(
        "verify", help="recompute a run's figures and check that nothing was altered"
    )
    parser.add_argument("run_directory", type=Path, metavar="RUN", help="run directory")
    parser.add_argument(
        "--publishable", action="store_true", help="also look for secrets and for paths of this machine"
    )
    parser.set_defaults(run=_verify)


def _verify(arguments: argparse.Namespace) -> int:
    path: Path = arguments.run_directory
    try:
        verification = verify_run(path)
        against = publishing_findings(path) if arguments.publishable else ()
        seal = seal_hash(path)
    except RecordError as error:
        return fail(error)
    for finding in (*verification.findings, *against):
        print(finding)
    print(_conclusion(verification, len(against), seal))
    return 0 if verification.holds and not against else 1


def _conclusion(verification: Verification, against: int, seal: str | None) -> str:
    looked_at = (
        f"{verification.files:,} files, {verification.questions:,} questions and "
        f"{verification.verdicts:,} verdicts looked at"
    )
    if verification.holds and not against:
        return f"complete and unaltered: {looked_at}, every figure recomputed; seal sha256 {seal}"
    parts = [f"{len(verification.findings):,} things do not hold"] if verification.findings else []
    parts += [f"{against:,} stand against publishing"] if against else []
    return f"{' and '.join(parts)}: {looked_at}"
