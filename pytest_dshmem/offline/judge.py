"""A judge that compares words: does the hypothesis hold what the reference says?

It reads the three texts out of a judging prompt: from the tags `<question>`, `<reference>` and
`<hypothesis>`, or from labels at line starts, as judges' prompts commonly have them. It is generous to longer
answers and blind to meaning: good enough to exercise judging, no measure of anything.
"""

import json
import re
from dataclasses import dataclass

from pytest_dshmem.offline.dates import with_dates_written_alike
from pytest_dshmem.offline.language import declines, stems, words

NEEDED_SHARE = 0.5
"""The share of the reference's telling words that the hypothesis has to hold."""

_TAGS = {
    name: re.compile(rf"<{name}>\s*(.*?)\s*</{name}>", re.DOTALL)
    for name in ("question", "reference", "hypothesis")
}
_LABELS = {
    "question": re.compile(
        r"^Question:(.*?)(?=^(?:Correct Answer|Rubric|Explanation):)", re.DOTALL | re.MULTILINE
    ),
    "reference": re.compile(
        r"^(?:Correct Answer|Rubric|Explanation):(.*?)(?=^(?:Model Response|Response):)",
        re.DOTALL | re.MULTILINE,
    ),
    "hypothesis": re.compile(
        r"^(?:Model Response|Response):(.*?)(?:\n\s*\n[^\n]*)?\s*\Z", re.DOTALL | re.MULTILINE
    ),
}
_UNANSWERABLE = re.compile(r"\bunanswerable\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Case:
    """What a judging prompt puts before the judge."""

    question: str
    reference: str
    hypothesis: str
    unanswerable: bool


def verdict_on(prompt: str) -> str:
    """The judge's reply to a prompt: a JSON verdict where one is asked for, else `yes` or `no`."""
    correct, reason = decide(case_in(prompt))
    if '"verdict"' in prompt:
        return json.dumps({"reason": reason, "verdict": "correct" if correct else "wrong"})
    return "yes" if correct else "no"


def case_in(prompt: str) -> Case:
    """The three texts of a judging prompt; what is not found is an empty text, which is never correct."""
    kind = _TAGS if all(tag.search(prompt) for tag in _TAGS.values()) else _LABELS
    found = {name: pattern.search(prompt) for name, pattern in kind.items()}
    texts = {name: match[1].strip() if match else "" for name, match in found.items()}
    question = found["question"]
    instructions = prompt[: question.start()] if question else prompt
    return Case(**texts, unanswerable=bool(_UNANSWERABLE.search(instructions)))


def decide(case: Case) -> tuple[bool, str]:
    """Whether a hypothesis is right, and why, in a few words."""
    refuses = not case.hypothesis or declines(case.hypothesis)
    if case.unanswerable:
        return refuses and bool(
            case.hypothesis
        ), "declines to answer" if refuses else "answers what cannot be answered"
    if refuses:
        return False, "gives no answer"
    wanted = _telling(case.reference, case.question)
    held = set(_normalised(case.hypothesis))
    if not wanted:
        return False, "the reference is empty"
    if any(word.isdigit() and word not in held for word in wanted):
        return False, "a number or date differs"
    share = sum(word in held for word in wanted) / len(wanted)
    return share >= NEEDED_SHARE, f"{share:.0%} of the reference's telling words are there"


def _telling(reference: str, question: str) -> set[str]:
    """The words by which a reference is known: if possible those that the question does not give away."""
    all_of_it = set(_normalised(reference))
    return all_of_it - set(_normalised(question)) or all_of_it or set(words(reference))


def _normalised(text: str) -> list[str]:
    alike = with_dates_written_alike(text)
    plain = [word for word in words(alike) if word in ("yes", "no")]
    return plain + stems(alike)
