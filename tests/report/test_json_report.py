"""The JSON report holds the figures that the terminal shows, and every question behind them."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from synthetic_run import TEXTS, synthetic_run

from pytest_dshmem.report.json_report import report_document
from pytest_dshmem.report.ledger import PHASES
from pytest_dshmem.report.prices import Prices
from pytest_dshmem.report.reading import read_run

PRICES = Prices.model_validate(
    {
        "source": "an invented page",
        "date": "2026-01-15",
        "currency": "USD",
        "models": {"synthetic-agent": {"input": "1", "cache_read": "1", "cache_write": "1", "output": "1"}},
    }
)


def document(folder: Path, prices: Prices | None = None, **how: Any) -> dict[str, Any]:
    synthetic_run(folder, trouble=True, repeats=2)
    found = report_document(read_run(folder), prices, **how)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def test_totals_can_be_counted_again_from_the_questions(tmp_path: Path) -> None:
    found = document(tmp_path / "run")
    compared = 0
    for condition in found["conditions"]:
        for repeat in condition["repeats"]:
            states = Counter(
                question["state"]
                for question in found["questions"]
                if question["condition"] == condition["condition"] and question["repeat"] == repeat["repeat"]
            )
            total = repeat["total"]
            assert total["correct"] == states["correct"]
            assert total["judged"] == states["correct"] + states["wrong"] > 0
            assert total["accuracy"] == states["correct"] / total["judged"]
            assert total["selected"] == sum(states.values())
            assert total["correct"] == sum(row["correct"] for row in repeat["categories"])
            compared += 1
    assert compared == 4


def test_costs_of_the_questions_add_up_to_the_asking(tmp_path: Path) -> None:
    found = document(tmp_path / "run")
    asking = found["cost"]["phases"]["qa"]
    assert sum(question["tokens"] or 0 for question in found["questions"]) == asking["tokens"]["total"] > 0
    assert sum(question["calls"] for question in found["questions"]) == asking["calls"]["total"]
    assert tuple(found["cost"]["phases"]) == PHASES


def test_unknown_money_is_null(tmp_path: Path) -> None:
    found = document(tmp_path / "run")
    assert found["prices"] is None
    assert found["cost"]["whole"]["cost"] is None
    assert all(question["money"] is None for question in found["questions"])


def test_money_is_exact_and_incomplete_where_a_price_is_missing(tmp_path: Path) -> None:
    found = document(tmp_path / "run", PRICES)
    answered = next(q for q in found["questions"] if q["condition"] == "baseline")
    assert answered["money"] == "0.00046"
    assert found["cost"]["phases"]["judge"]["cost"]["known"] is None
    assert found["cost"]["phases"]["judge"]["cost"]["unpriced"] > 0
    assert found["prices"]["source"] == "an invented page"


@pytest.mark.parametrize("texts", [True, False])
def test_question_and_gold_can_be_left_out(tmp_path: Path, texts: bool) -> None:
    found = json.dumps(document(tmp_path / "run", texts=texts))
    assert all((question in found) == texts for _, question, _ in TEXTS)
    assert ('"gold"' in found) == texts


def test_questions_can_be_left_out(tmp_path: Path) -> None:
    assert "questions" not in document(tmp_path / "run", questions=False)


def test_a_smoke_run_has_no_total(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "run", settings={"selection": "smoke"})
    found = report_document(read_run(tmp_path / "run"))
    assert [r["total"] for c in found["conditions"] for r in c["repeats"]] == [None, None]


def test_official_figures_stand_beside_ours_for_longmemeval_only(tmp_path: Path) -> None:
    found = document(tmp_path / "run")
    assert found["conditions"][0]["repeats"][0]["official"] is None
