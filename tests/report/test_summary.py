"""The summary: complete, true to the records, within 80 columns, and honest about what it is not."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from synthetic_run import JUDGE_MODEL, PROTOCOL, answer, call, synthetic_run

from pytest_dshmem.report.lines import WIDTH, columns
from pytest_dshmem.report.prices import ModelPrices, Prices
from pytest_dshmem.report.provenance import OFFLINE, SAMPLE_CORPUS
from pytest_dshmem.report.reading import read_run
from pytest_dshmem.report.summary import summary

PRICES = Prices(
    source="an invented page",
    date=datetime.date(2026, 1, 15),
    currency="USD",
    models={
        "synthetic-agent": ModelPrices(
            input=Decimal(10), cache_read=Decimal(1), cache_write=Decimal(20), output=Decimal(40)
        )
    },
)
FIVE = ("baseline", "memory", "memory-consolidate", "oracle", "full-history")


def summarised(folder: Path, prices: Prices | None = None, **how: Any) -> list[str]:
    synthetic_run(folder, **how)
    lines = summary(read_run(folder), prices)
    assert all(columns(line.text) <= WIDTH for line in lines)
    assert all(line.text == line.text.rstrip() for line in lines)
    return [line.text for line in lines]


def row(lines: list[str], label: str, section: str = "") -> str:
    """What follows a label, with single spaces, in the first such line after a section's heading."""
    start = next(i for i, line in enumerate(lines) if line.startswith(f"{section} -")) if section else 0
    found = next(line for line in lines[start:] if line.strip().startswith(label))
    return prose([found]).removeprefix(label).strip()


def prose(lines: list[str]) -> str:
    """All words, as if nothing had been wrapped."""
    return " ".join(word for line in lines for word in line.split())


def test_a_condition_shows_accuracy_with_counts_and_interval(tmp_path: Path) -> None:
    lines = summarised(tmp_path / "run", conditions=("memory",))
    assert row(lines, "total") == "66.7 % 8/12 39.1-86.2 % 12 0 0"
    assert row(lines, "single-hop").startswith("66.7 % 4/6 ")
    assert not any(line.startswith("accuracy by category") for line in lines)


def test_several_conditions_come_side_by_side_first(tmp_path: Path) -> None:
    lines = summarised(tmp_path / "run")
    headings = [line.split(" --")[0] for line in lines if line.endswith("---")]
    assert headings == [
        "memory benchmark locomo",
        "accuracy by category",
        "baseline",
        "memory-consolidate",
        "cost of the whole run",
    ]
    assert row(lines, "total", "accuracy by category") == "16.7 % (2/12) 66.7 % (8/12)"


def test_what_failed_is_beside_the_accuracy_and_not_in_it(tmp_path: Path) -> None:
    lines = summarised(tmp_path / "run", conditions=("memory",), trouble=True)
    assert row(lines, "total") == "66.7 % 8/12 39.1-86.2 % 14 4 1"
    assert row(lines, "not answered") == "5: 1 empty, 1 error, 1 missing, 1 not-formed, 1 timeout"
    assert row(lines, "no verdict") == "1 unreadable, 1 judge failed; not in the accuracy"


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        ({"offline": True}, OFFLINE),
        ({"data.sample_corpus": True, "data.pinned": False}, SAMPLE_CORPUS),
        ({"data.pinned": False}, "unpinned file: locomo10.json is not the published one, and its figures"),
        ({"offline": None}, "the manifest does not say whether the model was a real one: do not take"),
        ({"data.sample_corpus": None}, "the manifest does not say whether the data set is a sample corpus"),
    ],
)
def test_figures_that_are_no_benchmark_results_say_so_at_head_and_foot(
    tmp_path: Path, settings: dict[str, Any], warning: str
) -> None:
    lines = summarised(tmp_path / "run", settings=settings)
    places = [i for i, line in enumerate(lines) if line.startswith(warning)]
    assert len(places) == 2
    assert places[0] == 1
    assert places[1] >= len(lines) - 2


def test_a_run_on_the_real_thing_carries_no_warning(tmp_path: Path) -> None:
    text = "\n".join(summarised(tmp_path / "run"))
    assert "benchmark results" not in text
    assert "unpinned" not in text


def test_costs_are_those_of_the_ledger(tmp_path: Path) -> None:
    lines = summarised(tmp_path / "run", conditions=("memory",))
    costs = lines[lines.index(next(line for line in lines if line.strip().startswith("tokens "))) :]
    assert row(costs, "ingestion") == "8 0 1,600 4,800 320 640 (240)"
    assert row(costs, "qa") == "24 0 3,600 10,800 720 1,440 (540)"
    assert row(costs, "judge") == "12 0 1,200 3,600 240 480 (180)"
    assert row(costs, "whole") == "44 0 6,400 19,200 1,280 2,560 (960)"


def test_what_nobody_saw_reads_at_least(tmp_path: Path) -> None:
    lines = summarised(tmp_path / "run", trouble=True)
    assert row(lines, "ingestion", "cost of the whole run").startswith("13 1 ≥2,400 ≥7,200")
    assert row(lines, "unmetered").startswith("6 calls or runs")
    untroubled = "\n".join(summarised(tmp_path / "other"))
    assert "≥" not in untroubled


def test_money_without_prices_is_unknown_and_never_zero(tmp_path: Path) -> None:
    assert row(summarised(tmp_path / "run"), "money") == "unknown: no prices were given"


def test_money_with_prices_names_what_it_does_not_know(tmp_path: Path) -> None:
    lines = summarised(tmp_path / "run", PRICES, conditions=("memory",))
    # 0.0033 USD a size: 100 input, 300 cache read, 20 cache write, 40 output at the rates above
    assert "money ingestion 0.053 USD, qa 0.12 USD, judge unknown, whole ≥0.17 USD" in prose(lines)
    assert row(lines, "prices") == "an invented page, 2026-01-15"


def test_the_judge_is_named_and_its_absence_too(tmp_path: Path) -> None:
    assert row(summarised(tmp_path / "run"), "judge") == f"{PROTOCOL} by {JUDGE_MODEL}"
    lines = summarised(tmp_path / "unjudged", judged=False)
    assert row(lines, "judge") == "nothing is judged yet"
    assert row(lines, "no verdict").startswith("12 not judged yet")


def test_few_questions_say_what_they_cannot_show(tmp_path: Path) -> None:
    lines = summarised(tmp_path / "run", conditions=("memory",))
    assert "12 questions tell this accuracy to about ±23.6 points" in prose(lines)


def test_a_smoke_run_publishes_no_total(tmp_path: Path) -> None:
    lines = summarised(tmp_path / "run", settings={"selection": "smoke"})
    assert not any(line.strip().startswith("total") and "%" in line for line in lines)
    assert sum(line.strip().startswith("no total") for line in lines) == 2


def test_the_split_is_named(tmp_path: Path) -> None:
    lines = summarised(tmp_path / "run", settings={"split": "held-out"})
    assert row(lines, "questions") == "selection full, split held-out"


def test_two_repeats_make_no_trend_and_three_have_a_deviation(tmp_path: Path) -> None:
    two = summarised(tmp_path / "two", conditions=("memory",), repeats=2)
    assert "fewer than three make no trend" in prose(two)
    three = summarised(tmp_path / "three", conditions=("memory",), repeats=3)
    assert "median 66.7 %, 66.7 % to 66.7 % in 3 repeats, standard deviation 0.0 points" in prose(three)


def test_sums_that_are_too_long_for_the_line_are_told_in_millions(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run", conditions=("memory",))
    key = run.selected()[0].key
    large = call("qa", size=5_000_000)
    run.hypotheses.append(answer(key, "orchard", "a plane", attempt=2, calls=(large,) * 3))
    lines = [line.text for line in summary(read_run(tmp_path / "run"))]
    assert all(len(line) <= WIDTH for line in lines)
    assert row(lines, "qa") == "27 0 1.5G 4.5G 300.0M 600.0M (225.0M)"


def test_longmemeval_shows_its_own_figures_too(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run", conditions=("memory",), settings={"benchmark": "longmemeval"})
    types = {
        "multi-hop": "multi-session",
        "temporal": "temporal-reasoning",
        "open-domain": "single-session-preference",
        "single-hop": "knowledge-update",
    }
    selection = run.selection.path.read_text(encoding="ascii")
    for ours, theirs in types.items():
        selection = selection.replace(f'"category":"{ours}"', f'"category":"{theirs}"')
    run.selection.path.write_text(selection, encoding="ascii")
    lines = [line.text for line in summary(read_run(tmp_path / "run"))]
    assert "as official task-averaged -, overall 0.6667, abstention - (0)" in prose(lines)
    assert row(lines, "single-session-preference").startswith("0.0 % 0/2")


def test_lines_that_a_crash_cut_short_are_reported(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run")
    with run.verdicts.path.open("a") as file:
        file.write("{")
    lines = [line.text for line in summary(read_run(tmp_path / "run"))]
    assert row(lines, "records") == "judge.jsonl has 1 line that a crash cut short"


@pytest.mark.parametrize(
    "how",
    [
        {"conditions": FIVE, "repeats": 3, "trouble": True},
        {
            "settings": {
                "model.name": "m" * 200,
                "memory_system.name": "a\nb\x1b[31m" * 30,
                "data.name": "記" * 90,
            }
        },
        {"protocol": "p" * 150},
        {"conditions": ("memory-with-a-name-of-some-length-and-more-of-it", "b" * 90)},
        {"facts": {"history_tokens": "none", "categories": 7 * ["x"], "tokenizer": 5}},
    ],
)
def test_nothing_makes_a_line_too_wide(tmp_path: Path, how: dict[str, Any]) -> None:
    lines = summarised(tmp_path / "run", **how)
    assert len(lines) > 30
    assert not any("\x1b" in line for line in lines)


def test_a_run_in_which_nothing_happened_yet_is_summarised(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run", conditions=("memory",), judged=False)
    for journal in (run.hypotheses, run.formations, run.ingestions):
        journal.path.unlink()
    lines = [line.text for line in summary(read_run(tmp_path / "run"))]
    assert row(lines, "total") == "- 0/0 - 0 0 12"
    assert row(lines, "not answered") == "12: 12 missing"
