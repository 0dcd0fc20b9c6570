"""What LongMemEval's own scripts read: one line for every selected question, each id exactly once."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_dshmem.experiment.judging.errors import JudgeError
from pytest_dshmem.experiment.judging.official import OFFICIAL_MODEL
from pytest_dshmem.experiment.judging.protocol import ProtocolName
from pytest_dshmem.record.entries import Hypothesis, QuestionKey, Selected, Verdict

HYPOTHESES = "hypotheses.jsonl"


@dataclass(frozen=True, slots=True)
class OfficialExport:
    """The files written. `log` is None, and `reason` says why, where answers have no verdict yet."""

    hypotheses: Path
    log: Path | None
    answered: int
    unanswered: int
    unjudged: tuple[str, ...] = ()
    reason: str | None = None


def write_official(
    folder: Path,
    selected: Sequence[Selected],
    hypotheses: Mapping[QuestionKey, Hypothesis],
    verdicts: Mapping[QuestionKey, Verdict],
    protocol: ProtocolName,
    model: str,
) -> OfficialExport:
    """Write `hypotheses.jsonl` and, if every answer has a verdict, the evaluation log beside it.

    An unanswered question is an empty hypothesis and has the label false. An answer without a verdict (judge
    error, unreadable reply) is not false: there is no log then. `verdicts` are of one protocol. Only verdicts
    of the official protocol and model bear the official model's name, which `print_qa_metrics.py` insists on.
    Raises JudgeError where a question stands twice (export one condition and one repeat) or a file cannot be
    written.
    """
    doubled = _doubled(selected)
    if doubled:
        raise JudgeError(
            f"{doubled} is selected more than once: the official files hold each question once, so export "
            "one condition and one repeat."
        )
    lines = [_line(one, hypotheses.get(one.key)) for one in selected]
    labels = [_label(hypotheses.get(one.key), verdicts.get(one.key)) for one in selected]
    unjudged = tuple(
        one.key.question_id for one, label in zip(selected, labels, strict=True) if label is None
    )
    judge = model if protocol == "longmemeval-official" else f"{model} ({protocol})"
    path, log = folder / HYPOTHESES, folder / f"{HYPOTHESES}.eval-results-{_short(judge)}"
    answered = sum(1 for line in lines if line["hypothesis"])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(path, lines)
        if unjudged:
            log.unlink(missing_ok=True)
        else:
            judged = zip(lines, labels, strict=True)
            _write(log, [{**x, "autoeval_label": {"model": judge, "label": label}} for x, label in judged])
    except OSError as error:
        raise JudgeError(f"The export to {folder} failed: {error.strerror or error}.") from error
    return OfficialExport(
        hypotheses=path,
        log=None if unjudged else log,
        answered=answered,
        unanswered=len(lines) - answered,
        unjudged=unjudged,
        reason=_reason(unjudged),
    )


def _line(one: Selected, hypothesis: Hypothesis | None) -> dict[str, Any]:
    text = hypothesis.hypothesis if hypothesis is not None and hypothesis.answered else ""
    return {"question_id": one.key.question_id, "hypothesis": text}


def _label(hypothesis: Hypothesis | None, verdict: Verdict | None) -> bool | None:
    if hypothesis is None or not hypothesis.answered:
        return False
    if verdict is None or verdict.state != "judged":
        return None
    return bool(verdict.correct)


def _doubled(selected: Iterable[Selected]) -> str | None:
    seen: set[str] = set()
    for one in selected:
        if one.key.question_id in seen:
            return one.key.question_id
        seen.add(one.key.question_id)
    return None


def _reason(unjudged: Sequence[str]) -> str | None:
    if not unjudged:
        return None
    return (
        f"No evaluation log was written: {len(unjudged)} answers have no verdict under this protocol "
        f"({', '.join(unjudged[:3])}{', ...' if len(unjudged) > 3 else ''}); judge them and export again."
    )


def _short(judge: str) -> str:
    """The model's name as the official script puts it into a file name, or one that is safe in any."""
    return "gpt-4o" if judge == OFFICIAL_MODEL else re.sub(r"[^A-Za-z0-9.-]+", "-", judge).strip("-.")


def _write(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """All or nothing: a file that broke off would be read by the official scripts as a smaller run."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
