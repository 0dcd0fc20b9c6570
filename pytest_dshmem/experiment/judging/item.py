"""What a judge is shown: one question, its reference, one hypothesis."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_dshmem.experiment.judging.errors import JudgeError
from pytest_dshmem.record.entries import Hypothesis, QuestionKey, ReferenceText, Verdict


@dataclass(frozen=True, slots=True)
class JudgeItem:
    """One answered question. All but the key can change the verdict and is in the cache key."""

    key: QuestionKey
    question: str
    gold: str
    category: str
    abstention: bool
    hypothesis: str


def judge_items(
    hypotheses: Iterable[Hypothesis], references: Mapping[str, ReferenceText]
) -> tuple[JudgeItem, ...]:
    """Join the answered hypotheses to their references, by question id, in the order given.

    Hypotheses that are no answer (empty, error, timeout, ...) are left out: they are never sent to a judge.
    Raises JudgeError where a reference is missing.
    """
    return tuple(_join(entry, references) for entry in hypotheses if entry.answered)


def _join(entry: Hypothesis, references: Mapping[str, ReferenceText]) -> JudgeItem:
    reference = references.get(entry.key.question_id)
    if reference is None:
        raise JudgeError(
            f"The run holds an answer to {entry.key.question_id} but no reference for it: "
            "its record of references is incomplete, so this answer cannot be judged."
        )
    return JudgeItem(
        key=entry.key,
        question=reference.question,
        gold=reference.gold,
        category=reference.category,
        abstention=reference.abstention,
        hypothesis=entry.hypothesis,
    )


def cache_key(protocol_key: str, item: JudgeItem) -> str:
    """A hash (64 hex digits) of all that can change the verdict on this item under this protocol."""
    seen = [protocol_key, item.question, item.gold, item.hypothesis, item.category, item.abstention]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()


def verdicts_for(
    items: Iterable[JudgeItem], verdicts: Iterable[Verdict], protocol_key: str
) -> dict[QuestionKey, Verdict]:
    """The latest verdict on each item under this protocol.

    A verdict on an earlier hypothesis, reference or protocol fits the item no more and is passed over.
    """
    wanted = {item.key: cache_key(protocol_key, item) for item in items}
    return {verdict.key: verdict for verdict in verdicts if wanted.get(verdict.key) == verdict.cache_key}
