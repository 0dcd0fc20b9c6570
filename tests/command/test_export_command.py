"""`dshmem export --official`: files that LongMemEval's own scripts take as they are."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from answered_run import answered_run, sample_corpus
from synthetic_run import synthetic_run

from pytest_dshmem.command.main import main
from pytest_dshmem.offline.process import StandIn
from pytest_dshmem.report.reading import read_run

EVALUATION = """
import a_package_that_nobody_has

def get_anscheck_prompt(task, question, answer, response, abstention=False):
    parts = ["Question: " + question, "Correct Answer: " + answer, "Model Response: " + response]
    return "\\n\\n".join(parts) + ("\\n\\nIs it unanswerable?" if abstention else "\\n\\nYes or no?")
"""
METRICS = """
import json
import sys

log, references = sys.argv[1:]
entries = [json.loads(line) for line in open(log)]
types = {one["question_id"]: one["question_type"] for one in json.load(open(references))}
for entry in entries:
    assert entry["autoeval_label"]["model"] == "gpt-4o-2024-08-06"
    assert types[entry["question_id"]]
labels = [entry["autoeval_label"]["label"] for entry in entries]
print(len(labels), sum(labels))
"""


@pytest.fixture(scope="module")
def stand_in() -> Iterator[StandIn]:
    with StandIn.start() as started:
        yield started


@pytest.fixture
def officially_judged(tmp_path: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two conditions, judged with the official script by what answers to the official model's name."""
    script = tmp_path / "evaluate_qa.py"
    script.write_text(EVALUATION)
    run = answered_run(tmp_path / "run", conditions=("baseline", "oracle")).path
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    words = ["--official-script", str(script), "--base-url", stand_in.url]
    assert main(["judge", str(run), *words]) == 0
    return run


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_condition_has_a_folder_that_the_official_metrics_accept(
    officially_judged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics, references = tmp_path / "print_qa_metrics.py", tmp_path / "references.json"
    metrics.write_text(METRICS)
    listings = sample_corpus().listings()
    references.write_text(
        json.dumps([{"question_id": one.question_id, "question_type": one.category} for one in listings])
    )
    out = tmp_path / "out"
    assert main(["export", str(officially_judged), "--official", str(out)]) == 0
    printed = capsys.readouterr().out
    for condition in ("baseline", "oracle"):
        hypotheses = lines_of(out / condition / "hypotheses.jsonl")
        assert [line["question_id"] for line in hypotheses] == [one.question_id for one in listings]
        assert hypotheses[-1]["hypothesis"] == ""
        log = out / condition / "hypotheses.jsonl.eval-results-gpt-4o"
        done = subprocess.run(
            [sys.executable, str(metrics), str(log), str(references)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        right = [
            v.correct for k, v in read_run(officially_judged).verdicts.items() if k.condition == condition
        ]
        assert done.stdout.split() == ["10", str(sum(map(bool, right)))]
        assert any(right)
        assert not all(right)
        assert f"{condition}: 10 questions, 1 of them unanswered" in printed


def test_one_condition_goes_into_the_folder_itself(officially_judged: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["--official", str(out), "--condition", "oracle", "--repeat", "1"]
    assert main(["export", str(officially_judged), *words]) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "hypotheses.jsonl",
        "hypotheses.jsonl.eval-results-gpt-4o",
    ]


def test_the_official_verdicts_are_exported_though_another_judge_came_later(
    officially_judged: Path, tmp_path: Path
) -> None:
    assert main(["judge", str(officially_judged), "--offline"]) == 0
    out = tmp_path / "out"
    assert main(["export", str(officially_judged), "--official", str(out), "--condition", "oracle"]) == 0
    assert (out / "hypotheses.jsonl.eval-results-gpt-4o").exists()


def test_verdicts_of_another_protocol_do_not_bear_the_official_models_name(tmp_path: Path) -> None:
    run = answered_run(tmp_path / "run", repeats=2).path
    assert main(["judge", str(run), "--offline"]) == 0
    assert main(["export", str(run), "--official", str(tmp_path / "out")]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["baseline", "baseline-r2"]
    (log,) = (tmp_path / "out" / "baseline").glob("*.eval-results-*")
    labels = {json.dumps(line["autoeval_label"]) for line in lines_of(log)}
    assert all("offline-judge (dshmem-longmemeval)" in label for label in labels)


def test_an_unjudged_run_is_exported_without_a_log_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = answered_run(tmp_path / "run").path
    assert main(["export", str(run), "--official", str(tmp_path / "out")]) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["hypotheses.jsonl"]
    assert "No evaluation log was written: 9 answers have no verdict" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--condition", "memory"], "it holds baseline"), (["--repeat", "3"], "it holds baseline")],
)
def test_what_the_run_does_not_hold_is_wrong_usage(
    tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = answered_run(tmp_path / "run").path
    assert main(["export", str(run), "--official", str(tmp_path / "out"), *words]) == 2
    assert said in capsys.readouterr().err


def test_locomo_has_no_official_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = synthetic_run(tmp_path / "run").path
    assert main(["export", str(run), "--official", str(tmp_path / "out")]) == 2
    assert "the official format is LongMemEval's and this run is of locomo" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = answered_run(tmp_path / "run").path
    (tmp_path / "out").write_text("a file")
    assert main(["export", str(run), "--official", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err.startswith("dshmem: ")
