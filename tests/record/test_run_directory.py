"""The run directory: made once, continued with the same settings only, refused with a reason."""

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pytest_dshmem.record.entries import (
    FormationKey,
    Hypothesis,
    HypothesisState,
    QuestionKey,
    ReferenceText,
    Selected,
)
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.record.run_directory import (
    RunDirectory,
    formation_name,
    opaque_name,
    write_atomically,
)

SETTINGS: dict[str, str | int | float | bool | None] = {"model.name": "m", "limits.steps": 10}

AT_WORK = """
import sys
from pathlib import Path
from pytest_dshmem.record.run_directory import RunDirectory

claims = RunDirectory.open(Path(sys.argv[1])).claims()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "a"


@pytest.fixture
def run(folder: Path) -> RunDirectory:
    return RunDirectory.create(folder, SETTINGS, {"benchmark": "locomo"})


def question(number: int, **more: Any) -> Selected:
    key = QuestionKey(question_id=f"q{number}", condition="memory")
    return Selected(id=more.get("id", f"q{number}"), key=key, sample_id="s", category="multi-hop")


def answer(number: int, state: HypothesisState, text: str) -> Hypothesis:
    return Hypothesis(
        key=question(number).key,
        sample_id="s",
        state=state,
        hypothesis=text,
        started_at=0.0,
        seconds=1.0,
    )


def refuse(*_arguments: Any, **_more: Any) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


class TestMakingAndContinuing:
    def test_a_new_run_says_what_it_is(self, run: RunDirectory) -> None:
        manifest = json.loads((run.path / "run.json").read_text())
        assert manifest["settings"] == SETTINGS
        assert manifest["facts"] == {"benchmark": "locomo"}
        assert manifest["run_id"] == run.manifest.run_id

    def test_the_same_settings_continue_it(self, run: RunDirectory, folder: Path) -> None:
        again = RunDirectory.create(folder, dict(reversed(SETTINGS.items())), {"other": "facts"})
        assert again.manifest == run.manifest

    @pytest.mark.usefixtures("run")
    def test_other_settings_are_refused_and_named(self, folder: Path) -> None:
        with pytest.raises(RecordError) as caught:
            RunDirectory.create(folder, {"model.name": "other", "limits.steps": 10, "new": True}, {})
        assert "model.name (was m, now other)" in str(caught.value)
        assert "new (was None, now True)" in str(caught.value)
        assert "limits.steps" not in str(caught.value)

    def test_many_openers_at_once_make_one_run(self, folder: Path) -> None:
        made: list[str] = []
        threads = [
            threading.Thread(
                target=lambda: made.append(RunDirectory.create(folder, SETTINGS, {}).manifest.run_id)
            )
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 8
        assert len(set(made)) == 1

    @pytest.mark.parametrize("mark", [".git", ".hg"])
    def test_a_repository_is_no_place_for_a_run(self, tmp_path: Path, mark: str) -> None:
        (tmp_path / mark).mkdir()
        with pytest.raises(RecordError, match="lies inside a repository"):
            RunDirectory.create(tmp_path / "deep" / "down", SETTINGS, {})
        assert not (tmp_path / "deep").exists()

    def test_a_folder_with_other_things_in_it_is_refused(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "thesis.txt").write_text("mine")
        with pytest.raises(RecordError, match=r"holds no run but is not empty \(thesis\.txt\)"):
            RunDirectory.create(folder, SETTINGS, {})
        assert (folder / "thesis.txt").read_text() == "mine"

    def test_an_empty_folder_is_fine(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        assert RunDirectory.create(folder, SETTINGS, {}).manifest_path.is_file()

    def test_a_file_is_no_folder(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(RecordError, match=r"cannot make the run directory .*file: File exists"):
            RunDirectory.create(tmp_path / "file", SETTINGS, {})

    @pytest.mark.parametrize("method", ["mkdir", "exists", "iterdir", "write_text"])
    def test_what_the_system_refuses_is_said_in_one_sentence(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, method: str
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Path, method, refuse)
            with pytest.raises(RecordError, match=r"cannot .*: Permission denied") as caught:
                RunDirectory.create(folder, SETTINGS, {})
        assert "\n" not in str(caught.value)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_an_unwritable_folder_is_refused(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        try:
            with pytest.raises(RecordError, match="Permission denied"):
                RunDirectory.create(tmp_path / "run", SETTINGS, {})
        finally:
            tmp_path.chmod(0o700)


class TestOpening:
    def test_there_must_be_a_run(self, tmp_path: Path) -> None:
        with pytest.raises(RecordError, match="holds no run"):
            RunDirectory.open(tmp_path)

    @pytest.mark.parametrize("content", ["", "{", "[]", '{"run_id": "x"}', "\x00\x00"])
    def test_a_broken_manifest_is_named(self, run: RunDirectory, content: str) -> None:
        run.manifest_path.write_text(content)
        for use in (
            lambda: RunDirectory.open(run.path),
            lambda: RunDirectory.create(run.path, SETTINGS, {}),
            lambda: run.amend_facts({"x": 1}),
        ):
            with pytest.raises(RecordError, match=r"run\.json cannot be read as a run's manifest") as caught:
                use()
            assert "\n" not in str(caught.value)

    def test_a_run_of_another_format_is_left_alone(self, run: RunDirectory) -> None:
        content = json.loads(run.manifest_path.read_text()) | {"format": 2}
        run.manifest_path.write_text(json.dumps(content))
        with pytest.raises(RecordError, match="has format 2"):
            RunDirectory.open(run.path)


class TestAmending:
    def test_facts_are_added_and_seen_by_all_who_have_it_open(self, run: RunDirectory) -> None:
        other = RunDirectory.open(run.path)
        assert other.manifest.facts == {"benchmark": "locomo"}
        run.amend_facts({"tokenizer": "o200k"})
        expected = {"benchmark": "locomo", "tokenizer": "o200k"}
        assert (run.manifest.facts, other.manifest.facts) == (expected, expected)
        assert run.manifest.settings == SETTINGS

    def test_a_count_takes_in_what_several_add_at_once(self, run: RunDirectory) -> None:
        threads = [threading.Thread(target=run.add_to_count, args=("slowdowns", 2)) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert run.manifest.facts["slowdowns"] == 20

    def test_amendments_at_once_are_all_kept(self, run: RunDirectory) -> None:
        threads = [threading.Thread(target=run.amend_facts, args=({f"f{n}": n},)) for n in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {f"f{n}" for n in range(10)} <= set(run.manifest.facts)

    def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "file"
        write_atomically(file, "before")
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", refuse)
            with pytest.raises(RecordError, match="cannot write"):
                write_atomically(file, "after")
        assert file.read_text() == "before"
        assert list(tmp_path.iterdir()) == [file]


class TestSelectionAndHypotheses:
    def test_a_question_is_selected_once(self, run: RunDirectory) -> None:
        run.select([question(1), question(2)])
        run.select([question(2), question(3)])
        assert [chosen.id for chosen in run.selected()] == ["q1", "q2", "q3"]
        assert len(run.selection.read().entries) == 3

    def test_the_latest_id_counts(self, run: RunDirectory) -> None:
        run.select([question(1), question(2)])
        run.select([question(1, id="q1-memory")])
        assert [chosen.id for chosen in run.selected()] == ["q1-memory", "q2"]

    def test_references_are_kept_once(self, run: RunDirectory) -> None:
        texts = [
            ReferenceText(question_id=f"q{n}", asked_on="", question="who?", gold="\ud800", category="c")
            for n in (1, 2)
        ]
        run.add_references(texts)
        run.add_references(texts)
        assert [text.question_id for text in run.references.read()] == ["q1", "q2"]

    def test_hypotheses_hold_each_selected_id_once_and_nothing_but_it_and_the_answer(
        self, run: RunDirectory
    ) -> None:
        run.select([question(number) for number in range(5)])
        answers = [
            answer(0, "answered", "line one\nline two\u2028"),
            answer(1, "error", "not an answer"),
            answer(2, "empty", ""),
            answer(7, "answered", "not selected"),
        ]
        path = run.write_hypotheses({given.key: given for given in answers})
        assert [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] == [
            {"question_id": "q0", "hypothesis": "line one\nline two\u2028"},
            {"question_id": "q1", "hypothesis": ""},
            {"question_id": "q2", "hypothesis": ""},
            {"question_id": "q3", "hypothesis": ""},
            {"question_id": "q4", "hypothesis": ""},
        ]


class TestFinishing:
    def test_the_work_folder_goes_and_the_records_stay_usable(self, run: RunDirectory) -> None:
        run.claims().close()
        done: list[str] = []
        assert run.finish(lambda: done.append("also"))
        assert done == ["also"]
        assert not run.work.exists()
        run.hypotheses.append(answer(1, "answered", "later"))
        run.select([question(1)])
        assert not run.work.exists()
        assert [entry.hypothesis for entry in run.hypotheses.read()] == ["later"]
        assert RunDirectory.create(run.path, SETTINGS, {}).manifest == run.manifest

    def test_nothing_goes_while_another_process_is_at_work(self, run: RunDirectory) -> None:
        other = subprocess.Popen(
            [sys.executable, "-c", AT_WORK, str(run.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
            done: list[str] = []
            assert not run.finish(lambda: done.append("also"))
            assert done == []
            assert run.work.is_dir()
        finally:
            other.kill()
            other.communicate(timeout=30)
        assert run.finish()
        assert not run.work.exists()

    def test_nothing_goes_while_a_formation_is_unfinished(self, run: RunDirectory) -> None:
        key = FormationKey(sample_id="conv-1", condition="memory")
        run.checkpoint_folder(key).mkdir(parents=True)
        assert not run.finish()
        run.checkpoint_folder(key).rmdir()
        assert run.finish()

    def test_claims_opened_while_others_finish_are_never_lost(self, run: RunDirectory) -> None:
        lost: list[str] = []

        def open_and_look() -> None:
            for _ in range(20):
                claims = run.claims()
                if not claims.take("unit") or not any(run.work.glob("claims/*.owner")):
                    lost.append(claims.owner)
                claims.drop("unit")
                claims.close()

        worker = threading.Thread(target=open_and_look)
        worker.start()
        while worker.is_alive():
            run.finish()
        worker.join()
        assert lost == []


class TestNames:
    def test_formations_are_told_apart_by_sample_condition_and_repeat(self) -> None:
        keys = [
            FormationKey(sample_id=sample, condition=condition, repeat=repeat)
            for sample in ("conv-26", "conv-30")
            for condition in ("memory", "memory-consolidate")
            for repeat in (1, 2, 11)
        ]
        assert len({formation_name(key) for key in keys}) == len(keys)
        assert len({opaque_name(key) for key in keys}) == len(keys)

    def test_a_name_that_a_model_sees_tells_nothing(self) -> None:
        name = opaque_name(FormationKey(sample_id="conv-26", condition="memory"))
        assert name.isascii()
        assert not any(word in name for word in ("conv", "26", "memory"))


def test_token_counts_are_kept_for_one_tokenizer(run: RunDirectory) -> None:
    assert run.token_counts("letters") == {}
    run.keep_token_counts("letters", {"b": 2, "a": 1})
    assert run.token_counts("letters") == {"a": 1, "b": 2}
    assert run.token_counts("words") == {}
    (run.path / "token-counts.json").write_text("{broken")
    assert run.token_counts("letters") == {}
