"""The official LongMemEval judge: its script (ours here, of the same interface), its files and figures."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pytest_dshmem.experiment.judging.errors import JudgeError
from pytest_dshmem.experiment.judging.export import OfficialExport, write_official
from pytest_dshmem.experiment.judging.item import JudgeItem
from pytest_dshmem.experiment.judging.official import (
    OFFICIAL_MODEL,
    load_official_script,
    official_protocol,
)
from pytest_dshmem.experiment.judging.official_metrics import OFFICIAL_TYPES, Label, official_metrics, rounded
from pytest_dshmem.experiment.judging.protocol import ProtocolName
from pytest_dshmem.experiment.scoring import official_scores, score
from pytest_dshmem.record.entries import Hypothesis, QuestionKey, Selected, Verdict

SCRIPT = """
import a_package_that_nobody_has
LEAD = "Mark this."
CLOSING = ("Say yes", "or no.")
OPENED = open("/nowhere/at/all")

def get_anscheck_prompt(task, question, answer, response, abstention=False):
    if abstention:
        return " ".join([LEAD, "unanswerable", question, answer, response])
    if task != "multi-session":
        raise NotImplementedError
    return "{} {} | {} | {} ".format(LEAD, question, answer, response) + " ".join(CLOSING)

if __name__ == "__main__":
    raise SystemExit("main has run")
"""


def item(category: str = "multi-session", abstention: bool = False) -> JudgeItem:
    return JudgeItem(
        key=QuestionKey(question_id="q1", condition="memory"),
        question="How many?",
        gold="3",
        category=category,
        abstention=abstention,
        hypothesis="{three}",
    )


def script(folder: Path, text: str = SCRIPT) -> Path:
    path = folder / "evaluate_qa.py"
    path.write_text(text)
    return path


def test_only_the_prompt_function_is_taken_out_of_the_script(tmp_path: Path) -> None:
    official = load_official_script(script(tmp_path))
    assert official.known is False
    protocol = official_protocol(official, "https://judge.example/v1")
    assert protocol.render(item()) == "Mark this. How many? | 3 | {three} Say yes or no."
    assert protocol.render(item("anything", abstention=True)).startswith("Mark this. unanswerable")


def test_the_official_parameters_and_the_scripts_hash_are_in_the_protocol(tmp_path: Path) -> None:
    official = load_official_script(script(tmp_path))
    described = official_protocol(official, "https://judge.example/v1").describe()
    assert described["model"] == OFFICIAL_MODEL
    assert described["parameters"] == {"temperature": 0, "n": 1, "max_tokens": 10}
    assert described["parse_rule"] == "yes-no"
    assert described["prompt_sha256"] == official.sha256
    assert described["official_script_known"] is False
    changed = load_official_script(script(tmp_path, SCRIPT + "\n"))
    assert official_protocol(changed, "https://judge.example/v1").key != described["key"]


def test_a_type_that_the_script_does_not_know_is_named(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="q1 of type 'single-hop'"):
        load_official_script(script(tmp_path)).render(item("single-hop"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def other(): pass", "holds no function"),
        ("def get_anscheck_prompt(", "not Python"),
        ("\0", "not Python"),
        ("@cached\ndef get_anscheck_prompt(): pass", "decorated"),
        ("def get_anscheck_prompt(task=nothing): pass", "cannot be taken alone"),
        ("def get_anscheck_prompt(task=open('x', 'w')): pass", "cannot be taken alone"),
    ],
)
def test_a_script_that_is_no_such_script_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(JudgeError, match=words):
        load_official_script(script(tmp_path, text))


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match=r"evaluate_qa\.py cannot be read"):
        load_official_script(tmp_path / "evaluate_qa.py")


def test_the_function_reaches_no_file_and_no_import(tmp_path: Path) -> None:
    text = "def get_anscheck_prompt(*a, **k):\n    import os\n    return os.getcwd()"
    with pytest.raises(JudgeError, match="ImportError"):
        load_official_script(script(tmp_path, text)).render(item())


# --- the files

METRICS = '''
"""Two arguments: an evaluation log and a reference file. Prints figures rounded by numpy."""
import json, sys
import numpy as np
log = [json.loads(line) for line in open(sys.argv[1])]
questions = {entry["question_id"]: entry["question_type"] for entry in json.load(open(sys.argv[2]))}
types = TYPES
right = {name: [] for name in types}
abstained = []
for entry in log:
    label = entry["autoeval_label"]
    assert label["model"] == "gpt-4o-2024-08-06"
    right[questions[entry["question_id"]]].append(int(label["label"]))
    if "_abs" in entry["question_id"]:
        abstained.append(int(label["label"]))
figures = {name: [round(np.mean(right[name]), 4), len(right[name])] for name in types}
figures["task-averaged"] = [round(np.mean([np.mean(right[name]) for name in types]), 4), len(types)]
every = [one for name in types for one in right[name]]
figures["overall"] = [round(np.mean(every), 4), len(every)]
figures["abstention"] = [round(np.mean(abstained), 4), len(abstained)]
print(json.dumps({name: [str(value), n] for name, (value, n) in figures.items()}))
'''.replace("TYPES", repr(OFFICIAL_TYPES))


class Run:
    """A run over all types, with every seventh an abstention question and a few unanswered."""

    def __init__(self, count: int = 61) -> None:
        self.selected = [self._selected(number) for number in range(count)]
        self.hypotheses = {one.key: self._hypothesis(n, one) for n, one in enumerate(self.selected) if n % 11}
        self.verdicts = {
            one.key: self._verdict(n, one)
            for n, one in enumerate(self.selected)
            if one.key in self.hypotheses and self.hypotheses[one.key].answered
        }

    def export(
        self, folder: Path, protocol: ProtocolName = "longmemeval-official", model: str = OFFICIAL_MODEL
    ) -> OfficialExport:
        return write_official(folder, self.selected, self.hypotheses, self.verdicts, protocol, model)

    def references(self) -> list[dict[str, str]]:
        return [{"question_id": one.key.question_id, "question_type": one.category} for one in self.selected]

    @staticmethod
    def _selected(number: int) -> Selected:
        question_id = f"q{number:02}_abs" if number % 7 == 0 else f"q{number:02}"
        return Selected(
            id=question_id,
            key=QuestionKey(question_id=question_id, condition="memory"),
            sample_id=question_id,
            category=OFFICIAL_TYPES[number % 6],
            abstention=number % 7 == 0,
        )

    @staticmethod
    def _hypothesis(number: int, one: Selected) -> Hypothesis:
        return Hypothesis(
            key=one.key,
            sample_id=one.sample_id,
            state="timeout" if number % 13 == 1 else "answered",
            hypothesis=f"answer {number} – «é»\n",
            started_at=0.0,
            seconds=1.0,
        )

    @staticmethod
    def _verdict(number: int, one: Selected) -> Verdict:
        return Verdict(
            key=one.key, protocol="p", cache_key=str(number), state="judged", correct=number % 3 != 0
        )


def lines_of(path: Path | None) -> list[dict[str, object]]:
    assert path is not None
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_selected_question_stands_once_in_both_files(tmp_path: Path) -> None:
    run = Run()
    export = run.export(tmp_path)
    wanted = [one.key.question_id for one in run.selected]
    assert export.log == tmp_path / "hypotheses.jsonl.eval-results-gpt-4o"
    assert [line["question_id"] for line in lines_of(export.hypotheses)] == wanted
    assert [line["question_id"] for line in lines_of(export.log)] == wanted
    assert all(set(line) == {"question_id", "hypothesis"} for line in lines_of(export.hypotheses))
    assert export.answered + export.unanswered == len(wanted)
    assert export.unanswered == sum(not line["hypothesis"] for line in lines_of(export.hypotheses)) > 0
    unanswered = [line for line in lines_of(export.log) if not line["hypothesis"]]
    assert {json.dumps(line["autoeval_label"]) for line in unanswered} == {
        json.dumps({"model": OFFICIAL_MODEL, "label": False})
    }


def test_our_figures_are_those_of_the_metrics_script_to_the_digit(tmp_path: Path) -> None:
    run = Run()
    export = run.export(tmp_path)
    (tmp_path / "metrics.py").write_text(METRICS)
    (tmp_path / "references.json").write_text(json.dumps(run.references()))
    arguments = [sys.executable, "metrics.py", str(export.log), "references.json"]
    printed = json.loads(subprocess.run(arguments, cwd=tmp_path, capture_output=True, check=True).stdout)
    table = score(run.selected, run.hypotheses, run.verdicts, {})
    ours = official_scores(table.items)
    figures = {
        **ours.by_type,
        "task-averaged": ours.task_averaged,
        "overall": ours.overall,
        "abstention": ours.abstention,
    }
    assert {name: [str(mean.printed), mean.n] for name, mean in figures.items()} == printed


def test_rounding_is_numpys_for_every_mean_of_up_to_500_lines() -> None:
    for n in range(1, 501):
        means = np.arange(n + 1) / n
        assert [rounded(float(mean)) for mean in means] == np.round(means, 4).tolist()


def test_a_type_without_lines_has_no_mean_and_leaves_no_task_average() -> None:
    metrics = official_metrics([Label("multi-session", False, True)])
    assert metrics.by_type["multi-session"].printed == 1.0
    assert metrics.by_type["knowledge-update"].printed is None
    assert (metrics.task_averaged.printed, metrics.abstention.printed) == (None, None)
    assert metrics.overall.printed == 1.0


@pytest.mark.parametrize("state", ["error", "unparsed", None])
def test_an_answer_without_verdict_is_never_exported_as_false(tmp_path: Path, state: str | None) -> None:
    run = Run()
    earlier = run.export(tmp_path)
    assert earlier.log is not None
    key = run.selected[2].key
    verdict = run.verdicts.pop(key)
    if state is not None:
        run.verdicts[key] = verdict.model_copy(update={"state": state, "correct": None})
    export = run.export(tmp_path)
    assert (export.log, export.unjudged) == (None, (key.question_id,))
    assert export.reason is not None
    assert key.question_id in export.reason
    assert not earlier.log.exists()
    assert len(lines_of(export.hypotheses)) == 61


@pytest.mark.parametrize(
    ("protocol", "model"), [("longmemeval-official", "other-model"), ("dshmem-longmemeval", OFFICIAL_MODEL)]
)
def test_only_the_official_judge_bears_the_official_name(
    tmp_path: Path, protocol: ProtocolName, model: str
) -> None:
    export = Run().export(tmp_path, protocol, model)
    assert export.log is not None
    assert not export.log.name.endswith("eval-results-gpt-4o")
    labels: Sequence[object] = [line["autoeval_label"] for line in lines_of(export.log)]
    assert OFFICIAL_MODEL not in [label["model"] for label in labels if isinstance(label, dict)]


def test_a_doubled_question_is_refused(tmp_path: Path) -> None:
    run = Run()
    run.selected.append(run.selected[5])
    with pytest.raises(JudgeError, match="q05 is selected more than once"):
        run.export(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JudgeError, match=r"The export to .* failed"):
        Run().export(tmp_path / "file")
