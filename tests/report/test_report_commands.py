"""The commands over finished runs: what they print, write and return."""

import argparse
import json
from pathlib import Path

import pytest
from synthetic_run import synthetic_run

from pytest_dshmem.command.compare import add_compare_command
from pytest_dshmem.command.history import add_history_command
from pytest_dshmem.command.report import add_report_command
from pytest_dshmem.command.verify import add_verify_command
from pytest_dshmem.report.seal import seal_run


def command(*words: str | Path) -> int:
    parser = argparse.ArgumentParser(prog="dshmem")
    subparsers = parser.add_subparsers(required=True)
    for add in (add_compare_command, add_history_command, add_report_command, add_verify_command):
        add(subparsers)
    arguments = parser.parse_args([str(word) for word in words])
    status = arguments.run(arguments)
    assert isinstance(status, int)
    return status


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = synthetic_run(tmp_path / "run").path
    seal_run(path)
    return path


def test_verify_says_that_all_holds(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("verify", run) == 0
    assert "complete and unaltered" in capsys.readouterr().out


def test_verify_lists_what_does_not_hold(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run / "qa.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    assert command("verify", run) == 1
    out = capsys.readouterr().out
    assert "qa.jsonl: differs from what was sealed: 1 of 24 lines were removed" in out
    assert "do not hold" in out


def test_verify_can_ask_for_publishable(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("verify", run, "--publishable") == 0
    (run / "notes.txt").write_text(f"made in {Path.home()}/runs\n")
    seal_run(run)
    assert command("verify", run, "--publishable") == 1
    assert "names a folder of this machine" in capsys.readouterr().out


def test_report_writes_html_and_json_without_texts(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, document = tmp_path / "page.html", tmp_path / "figures.json"
    assert command("report", run, "--html", page, "--json", document, "--without-text") == 0
    assert str(page) in capsys.readouterr().out
    assert "<!doctype html>" in page.read_text()
    assert "Which two tools" not in document.read_text()
    questions = json.loads(document.read_text())["questions"]
    assert len(questions) == 24
    assert not {"question", "gold"} & set(questions[0])


def test_report_prints_the_summary(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("report", run) == 0
    assert "66.7 %" in capsys.readouterr().out


def test_compare_prints_and_writes_the_same(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "comparison.json"
    assert command("compare", run, "--json", written) == 0
    out = capsys.readouterr().out
    assert "B against A" in out
    (document,) = json.loads(written.read_text())
    assert document["pairs"][0]["finding"].split()[:3] == ["Of", "12", "questions"]


def test_history_lists_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("history", run.parent) == 0
    assert "locomo memory-consolidate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["verify", "nowhere"], "holds no run"),
        (["report", "nowhere"], "holds no run"),
        (["compare", "nowhere", "nowhere"], "holds no run"),
        (["history", "nowhere"], "is not a folder"),
        (["report", "{run}", "--prices", "nowhere.toml"], "price file"),
        (["compare", "{run}", "--mode", "oracle"], "nothing to compare"),
        (["report", "{run}", "--html", "nowhere/page.html"], "cannot write"),
        (
            ["report", "{run}", "--html", "page.html", "--disputed", "nowhere.json", "--data", "nowhere"],
            "nowhere",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_status_1(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(run.parent)
    assert command(*(word.format(run=run) for word in words)) == 1
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("dshmem: ")
    assert said in captured.err
