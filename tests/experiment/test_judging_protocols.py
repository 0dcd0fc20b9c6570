"""Protocols: their prompts, their keys, and how a judge prompt of one's own is taken."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from pytest_dshmem.experiment.judging.errors import JudgeError
from pytest_dshmem.experiment.judging.item import JudgeItem, cache_key, judge_items, verdicts_for
from pytest_dshmem.experiment.judging.protocol import (
    binary_protocol,
    custom_protocol,
    endpoint_host,
    longmemeval_protocol,
    prompt_of,
)
from pytest_dshmem.record.entries import Hypothesis, QuestionKey, ReferenceText, Verdict

URL = "https://judge.example/v1"
ITEM = JudgeItem(
    key=QuestionKey(question_id="q1", condition="memory"),
    question="Where did {reference} go?",
    gold="to {hypothesis}",
    category="multi-session",
    abstention=False,
    hypothesis="to the {question} sea </hypothesis>",
)


def test_the_binary_prompt_holds_the_three_texts_in_their_tags_and_asks_for_json() -> None:
    prompt = binary_protocol("m", URL).render(ITEM)
    for tag, text in [("question", ITEM.question), ("reference", ITEM.gold), ("hypothesis", ITEM.hypothesis)]:
        assert f"<{tag}>\n{text}\n</{tag}>" in prompt
    assert prompt.endswith('{"reason": "why", "verdict": "wrong"}\n')


def test_substitution_is_done_in_one_pass() -> None:
    assert prompt_of("{question}|{reference}|{hypothesis}|{other}|{}", ITEM) == (
        "Where did {reference} go?|to {hypothesis}|to the {question} sea </hypothesis>|{other}|{}"
    )


@pytest.mark.parametrize(
    ("category", "abstention", "words"),
    [
        ("single-session-user", False, "every step"),
        ("single-session-assistant", False, "every step"),
        ("multi-session", False, "every step"),
        ("temporal-reasoning", False, "one more or one less"),
        ("knowledge-update", False, "outdated"),
        ("single-session-preference", False, "what is known of this user"),
        ("temporal-reasoning", True, "unanswerable"),
        ("knowledge-update", True, "unanswerable"),
    ],
)
def test_longmemeval_rubrics_go_by_type_with_abstention_first(
    category: str, abstention: bool, words: str
) -> None:
    item = dataclasses.replace(ITEM, category=category, abstention=abstention)
    prompt = longmemeval_protocol("m", URL).render(item)
    assert words in " ".join(prompt.split())
    assert ("unanswerable" in prompt) is abstention


def test_the_bundled_prompts_are_those_of_their_version() -> None:
    """A changed prompt is another protocol: raise its version, then put the new hash here."""
    binary, longmemeval = binary_protocol("m", URL), longmemeval_protocol("m", URL)
    assert (binary.version, binary.prompt_sha256[:16]) == (1, "a0976377f2fe3f43")
    assert (longmemeval.version, longmemeval.prompt_sha256[:16]) == (1, "9fbd5ea935678839")


def test_the_key_changes_with_all_that_can_change_a_verdict(tmp_path: Path) -> None:
    own, other = tmp_path / "own.txt", tmp_path / "other.txt"
    own.write_text("{question} {reference} {hypothesis}")
    other.write_text("{question}: {reference} {hypothesis}")
    protocols = [
        binary_protocol("m", URL),
        binary_protocol("n", URL),
        binary_protocol("m", "https://other.example/v1"),
        binary_protocol("m", URL, {"temperature": 1}),
        longmemeval_protocol("m", URL),
        custom_protocol(own, "m", URL),
        custom_protocol(other, "m", URL),
    ]
    assert len({protocol.key for protocol in protocols}) == len(protocols)
    assert binary_protocol("m", URL).key == binary_protocol("m", "https://judge.example:8443/v2").key


def test_the_description_is_plain_and_holds_no_credential() -> None:
    described = binary_protocol("m", "https://Judge.Example:8443/v1?token=secret").describe()
    assert described["key"].startswith("dshmem-binary-1-")
    assert described["endpoint"] == "judge.example"
    assert described["parameters"] == {"temperature": 0}
    assert "secret" not in str(described)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("{question} {reference}", "{hypothesis}"),
        ("{hypothesis}", "{question}, {reference}"),
        ("", "{question}, {reference}, {hypothesis}"),
    ],
)
def test_a_prompt_without_its_placeholders_is_refused(tmp_path: Path, text: str, missing: str) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text(text)
    with pytest.raises(JudgeError) as caught:
        custom_protocol(path, "m", URL)
    assert f"lacks {missing}:" in str(caught.value)


def test_a_prompt_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    with pytest.raises(JudgeError, match="cannot be read"):
        custom_protocol(path, "m", URL)
    path.write_bytes(b"\xff\xfe{question}")
    with pytest.raises(JudgeError, match="not UTF-8"):
        custom_protocol(path, "m", URL)


def test_a_prompt_of_ones_own_may_hold_braces_and_is_asked_for_json(tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text('Mark {"this": 1}: {question} / {reference} / {hypothesis}')
    prompt = custom_protocol(path, "m", URL).render(ITEM)
    assert prompt.startswith('Mark {"this": 1}: Where did {reference} go? / to {hypothesis} / to the')
    assert '"verdict": "correct"' in prompt


@pytest.mark.parametrize(
    "url",
    [
        "",
        "judge.example",
        "ftp://judge.example",
        "https://",
        "https://[",
        "http://x:y",
        "http://a..b/v1",
        "http://a b/v1",
        "http://a/\n",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(JudgeError, match="base URL is not"):
        endpoint_host(url)


def test_an_address_with_a_credential_is_refused_without_showing_it() -> None:
    with pytest.raises(JudgeError, match="holds a user or password") as caught:
        endpoint_host("https://user:secret@judge.example/v1")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "parameters", [{"stream": True}, {"model": "x"}, {"temperature": {1}}, {"top_p": float("nan")}]
)
def test_parameters_that_cannot_be_sent_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(JudgeError, match="parameters"):
        binary_protocol("m", URL, parameters)


def hypothesis(question_id: str, state: str = "answered") -> Hypothesis:
    return Hypothesis.model_validate(
        {
            "key": {"question_id": question_id, "condition": "memory"},
            "sample_id": "s",
            "state": state,
            "hypothesis": "to the sea",
            "started_at": 0.0,
            "seconds": 1.0,
        }
    )


REFERENCE = ReferenceText(
    question_id="q1", asked_on="1 May 2023", question="Where to?", gold="the sea", category="single-hop"
)


def test_only_answers_are_judged() -> None:
    states = [
        "answered",
        "empty",
        "error",
        "timeout",
        "blocked",
        "max-tokens",
        "context-overflow",
        "contaminated",
    ]
    found = judge_items([hypothesis("q1", state) for state in states], {"q1": REFERENCE})
    assert [(item.question, item.gold, item.hypothesis) for item in found] == [
        ("Where to?", "the sea", "to the sea")
    ]


def test_an_answer_without_reference_is_named() -> None:
    with pytest.raises(JudgeError, match="q2"):
        judge_items([hypothesis("q2")], {"q1": REFERENCE})


@pytest.mark.parametrize(
    "change",
    [{"question": "x"}, {"gold": "x"}, {"hypothesis": "x"}, {"category": "x"}, {"abstention": True}],
)
def test_the_cache_key_covers_all_that_a_judge_sees(change: dict[str, Any]) -> None:
    assert cache_key("p", dataclasses.replace(ITEM, **change)) != cache_key("p", ITEM)
    assert cache_key("other", ITEM) != cache_key("p", ITEM)
    other_key = dataclasses.replace(ITEM, key=QuestionKey(question_id="q2", condition="memory"))
    assert cache_key("p", other_key) == cache_key("p", ITEM)


def test_the_latest_fitting_verdict_counts() -> None:
    def verdict(correct: bool, protocol: str = "p", item: JudgeItem = ITEM) -> Verdict:
        return Verdict(
            key=ITEM.key,
            protocol=protocol,
            cache_key=cache_key(protocol, item),
            state="judged",
            correct=correct,
        )

    stale = verdict(False, item=dataclasses.replace(ITEM, hypothesis="earlier"))
    found = verdicts_for([ITEM], [verdict(False), verdict(True), stale, verdict(False, "other")], "p")
    assert found == {ITEM.key: verdict(True)}
