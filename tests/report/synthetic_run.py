"""Small invented runs on disk, with every kind of record, the same at every call.

Two samples of six questions each are asked under each condition. With `trouble` the run also holds what goes
wrong in real ones: an attempt that failed and was repeated, a formation that failed, questions that ended in
an error or a timeout, one without a record, an unreadable and a failed verdict, and calls nobody could meter.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_dshmem.experiment.freezing import FILES, MANIFEST, SnapshotManifest, digest_of
from pytest_dshmem.experiment.judging.item import JudgeItem, cache_key
from pytest_dshmem.record.entries import (
    Call,
    Consolidation,
    Formation,
    FormationKey,
    Hypothesis,
    Ingestion,
    MemoryFile,
    QuestionKey,
    ReferenceText,
    Selected,
    Usage,
    Verdict,
)
from pytest_dshmem.record.fingerprint import FieldValue
from pytest_dshmem.record.run_directory import RunDirectory

SAMPLES = ("orchard", "harbour")
TROUBLED_SAMPLE = "lighthouse"
FAILING_SAMPLE = "quarry"
CATEGORIES = ("multi-hop", "temporal", "open-domain", "single-hop")
PROTOCOL = "dshmem-binary-1-0123456789ab"
AGENT_MODEL = "synthetic-agent"
JUDGE_MODEL = "synthetic-judge"
STARTED = 1_700_000_000.0
SESSIONS = 2

TEXTS = (
    ("multi-hop", "Which two tools did Ines lend to Pavel?", "a spirit level and a plane"),
    ("temporal", "When did Pavel plant the quince?", "12 March 2021"),
    ("open-domain", "Would Ines enjoy a night train?", "likely yes; she sleeps well on the move"),
    ("single-hop", "What is the name of Pavel's goat?", "Button"),
    ("single-hop", "Where does Ines keep the spare key?", "under the blue pot"),
    ("single-hop", "What colour did they paint the shed?", "green"),
)

SETTINGS: Mapping[str, FieldValue] = {
    "benchmark": "locomo",
    "offline": False,
    "data.name": "locomo10.json",
    "data.sha256": "0" * 64,
    "data.pinned": True,
    "data.sample_corpus": False,
    "selection": "full",
    "memory_system.name": "reference",
    "memory_system.version": "1.0.0",
    "model.name": AGENT_MODEL,
    "ingestion.way": "transcript",
    "limits.question_seconds": 120,
}
FACTS: Mapping[str, Any] = {
    "categories": list(CATEGORIES),
    "history_tokens": dict.fromkeys((*SAMPLES, TROUBLED_SAMPLE, FAILING_SAMPLE), 4_000),
    "tokenizer": "o200k_base",
}


def right_half_of_the_time(key: QuestionKey) -> bool:
    """Whether a question is answered rightly: under memory four of six are, under baseline one of six."""
    number = int(key.question_id.rsplit("q", 1)[1])
    return number == 1 if key.condition == "baseline" else number % 3 != 0


def synthetic_run(
    folder: Path,
    *,
    conditions: tuple[str, ...] = ("baseline", "memory-consolidate"),
    repeats: int = 1,
    correct: Callable[[QuestionKey], bool] = right_half_of_the_time,
    trouble: bool = False,
    judged: bool = True,
    protocol: str = PROTOCOL,
    settings: Mapping[str, FieldValue] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> RunDirectory:
    """Writes a whole run into a new folder. `settings` and `facts` override single fields of the manifest."""
    run = RunDirectory.create(folder, {**SETTINGS, **(settings or {})}, {**FACTS, **(facts or {})})
    run.add_references(reference(sample, number) for sample in SAMPLES for number in range(1, 7))
    answers: dict[QuestionKey, Hypothesis] = {}
    for repeat in range(1, repeats + 1):
        for condition in conditions:
            for sample in SAMPLES:
                snapshot = form(run, FormationKey(sample_id=sample, condition=condition, repeat=repeat))
                asked = ask_all(run, sample, condition, repeat, correct, snapshot)
                answers.update(asked)
                if judged:
                    judge_all(run, asked, correct, protocol)
    if trouble:
        answers.update(add_trouble(run, conditions[-1], protocol if judged else None))
    run.write_hypotheses(answers)
    run.finish()
    return run


def question_id(sample: str, number: int) -> str:
    return f"{sample}-q{number:03d}"


def reference(sample: str, number: int) -> ReferenceText:
    category, question, gold = TEXTS[number - 1]
    return ReferenceText(
        question_id=question_id(sample, number),
        asked_on="3:15 pm on 9 April, 2022",
        question=question,
        gold=gold,
        category=category,
    )


def judged_item(key: QuestionKey, text: str) -> JudgeItem:
    """What the judge is shown for an answer."""
    sample, number = key.question_id.rsplit("-q", 1)
    shown = reference(sample, int(number))
    return JudgeItem(
        key=key,
        question=shown.question,
        gold=shown.gold,
        category=shown.category,
        abstention=shown.abstention,
        hypothesis=text,
    )


def select(run: RunDirectory, sample: str, number: int, condition: str, repeat: int = 1) -> QuestionKey:
    """Adds one question to the selection."""
    key = QuestionKey(question_id=question_id(sample, number), condition=condition, repeat=repeat)
    category = TEXTS[number - 1][0]
    run_suffix = f"-{condition}" + (f"-r{repeat}" if repeat > 1 else "")
    run.select([Selected(id=key.question_id + run_suffix, key=key, sample_id=sample, category=category)])
    return key


def call(
    purpose: str, *, model: str = AGENT_MODEL, failure: str | None = None, metered: bool = True, size: int = 1
) -> Call:
    """One model call whose tokens and seconds grow with `size`."""
    usage = Usage(
        input=100 * size, cache_read=300 * size, cache_write=20 * size, output=40 * size, reasoning=15 * size
    )
    return Call(
        purpose=purpose,
        model=model,
        started_at=STARTED + size,
        seconds=1.5 * size,
        first_token_seconds=None if failure else 0.4 * size,
        finish="error" if failure else "end_turn",
        failure=failure,
        usage=usage if metered else None,
    )


def form(run: RunDirectory, key: FormationKey) -> str | None:
    """Forms as the condition says, or not at all; returns the snapshot's digest."""
    if not key.condition.startswith("memory"):
        return None
    for session in range(1, SESSIONS + 1):
        run.ingestions.append(
            Ingestion(
                key=key,
                session=session,
                state="ingested",
                started_at=STARTED,
                seconds=7.0,
                tool_seconds=0.25,
                calls=(call("ingestion", size=3), call("ingestion")),
            )
        )
        if key.condition == "memory-consolidate":
            run.consolidations.append(
                Consolidation(
                    key=key,
                    session=session,
                    state="committed" if session == 1 else "no-change",
                    receipt={"status": "committed" if session == 1 else "no-change"},
                    started_at=STARTED,
                    seconds=4.0,
                    calls=(call("consolidation", size=2),),
                )
            )
    formation = freeze(run, key)
    run.formations.append(formation)
    return formation.digest


def freeze(run: RunDirectory, key: FormationKey) -> Formation:
    """Writes a snapshot of three files and returns the record of it."""
    texts = {
        "memory/GLOBAL.md": f"# People\n\nInes and Pavel live near the {key.sample_id}.\n",
        "memory/garden/MEMORY.md": "- [shed](shed.md): the shed and what is kept in it\n",
        "memory/garden/shed.md": "The shed is green. The spare key lies under the blue pot.\n" * 4,
    }
    snapshot = run.snapshot_folder(key)
    files = []
    for path, text in texts.items():
        place = snapshot / FILES / "dsh-home" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        content = text.encode()
        files.append(
            MemoryFile(
                root="dsh-home", path=path, bytes=len(content), sha256=hashlib.sha256(content).hexdigest()
            )
        )
    frozen = SnapshotManifest(digest=digest_of(tuple(files)), place="synthetic", files=tuple(files))
    (snapshot / MANIFEST).write_text(frozen.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return Formation(
        key=key,
        state="frozen",
        digest=frozen.digest,
        files=frozen.files,
        started_at=STARTED,
        seconds=25.0,
    )


def ask_all(
    run: RunDirectory,
    sample: str,
    condition: str,
    repeat: int,
    correct: Callable[[QuestionKey], bool],
    snapshot: str | None,
) -> dict[QuestionKey, Hypothesis]:
    """Asks the six questions of a sample."""
    answers = {}
    for number, (_, _, gold) in enumerate(TEXTS, start=1):
        key = select(run, sample, number, condition, repeat)
        answers[key] = answer(key, sample, gold if correct(key) else "I do not know", snapshot=snapshot)
        run.hypotheses.append(answers[key])
    return answers


def judge_all(
    run: RunDirectory,
    answers: Mapping[QuestionKey, Hypothesis],
    correct: Callable[[QuestionKey], bool],
    protocol: str,
) -> None:
    """Judges answers under one protocol."""
    for key, hypothesis in answers.items():
        run.verdicts.append(verdict(key, protocol, hypothesis.hypothesis, correct(key)))


def answer(key: QuestionKey, sample: str, text: str, **changes: Any) -> Hypothesis:
    """An answered question; one with memory opened a detail file. `changes` override fields."""
    remembers = key.condition.startswith("memory")
    fields: dict[str, Any] = {
        "key": key,
        "sample_id": sample,
        "state": "answered",
        "hypothesis": text,
        "finish_reason": "completed",
        "started_at": STARTED,
        "seconds": 3.5,
        "tool_seconds": 0.125 if remembers else 0.0,
        "prompt_tokens": 450 if remembers else 120,
        "opened": ("memory/garden/shed.md",) if remembers else (),
        "calls": (call("qa"), call("qa", size=2)) if remembers else (call("qa"),),
    }
    return Hypothesis(**{**fields, **changes})


def verdict(key: QuestionKey, protocol: str, text: str, is_right: bool, **changes: Any) -> Verdict:
    """A verdict of the judge on an answer's text. `changes` override fields."""
    fields: dict[str, Any] = {
        "key": key,
        "protocol": protocol,
        "cache_key": cache_key(protocol, judged_item(key, text)),
        "state": "judged",
        "correct": is_right,
        "reply": json.dumps({"reason": "compared", "verdict": "correct" if is_right else "wrong"}),
        "reason": "compared",
        "calls": (call("judge", model=JUDGE_MODEL),),
    }
    return Verdict(**{**fields, **changes})


def add_trouble(run: RunDirectory, condition: str, protocol: str | None) -> dict[QuestionKey, Hypothesis]:
    """A third sample of six questions of which none comes to a verdict, and a fourth that never formed.

    Asked: one error after two attempts, one timeout, one empty; one without a record; two answered, of which
    the judge's reply to one cannot be read, and the judge fails on the other.
    """
    sample = TROUBLED_SAMPLE
    snapshot = form(run, FormationKey(sample_id=sample, condition=condition))
    keys = [select(run, sample, number, condition) for number in range(1, 7)]
    failed_call = call("qa", failure="SERVER", metered=False)
    ended = [
        answer(keys[0], sample, "", state="error", reason="SERVER", calls=(failed_call,)),
        answer(keys[0], sample, "", state="error", reason="SERVER", attempt=2, calls=(failed_call,)),
        answer(keys[1], sample, "", state="timeout", reason="no answer in 120 s", calls=(call("qa"),)),
        answer(keys[2], sample, "", state="empty", calls=(call("qa"),)),
        answer(keys[4], sample, "under the red pot"),
        answer(keys[5], sample, "green", calls=(call("qa", metered=False),)),
    ]
    ended = [hypothesis.model_copy(update={"snapshot": snapshot}) for hypothesis in ended]
    for hypothesis in ended:
        run.hypotheses.append(hypothesis)
    if protocol is not None:
        unread = {"state": "unparsed", "correct": None, "reply": "well"}
        run.verdicts.append(verdict(keys[4], protocol, "under the red pot", False, **unread))
        failure = call("judge", model=JUDGE_MODEL, failure="timeout", metered=False)
        failed = {"state": "error", "correct": None, "reply": "", "calls": (failure,)}
        run.verdicts.append(verdict(keys[5], protocol, "green", False, **failed))
    run.add_references(reference(sample, number) for number in range(1, 7))
    fail_a_formation(run, FormationKey(sample_id=FAILING_SAMPLE, condition=condition))
    return {hypothesis.key: hypothesis for hypothesis in ended}


def fail_a_formation(run: RunDirectory, key: FormationKey) -> None:
    """A formation whose consolidator was cut short without a meter and whose second session failed."""
    select(run, key.sample_id, 1, key.condition)
    run.add_references([reference(key.sample_id, 1)])
    run.consolidations.append(
        Consolidation(
            key=key, session=1, state="truncated", metered=False, started_at=STARTED, seconds=9.0, calls=()
        )
    )
    run.ingestions.append(
        Ingestion(
            key=key,
            session=2,
            state="error",
            reason="SERVER",
            started_at=STARTED,
            seconds=2.0,
            calls=(call("ingestion", failure="SERVER", metered=False),),
        )
    )
    run.formations.append(
        Formation(
            key=key, state="failed", reason="session 2 ended in error", started_at=STARTED, seconds=11.0
        )
    )
