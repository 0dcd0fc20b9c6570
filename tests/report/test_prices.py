"""Money comes from explicit prices alone, and what has no price is unknown, never free."""

import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from synthetic_run import AGENT_MODEL, JUDGE_MODEL, call, synthetic_run

from pytest_dshmem.record.entries import Usage
from pytest_dshmem.report.ledger import ledger
from pytest_dshmem.report.prices import PriceError, Prices, load_prices, money, total_cost
from pytest_dshmem.report.reading import read_run

PRICES = """
source = "a price page of our own invention"
date = 2026-01-15
currency = "USD"

[models.synthetic-agent]
input = 0.28
cache_read = 0.028
cache_write = 0.35
output = 0.42
"""
NIGHT = """
[[models.synthetic-agent.windows]]
from = 16:30:00
to = 00:30:00
input = 0.14
cache_read = 0.014
cache_write = 0.175
output = 0.21
"""


def prices(folder: Path, text: str = PRICES) -> Prices:
    file = folder / "prices.toml"
    file.write_text(text, encoding="utf-8")
    return load_prices(file)


def at(hour: int, minute: int) -> float:
    return datetime.datetime(2026, 1, 20, hour, minute, tzinfo=datetime.UTC).timestamp()


def test_a_call_costs_the_sum_over_its_classes_exactly(tmp_path: Path) -> None:
    # 100 input, 300 cache read, 20 cache write, 40 output, of which 15 reasoning are not paid twice
    assert money(call("qa"), prices(tmp_path)) == Decimal("0.0000602")


@pytest.mark.parametrize(
    ("hour", "minute", "cheap"),
    [(16, 29, False), (16, 30, True), (23, 59, True), (0, 29, True), (0, 30, False), (12, 0, False)],
)
def test_rates_follow_the_time_of_day_over_midnight(
    tmp_path: Path, hour: int, minute: int, cheap: bool
) -> None:
    made = call("qa").model_copy(update={"started_at": at(hour, minute)})
    assert money(made, prices(tmp_path, PRICES + NIGHT)) == Decimal("0.0000301" if cheap else "0.0000602")


def test_an_unknown_model_has_no_price(tmp_path: Path) -> None:
    assert money(call("judge", model=JUDGE_MODEL), prices(tmp_path)) is None


def test_a_class_without_a_rate_has_no_price_once_it_is_used(tmp_path: Path) -> None:
    known = prices(tmp_path, PRICES.replace("cache_write = 0.35\n", ""))
    assert money(call("qa"), known) is None
    unused = call("qa").model_copy(update={"usage": Usage(input=1_000_000)})
    assert money(unused, known) == Decimal("0.28")


def test_a_rate_of_zero_is_a_price(tmp_path: Path) -> None:
    free = prices(tmp_path, PRICES.replace("0.35", "0"))
    assert money(call("qa"), free) == Decimal("0.0000532")


def test_unmetered_calls_have_no_price_and_make_the_sum_incomplete(tmp_path: Path) -> None:
    known = prices(tmp_path)
    whole = total_cost([call("qa"), call("qa", metered=False)], known)
    assert whole.known == Decimal("0.0000602")
    assert whole.unpriced == 1
    assert not whole.complete
    assert total_cost([call("qa", metered=False)], known).known is None
    assert total_cost([], known, unseen=1).known is None


def test_no_calls_cost_nothing(tmp_path: Path) -> None:
    nothing = total_cost([], prices(tmp_path))
    assert nothing.known == 0
    assert nothing.complete


def test_the_ledger_prices_what_it_can_and_says_what_it_cannot(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "run", conditions=("memory",))
    found = ledger(read_run(tmp_path / "run"), prices(tmp_path))
    qa, judge, whole = found.phases["qa"].cost, found.phases["judge"].cost, found.whole.cost
    assert qa is not None
    assert judge is not None
    assert whole is not None
    assert qa.known == Decimal("0.0000602") * 3 * 12
    assert judge.known is None
    assert whole.unpriced == judge.unpriced == 12
    assert found.question is not None
    assert found.question.money == Decimal("0.0000602") * 3
    assert not found.question.money_at_least


def test_without_prices_there_is_no_money(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "run")
    found = ledger(read_run(tmp_path / "run"))
    assert found.whole.cost is None
    assert found.question is not None
    assert found.question.money is None


def test_prices_survive_being_recorded(tmp_path: Path) -> None:
    known = prices(tmp_path, PRICES + NIGHT)
    assert Prices.model_validate(known.as_record()) == known
    assert known.models[AGENT_MODEL].input == Decimal("0.28")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("source = ", "not valid TOML"),
        ('source = "s"\ndate = 2026-01-15\n[models]\n', "currency"),
        (PRICES + "reasoning = 0.4\n", "models.synthetic-agent.reasoning"),
        (PRICES.replace("0.28", "-1"), "models.synthetic-agent.input"),
        (PRICES.replace("0.28", "nan"), "models.synthetic-agent.input"),
        (PRICES.replace("0.28", '"cheap"'), "models.synthetic-agent.input"),
        (PRICES.replace("2026-01-15", '"soon"'), "date"),
        (PRICES.replace('"a price page of our own invention"', '""'), "source"),
    ],
)
def test_a_bad_price_file_is_refused_with_its_name_and_the_place(
    tmp_path: Path, text: str, named: str
) -> None:
    with pytest.raises(PriceError, match=named) as refused:
        prices(tmp_path, text)
    assert "prices.toml" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_or_unreadable_price_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PriceError, match="cannot be read"):
        load_prices(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PriceError, match="UTF-8"):
        load_prices(tmp_path / "binary.toml")
