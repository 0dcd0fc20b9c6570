"""The `dshmem` command as a whole: its subcommands, and how it ends."""

import subprocess
import sys

import pytest

from pytest_dshmem.command import main as entry
from pytest_dshmem.command.main import main

NAMES = ("data", "judge", "report", "compare", "history", "verify", "export")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    words = capsys.readouterr().out.split()
    assert set(NAMES) <= set(words)


@pytest.mark.parametrize("name", NAMES)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert name in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["nothing-of-ours"], ["judge"], ["export", "RUN"]])
def test_wrong_usage_is_status_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2


def test_an_interrupt_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_dshmem.command.history.history", interrupted)
    assert main(["history", "."]) == entry.INTERRUPTED
    assert "interrupted" in capsys.readouterr().err


def test_a_reader_that_goes_away_leaves_no_traceback() -> None:
    words = [sys.executable, "-m", "pytest_dshmem.command.main", "data", "list"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, told = process.communicate(timeout=60)
    assert b"Traceback" not in told


def test_the_command_does_not_load_the_harness() -> None:
    code = "import sys, pytest_dshmem.command.main; print('deepseek_harness' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
