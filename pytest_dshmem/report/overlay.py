"""A published list of golds that are in dispute, laid over a run when it is reported.

The data are never changed and no verdict is: an accuracy without the disputed questions is shown beside the
accuracy on all of them.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_dshmem.experiment.scoring import ScoreRow, ScoreTable, score_row
from pytest_dshmem.report.numbers import plural

# The gold is right in these entries and only the evidence that it cites is not.
WITHOUT_EFFECT_ON_SCORE = frozenset({"WRONG_CITATION"})

_AUDIT_ID = re.compile(r"locomo_(\d+)_qa(\d+)", re.ASCII)


class OverlayError(Exception):
    """An overlay that cannot be used: what is wrong, where, and what to do, in one sentence."""


def load_overlay(path: Path, sample_ids: Sequence[str]) -> frozenset[str]:
    """The ids of the disputed questions, from LoCoMo's published audit (dial481/locomo-audit, `errors.json`).

    The file is a JSON list of objects with `question_id` = `locomo_<sample index>_qa<question index>` and
    `error_type`. `sample_ids` are the data set's samples in file order: with `conv-26` first, `locomo_0_qa1`
    is `conv-26-q001`. Entries that do not affect scoring are passed over.

    Raises OverlayError where the file cannot be read, or names a sample that is not in the data set.
    """
    return frozenset(
        _question_id(entry, position, path, sample_ids)
        for position, entry in enumerate(_entries(path))
        if _field(entry, "error_type", position, path) not in WITHOUT_EFFECT_ON_SCORE
    )


def undisputed_row(score: ScoreTable, disputed: frozenset[str]) -> ScoreRow | None:
    """The total without the disputed questions; None where none of them was selected."""
    kept = [item for item in score.items if item.selected.key.question_id not in disputed]
    left_out = len(score.items) - len(kept)
    return score_row(f"without {plural(left_out, 'disputed gold')}", kept) if left_out else None


def _entries(path: Path) -> list[Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise OverlayError(
            f"cannot read the list of disputed golds {path}: {error.strerror or error}"
        ) from None
    except ValueError as error:
        raise OverlayError(f"the list of disputed golds {path} is not JSON: {error}") from None
    if not isinstance(content, list):
        raise OverlayError(f"the list of disputed golds {path} is not a JSON list of entries")
    return content


def _field(entry: Any, name: str, position: int, path: Path) -> str:
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, str):
        raise OverlayError(f"entry {position} of {path} has no text field {name}")
    return value


def _question_id(entry: Any, position: int, path: Path, sample_ids: Sequence[str]) -> str:
    audit_id = _field(entry, "question_id", position, path)
    found = _AUDIT_ID.fullmatch(audit_id)
    if found is None:
        raise OverlayError(
            f"entry {position} of {path} has the id {audit_id!r}; locomo_<sample>_qa<question> is known"
        )
    sample, question = int(found[1]), int(found[2])
    if sample >= len(sample_ids):
        raise OverlayError(
            f"entry {position} of {path} disputes sample {sample}, and the data set has {len(sample_ids)} "
            "samples; give the list that belongs to this data set"
        )
    return f"{sample_ids[sample]}-q{question:03d}"
