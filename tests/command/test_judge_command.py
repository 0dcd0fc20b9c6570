"""`dshmem judge`: verdicts anew from a run's records, with nothing asked again."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from answered_run import answered_run

from pytest_dshmem.command.main import main
from pytest_dshmem.experiment.judging.choice import JUDGING
from pytest_dshmem.offline.process import StandIn
from pytest_dshmem.record.fingerprint import fingerprint
from pytest_dshmem.record.run_directory import RunDirectory
from pytest_dshmem.report.diagnosis import read_diagnosis, write_diagnosis
from pytest_dshmem.report.reading import read_run
from pytest_dshmem.report.verify import verify_run

PROMPT = "Is {hypothesis} what {reference} says of {question}"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return answered_run(tmp_path_factory.mktemp("made") / "run").path


@pytest.fixture
def run(made_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made_once, tmp_path / "run"))


@pytest.fixture(scope="module")
def stand_in() -> Iterator[StandIn]:
    with StandIn.start() as started:
        yield started


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_API_KEY", "DSHMEM_JUDGE_API_KEY", "DSHMEM_JUDGE_MODEL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("DSHMEM_DATA", raising=False)
    monkeypatch.setenv("DSHMEM_CACHE", str(tmp_path / "cache"))


def judge(run: Path, *words: str) -> int:
    return main(["judge", str(run), *words])


def test_a_run_is_judged_from_its_records_and_the_summary_is_printed(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (run / "qa.jsonl").read_bytes()
    assert judge(run, "--offline") == 0
    reading = read_run(run)
    assert len(reading.verdicts) == 9
    assert {verdict.state for verdict in reading.verdicts.values()} == {"judged"}
    assert (run / "qa.jsonl").read_bytes() == asked
    printed = capsys.readouterr().out
    assert "memory benchmark longmemeval" in printed
    assert str(reading.protocol) in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_what_follows_from_verdicts_is_brought_up_to_date(run: Path) -> None:
    write_diagnosis(run, ())
    assert judge(run, "--offline") == 0
    assert verify_run(run).findings == ()
    assert len((run / "hypotheses.jsonl").read_text().splitlines()) == 10
    wrong = [verdict for verdict in read_run(run).verdicts.values() if verdict.correct is False]
    assert wrong
    assert len(read_diagnosis(run) or ()) == len(wrong)
    assert not (run / "work").exists()


def test_judging_twice_asks_once_and_the_protocol_chosen_last_is_the_one_that_is_read(
    run: Path, tmp_path: Path
) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text(PROMPT)
    assert judge(run, "--offline") == 0
    first = read_run(run).protocol
    assert judge(run, "--offline", "--prompt", str(prompt)) == 0
    second = read_run(run).protocol
    lines = (run / "judge.jsonl").read_bytes()
    assert judge(run, "--offline") == 0
    assert (run / "judge.jsonl").read_bytes() == lines
    assert first != second
    assert read_run(run).protocol == first
    described = read_run(run).manifest.facts["judges"]
    assert set(described) == {first, second}
    assert described[second]["prompt_file_sha256"]
    assert verify_run(run).findings == ()


def test_parameters_are_sent_and_are_a_part_of_the_protocol(
    run: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSHMEM_JUDGE_API_KEY", "a-key-that-must-stay-secret")
    at = ("--base-url", stand_in.url, "--model", "some-judge")
    assert judge(run, *at) == 0
    assert judge(run, *at, "--judge-parameters", '{"reasoning_effort": "low"}') == 0
    reading = read_run(run)
    assert len(reading.protocols) == 2
    assert reading.manifest.facts["judges"][reading.protocol]["parameters"] == {"reasoning_effort": "low"}
    for file in run.rglob("*"):
        assert file.is_dir() or b"must-stay-secret" not in file.read_bytes()


def test_a_run_without_texts_takes_them_from_the_data_set(made_once: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(made_once, tmp_path / "run"))
    (run / "references.jsonl").unlink()
    assert judge(run, "--offline") == 0
    assert len(read_run(run).verdicts) == 9
    assert not (run / "references.jsonl").exists()


def test_another_data_file_than_the_runs_is_not_used(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "references.jsonl").unlink()
    manifest = json.loads((run / "run.json").read_text())
    manifest["settings"]["data.sha256"] = "0" * 64
    (run / "run.json").write_text(json.dumps(manifest))
    assert judge(run, "--offline") == 1
    assert "made on another file" in capsys.readouterr().err


def test_a_diagnosis_that_cannot_be_made_again_is_taken_out_and_that_is_said(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_diagnosis(run, ())
    manifest = json.loads((run / "run.json").read_text())
    manifest["facts"]["data"] = {"name": "longmemeval-oracle", "sample_corpus": False}
    (run / "run.json").write_text(json.dumps(manifest))
    assert judge(run, "--offline") == 0
    assert read_diagnosis(run) is None
    assert "needs the data set" in capsys.readouterr().out


def test_a_run_of_a_real_model_says_that_it_was_judged_by_the_embedded_judge(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((run / "run.json").read_text())
    manifest["settings"]["offline"] = False
    manifest["fingerprint"] = fingerprint(manifest["settings"])
    (run / "run.json").write_text(json.dumps(manifest))
    assert judge(run, "--offline") == 0
    assert "judged by the embedded judge" in capsys.readouterr().out


def test_an_address_without_a_judge_is_one_sentence_and_status_1(
    run: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    assert judge(run, "--base-url", f"{stand_in.url}/nowhere", "--concurrency", "1") == 1
    shown = capsys.readouterr()
    assert "judging broke off: The judge at 127.0.0.1 has no such address" in shown.err
    assert shown.err.count("\n") == 1
    assert "no verdict" in shown.out


def test_two_processes_do_not_judge_one_run_at_once(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RunDirectory.open(run).claims() as other:
        assert other.take(JUDGING)
        assert judge(run, "--offline") == 1
        assert "another process is judging this run" in capsys.readouterr().err
    assert not (run / "judge.jsonl").exists()
    assert judge(run, "--offline") == 0


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], 2, "no judge credential"),
        (["--offline", "--model", "other"], 2, "a judge of its own"),
        (["--offline", "--judge-parameters", "{"], 2, "not JSON"),
        (["--offline", "--judge-parameters", "[1]"], 2, "no JSON object"),
        (["--offline", "--judge-parameters", '{"model": "x"}'], 2, "may not set model"),
        (["--offline", "--prompt", "nowhere.txt"], 2, "cannot be read"),
        (["--offline", "--official-script", "nowhere.py"], 2, "cannot be read"),
        (["--offline", "--prices", "nowhere.toml"], 2, "price file"),
    ],
)
def test_wrong_usage_is_one_sentence_and_status_2(
    run: Path, words: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(run, *words) == status
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.err.count("\n") == 1
    assert not (run / "judge.jsonl").exists()


def test_a_folder_without_a_run_is_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(tmp_path / "nowhere", "--offline") == 1
    assert "holds no run" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--prompt", "a", "--official-script", "b"], ["--concurrency", "0"]])
def test_options_that_argparse_refuses_are_status_2(run: Path, words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        judge(run, *words)
    assert ended.value.code == 2
