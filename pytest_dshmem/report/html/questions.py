"""Every question with its gold, and under every condition the answer, the verdict and what they cost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_dshmem.record.entries import QuestionKey, Selected
from pytest_dshmem.report import numbers
from pytest_dshmem.report.diagnosis import MEANING, Diagnosis
from pytest_dshmem.report.figures import QuestionFigures
from pytest_dshmem.report.html.content import PageContent, group_of
from pytest_dshmem.report.html.elements import Markup, element
from pytest_dshmem.report.html.tables import description_list

RIGHT = "correct"
WRONG = "wrong"

FILTERS = (
    ("all", "all"),
    ("wrong", "with a wrong answer"),
    ("open", "without a verdict"),
    ("mixed", "right and wrong"),
)


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question and its answers, one for every condition and repeat."""

    selected: Selected
    question: str
    gold: str
    answers: tuple[QuestionFigures, ...]

    @property
    def kinds(self) -> frozenset[str]:
        """The filters under which the question shows."""
        states = {answer.item.state for answer in self.answers}
        kinds = {"wrong"} if WRONG in states else set()
        if states - {RIGHT, WRONG}:
            kinds.add("open")
        if {RIGHT, WRONG} <= states:
            kinds.add("mixed")
        return frozenset(kinds)


def questions_section(content: PageContent) -> Markup:
    """All questions in one folding box a sample. The filter works by style sheet alone."""
    diagnoses = {diagnosis.key: diagnosis for diagnosis in content.diagnoses or ()}
    samples = _by_sample(content)
    return element(
        "section",
        element("h2", "Every question"),
        None if content.texts else element("p", "Question and gold texts were left out of this report."),
        (
            element("input", type="radio", name="show", id=f"show-{kind}", checked=kind == "all")
            for kind, _ in FILTERS
        ),
        element(
            "p",
            element("span", "Show"),
            (element("label", words, for_=f"show-{kind}") for kind, words in FILTERS),
            class_="filters",
        ),
        element(
            "div",
            (
                _sample(content, sample, questions, diagnoses, is_open=len(samples) == 1)
                for sample, questions in samples.items()
            ),
            class_="questions",
        ),
        id="questions",
    )


def _by_sample(content: PageContent) -> dict[str, list[AskedQuestion]]:
    answers: dict[str, list[QuestionFigures]] = {}
    for figures in content.questions.values():
        for one in figures:
            answers.setdefault(one.item.selected.key.question_id, []).append(one)
    samples: dict[str, list[AskedQuestion]] = {}
    for found in answers.values():
        selected = found[0].item.selected
        asked = AskedQuestion(
            selected=selected,
            question=found[0].question if content.texts else "",
            gold=found[0].gold if content.texts else "",
            answers=tuple(found),
        )
        samples.setdefault(selected.sample_id, []).append(asked)
    return samples


def _sample(
    content: PageContent,
    sample: str,
    questions: list[AskedQuestion],
    diagnoses: Mapping[QuestionKey, Diagnosis],
    is_open: bool,
) -> Markup:
    kinds = " ".join(sorted(frozenset[str]().union(*(question.kinds for question in questions))))
    summary = element(
        "summary",
        element("strong", sample),
        f" {numbers.plural(len(questions), 'question')}",
        element("span", _sample_rates(questions), class_="muted"),
    )
    articles = (_question(content, question, diagnoses) for question in questions)
    return element("details", summary, articles, class_=f"sample {kinds}".strip(), open=is_open)


def _sample_rates(questions: list[AskedQuestion]) -> str:
    """Right of judged, by condition and repeat, over a sample's questions."""
    by_group: dict[str, list[str]] = {}
    for question in questions:
        for answer in question.answers:
            label = group_of(answer.item.selected.key).label
            by_group.setdefault(label, []).append(answer.item.state)
    return " · ".join(
        f"{label} {states.count(RIGHT)}/{states.count(RIGHT) + states.count(WRONG)}"
        for label, states in by_group.items()
    )


def _question(
    content: PageContent, asked: AskedQuestion, diagnoses: Mapping[QuestionKey, Diagnosis]
) -> Markup:
    selected = asked.selected
    disputed = selected.key.question_id in content.disputed
    tags = [
        selected.category,
        "abstention" if selected.abstention else "",
        "gold disputed" if disputed else "",
    ]
    heading = element(
        "h4",
        element("code", selected.key.question_id),
        element("span", " · ".join(t for t in tags if t), class_="muted"),
    )
    return element(
        "article",
        heading,
        element("p", asked.question, class_="question") if asked.question else None,
        description_list([("gold", asked.gold)], class_="gold") if asked.gold else None,
        (_answer(content, answer, diagnoses) for answer in asked.answers),
        class_=" ".join(sorted(asked.kinds)) or None,
    )


def _answer(
    content: PageContent, answer: QuestionFigures, diagnoses: Mapping[QuestionKey, Diagnosis]
) -> Markup:
    key = answer.item.selected.key
    diagnosis = diagnoses.get(key)
    return element(
        "div",
        element(
            "p",
            element("span", answer.item.state, class_=f"verdict {_tone(answer.item.state)}"),
            element("span", group_of(key).label, class_="muted"),
        ),
        element("blockquote", answer.hypothesis) if answer.hypothesis else None,
        element("p", answer.reason, class_="reason") if answer.reason else None,
        element("p", f"{diagnosis.cause}: {MEANING[diagnosis.cause]}", class_="reason")
        if diagnosis
        else None,
        element("p", " · ".join(_spent(content, answer)), class_="spent"),
        _opened(answer.opened),
        class_="answer",
    )


def _tone(state: str) -> str:
    return {RIGHT: "good", WRONG: "bad"}.get(state, "open")


def _spent(content: PageContent, answer: QuestionFigures) -> Iterable[str]:
    if not answer.attempts:
        return
    yield numbers.duration(answer.seconds)
    yield numbers.plural(answer.calls, "call")
    yield f"{numbers.whole(answer.tokens, answer.tokens_at_least)} tokens"
    if content.figures.prices is not None:
        yield numbers.money(answer.money, content.figures.prices.currency)
    if answer.attempts > 1:
        yield f"{answer.attempts} attempts"
    if answer.item.f1 is not None:
        yield f"token F1 {numbers.percent(answer.item.f1)}"


def _opened(files: tuple[str, ...]) -> Markup | None:
    if not files:
        return None
    return element("p", "opened ", ([element("code", file), " "] for file in files), class_="spent")
