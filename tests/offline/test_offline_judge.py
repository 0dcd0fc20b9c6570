"""The judge that compares words, and the two forms of reply it gives."""

import json
from string import Template

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_dshmem.offline.judge import Case, case_in, decide, verdict_on

OURS = Template(
    "Mark the answer.\n<question>\n$question\n</question>\n<reference>\n$reference\n</reference>\n"
    "<hypothesis>\n$hypothesis\n</hypothesis>\n"
    'Reply with {"reason": "why", "verdict": "correct"} or {"reason": "why", "verdict": "wrong"}.'
)
LABELLED = Template(
    "Is it right? Say yes or no.\n\nQuestion: $question\n\nCorrect Answer: $reference\n\n"
    "Model Response: $hypothesis\n\nYour verdict, yes or no?"
)


@pytest.mark.parametrize(
    ("question", "reference", "hypothesis", "right"),
    [
        ("When did Otto buy it?", "14 March 2024", "On March 14th, 2024 (he said)", True),
        ("When did Otto buy it?", "14 March 2024", "2024-03-14", True),
        ("When did Otto buy it?", "14 March 2024", "15 March 2024", False),
        ("How many canoes?", "3", "He has three canoes.", True),
        ("How many canoes?", "3", "He has 13 canoes.", False),
        ("What did Otto buy?", "a red canoe", "Otto: I bought a canoe, red as fire", True),
        ("What did Otto buy?", "a red canoe", "a blue kayak", False),
        ("Which canoe did Otto buy?", "the red canoe", "the green canoe", False),
        ("Does he row?", "Yes", "Yes: he rows.", True),
        ("Does he row?", "Yes", "No, never", False),
        ("What did Otto buy?", "a red canoe", "I do not know whether it was a red canoe", False),
        ("What did Otto buy?", "a red canoe", "", False),
        ("What did Otto buy?", "", "a canoe", False),
    ],
)
def test_a_hypothesis_is_right_if_it_holds_what_the_reference_adds(
    question: str, reference: str, hypothesis: str, right: bool
) -> None:
    assert decide(Case(question, reference, hypothesis, unanswerable=False))[0] is right


@pytest.mark.parametrize(
    ("hypothesis", "right"), [("I do not know.", True), ("In Porto.", False), ("", False)]
)
def test_an_unanswerable_question_wants_a_refusal(hypothesis: str, right: bool) -> None:
    assert decide(Case("Where?", "It was never said.", hypothesis, unanswerable=True))[0] is right


@pytest.mark.parametrize(("hypothesis", "word"), [("a red canoe", "correct"), ("a kayak", "wrong")])
def test_a_prompt_that_asks_for_a_json_verdict_gets_one(hypothesis: str, word: str) -> None:
    prompt = OURS.substitute(question="What?", reference="red canoe", hypothesis=hypothesis)
    reply = json.loads(verdict_on(prompt))
    assert reply.keys() == {"reason", "verdict"}
    assert reply["verdict"] == word


@pytest.mark.parametrize(("hypothesis", "word"), [("a red canoe", "yes"), ("a kayak", "no")])
def test_a_prompt_that_asks_for_yes_or_no_gets_one_word(hypothesis: str, word: str) -> None:
    prompt = LABELLED.substitute(question="What?", reference="red canoe", hypothesis=hypothesis)
    assert verdict_on(prompt) == word


def test_texts_are_found_by_their_labels_and_the_closing_request_is_not_part_of_them() -> None:
    prompt = LABELLED.substitute(question="What?\nExactly?", reference="red", hypothesis="blue\n\nor green")
    assert case_in(prompt) == Case("What?\nExactly?", "red", "blue\n\nor green", unanswerable=False)


def test_the_instructions_say_whether_a_question_is_unanswerable_and_the_texts_do_not() -> None:
    fields = {"question": "unanswerable?", "reference": "unanswerable", "hypothesis": "unanswerable"}
    assert not case_in(OURS.substitute(fields)).unanswerable
    assert case_in("This question is unanswerable.\n" + OURS.substitute(fields)).unanswerable
    explained = LABELLED.substitute(fields).replace("Correct Answer", "Explanation")
    assert case_in("An unanswerable question.\n" + explained).reference == "unanswerable"


@given(st.text())
def test_any_prompt_gets_a_verdict_and_without_texts_it_is_not_in_favour(prompt: str) -> None:
    assert verdict_on(prompt) in ("yes", "no")


@given(st.text(alphabet=st.characters(exclude_characters="<")), st.text())
def test_any_hypothesis_gets_a_readable_verdict(hypothesis: str, reference: str) -> None:
    reply = json.loads(verdict_on(OURS.substitute(question="Q", reference=reference, hypothesis=hypothesis)))
    assert reply["verdict"] in ("correct", "wrong")
