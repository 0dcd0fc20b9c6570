"""What a long run holds in memory: sessions and runtimes are let go as it goes on."""

import json
from pathlib import Path

import pytest
from suite_project import CORPUS, SuiteProject, states

pytestmark = pytest.mark.runtime

QUESTIONS = 1540
EARLY = 100
ADVERSARIAL = 5
BOUND = 1.5
PROBE = Path(__file__).resolve().parents[2] / "benchmarks"


def long_corpus(folder: Path) -> Path:
    """One sample of the corpus, of which as many questions are asked as LoCoMo has."""
    sample = json.loads(CORPUS.read_text("utf-8"))[0]
    asked = [question for question in sample["qa"] if question["category"] != ADVERSARIAL]
    times = QUESTIONS // len(asked) + 1
    folder.mkdir()
    file = folder / "locomo10.json"
    file.write_text(json.dumps([{**sample, "qa": (asked * times)[:QUESTIONS]}]), "utf-8")
    return file


def held(moment: dict[str, float]) -> float:
    """Bytes in the pytest process and in its runtimes."""
    return moment["resident"] + moment["runtimes"]


def test_a_run_of_1540_questions_ends_with_little_more_than_it_held_after_100(
    project: SuiteProject, tmp_path: Path
) -> None:
    run, moments = tmp_path / "run", tmp_path / "moments.json"
    project.monkeypatch.setenv("PYTHONPATH", str(PROBE))
    project.monkeypatch.setenv("PROBE_FILE", str(moments))
    data = (f"--dshmem-data={long_corpus(tmp_path / 'data')}", "--dshmem-allow-unpinned")
    options = ("--mode=memory", "--dshmem-concurrency=8", f"--dshmem-run={run}", "--dshmem-no-judge")

    outcome = project.run_apart("-p", "probe", "suites/locomo", "--offline", *data, *options)

    assert outcome.status == pytest.ExitCode.OK, outcome.text
    assert len(states(run)) == QUESTIONS
    seen = json.loads(moments.read_text("utf-8"))
    last = max(int(name.split()[1]) for name in seen if name.startswith("hypothesis "))
    assert last > QUESTIONS - EARLY
    assert held(seen[f"hypothesis {last}"]) <= BOUND * held(seen[f"hypothesis {EARLY}"])
