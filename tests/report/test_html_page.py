"""The page is one file that loads nothing, runs nothing, and says what the records say."""

from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_run import answer, synthetic_run, verdict

from pytest_dshmem.record.entries import QuestionKey
from pytest_dshmem.report.compare import compare_runs
from pytest_dshmem.report.diagnosis import diagnose, write_diagnosis
from pytest_dshmem.report.html.charts import round_number_above
from pytest_dshmem.report.html.elements import VOID, element, stylesheet
from pytest_dshmem.report.html.gathering import page_content
from pytest_dshmem.report.html.page import render_page
from pytest_dshmem.report.prices import Prices
from pytest_dshmem.report.reading import read_run
from pytest_dshmem.report.seal import seal_hash, seal_run

ATTACK = '</blockquote><script>alert("x")</script><img src=https://example.org/a.png onerror=alert(1)>'
PRICES = Prices.model_validate(
    {
        "source": "a list",
        "date": "2026-01-15",
        "currency": "USD",
        "models": {"synthetic-agent": {"input": "1", "cache_read": "1", "cache_write": "1", "output": "1"}},
    }
)


class Page(HTMLParser):
    """Parses a page, and fails where tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def page_of(folder: Path, *, page: dict[str, Any] | None = None, **changes: Any) -> Page:
    run = synthetic_run(folder / "run", trouble=True, **changes)
    return Page(render_page(page_content(read_run(run.path), **(page or {}))))


def test_the_page_is_well_formed_and_loads_and_runs_nothing(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    assert page.tags["script"] == page.tags["link"] == page.tags["img"] == page.tags["iframe"] == 0
    names = {name for _, name, _ in page.attributes}
    assert not names & {"src", "href", "srcset", "action", "data", "poster"}
    assert not any(name.startswith("on") for name in names)
    styles = [words for words in page.words if "--paper" in words]
    assert len(styles) == 1
    assert "url(" not in styles[0]
    assert "@import" not in styles[0]
    assert "prefers-color-scheme: dark" in styles[0]


def test_what_a_model_wrote_is_text_and_never_markup(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run")
    key = QuestionKey(question_id="orchard-q001", condition="baseline")
    hypothesis = f"{ATTACK}\x00\x1b[31m\ud800".encode("utf-8", "replace").decode()
    run.hypotheses.append(answer(key, "orchard", hypothesis, attempt=2, opened=(ATTACK,)))
    run.verdicts.append(verdict(key, "dshmem-binary-1-0123456789ab", hypothesis, False, reason=ATTACK))
    text = render_page(page_content(read_run(run.path)))
    page = Page(text)
    assert page.tags["script"] == page.tags["img"] == 0
    assert "<script" not in text
    assert page.text.count('<script>alert("x")</script>') == 3
    assert "\x00" not in text
    assert "\x1b" not in text


def test_every_question_stands_with_gold_answer_verdict_files_and_cost(tmp_path: Path) -> None:
    page = page_of(tmp_path, page={"prices": PRICES})
    for sample in ("orchard", "harbour"):
        for number in range(1, 7):
            assert page.words.count(f"{sample}-q{number:03d}") == 1
    for words in ("Which two tools did Ines lend to Pavel?", "a spirit level and a plane", "compared"):
        assert words in page.words
    assert page.words.count("correct") == 10
    assert page.words.count("timeout") == 2, "once in the table of states, once at the question"
    assert "memory/garden/shed.md" in page.text
    assert "2 calls · 1,380 tokens · 0.0014 USD" in page.text


def test_texts_can_be_left_out(tmp_path: Path) -> None:
    page = page_of(tmp_path, page={"texts": False}, correct=lambda _: False)
    assert "Question and gold texts were left out" in page.text
    assert "Which two tools" not in page.text
    assert "a spirit level and a plane" not in page.text
    assert "orchard-q001" in page.words


def test_every_accuracy_stands_with_interval_and_denominator(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    assert "66.7 %" in page.words
    assert "8 right of 12 judged" in page.words
    assert any(words.startswith("95 % interval 39.1") for words in page.words)
    assert "not-formed" in page.words
    assert "judge-error" in page.words


def test_charts_can_be_read_without_seeing_them(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    assert page.tags["svg"] > 1
    assert page.tags["desc"] == page.tags["svg"]
    assert page.tags["title"] >= page.tags["svg"] + 1
    roles = [value for tag, name, value in page.attributes if tag == "svg" and name == "role"]
    assert roles == ["img"] * page.tags["svg"]
    assert "total, memory-consolidate: 66.7 % (8/12)" in page.text


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        ({"offline": True}, "offline: these figures are not benchmark results"),
        ({"data.sample_corpus": True}, "sample corpus: these figures are not benchmark results"),
        ({"data.pinned": False}, "unpinned file"),
    ],
)
def test_what_is_no_benchmark_result_is_said_at_head_and_foot(
    tmp_path: Path, settings: dict[str, Any], warning: str
) -> None:
    assert page_of(tmp_path, settings=settings).text.count(warning) == 2


def test_a_smoke_selection_publishes_no_total(tmp_path: Path) -> None:
    page = page_of(tmp_path, settings={"selection": "smoke"})
    assert page.words.count("no total") == 2
    assert "total" not in page.words


def test_cost_by_phase_says_what_is_unknown_and_what_is_a_lower_bound(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    assert "No prices were given, so money is unknown." in page.text
    assert "could not be metered" in page.text
    for phase in ("ingestion", "consolidation", "qa", "judge", "whole"):
        assert phase in page.words


def test_diagnosis_comparison_seal_and_disputed_golds_are_shown_when_there(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run")
    write_diagnosis(run.path, diagnose(read_run(run.path), {}))
    seal_run(run.path)
    reading = read_run(run.path)
    content = page_content(reading, comparisons=compare_runs([reading]), disputed=frozenset({"orchard-q001"}))
    page = Page(render_page(content))
    assert "Wrong answers under baseline" in page.words
    assert "no-memory: the condition has no memory" in page.words
    assert "B against A, question by question" in page.words
    assert seal_hash(run.path) in page.words
    assert page.words.count("without 1 disputed gold") == 2
    assert "gold disputed" in page.text


def test_an_unjudged_run_has_a_page_too(tmp_path: Path) -> None:
    page = page_of(tmp_path, judged=False)
    assert "unjudged" in page.words
    assert "95 % interval" not in "".join(words for words in page.words if words.startswith("95 % interval "))


@given(st.text())
def test_no_text_can_leave_its_element_or_attribute(text: str) -> None:
    assert Page(element("p", text)).tags == {"p": 1}
    assert [name for _, name, _ in Page(element("p", "x", title=text)).attributes] == ["title"]


def test_a_style_sheet_cannot_close_itself() -> None:
    with pytest.raises(ValueError, match="must not hold"):
        stylesheet("p {} </style><script>")


@given(st.floats(min_value=1e-3, max_value=1e9))
def test_axes_end_on_a_round_number_that_is_not_far_above(value: float) -> None:
    top = round_number_above(value)
    assert value <= top <= 2.5 * value
