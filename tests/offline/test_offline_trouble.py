"""Rules for failing on purpose: which requests they strike, and how a bad rules file is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_dshmem.offline.exchange import digest_of
from pytest_dshmem.offline.trouble import Rule, Trouble, TroubleError, read_trouble


def struck(trouble: Trouble, bodies: list[bytes], api: str = "messages") -> list[bool]:
    """Which of the requests meet a rule."""
    return [trouble.for_request(api, body, digest_of(body)) != Rule() for body in bodies]


BODIES = [f"body {number}".encode() for number in range(200)]


def test_without_rules_nothing_happens() -> None:
    assert struck(Trouble(), BODIES) == [False] * 200


def test_ordinals_and_every_count_the_requests_that_a_rule_admits() -> None:
    rule = Rule(status=429, ordinals=(2,), containing="7")
    assert [body for body, hit in zip(BODIES, struck(Trouble((rule,)), BODIES), strict=True) if hit] == [
        b"body 17"
    ]
    assert struck(Trouble((Rule(cut=True, every=3),)), BODIES[:6]) == [False, False, True] * 2
    assert struck(Trouble((Rule(cut=True, every=1, api="chat"),)), BODIES[:2]) == [False, False]


def test_times_bounds_the_attempts_of_one_body() -> None:
    rule = Rule(status=500, every=1, times=2)
    assert struck(Trouble((rule,)), [b"a", b"a", b"b", b"a", b"b"]) == [True, True, True, False, True]


def test_a_rate_strikes_by_content_in_any_order_and_spares_the_next_attempt() -> None:
    rule = Rule(status=500, rate=0.2, seed=3)
    trouble = Trouble((rule,))
    forward = dict(zip(BODIES, struck(trouble, BODIES), strict=True))
    backward = dict(zip(BODIES[::-1], struck(Trouble((rule,)), BODIES[::-1]), strict=True))
    assert forward == backward
    assert 20 <= sum(forward.values()) <= 60
    assert struck(trouble, BODIES) == [False] * 200
    assert struck(Trouble((Rule(status=500, rate=0.2, seed=4),)), BODIES) != list(forward.values())


def test_the_first_rule_that_applies_is_obeyed() -> None:
    first, second = Rule(status=429, ordinals=(1,)), Rule(status=500, every=1)
    trouble = Trouble((first, second))
    assert [trouble.for_request("chat", b"x", "x") for _ in range(2)] == [first, second]


def test_a_rules_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "trouble.json"
    path.write_text(
        '{"rules": [{"ordinals": [1, 3], "status": 429, "retry_after": 0.5}, {"rate": 0.1, "cut": true}]}'
    )
    assert read_trouble(path).rules == (
        Rule(ordinals=(1, 3), status=429, retry_after=0.5),
        Rule(rate=0.1, cut=True),
    )


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{", "cannot be read"),
        ([], "must hold"),
        ({"rules": ["no"]}, "Rule 1"),
        ({"rules": [{}, {"colour": 1}]}, "Rule 2 .*unknown field 'colour'"),
        ({"rules": [{"every": "two"}]}, "every cannot be 'two'"),
        ({"rules": [{"times": True}]}, "times cannot be True"),
        ({"rules": [{"every": 0}]}, "every must be at least 1"),
    ],
)
def test_a_bad_rules_file_is_refused_in_one_sentence(tmp_path: Path, content: Any, named: str) -> None:
    path = tmp_path / "trouble.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(TroubleError, match=named):
        read_trouble(path)


def test_a_missing_rules_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TroubleError, match="cannot be read"):
        read_trouble(tmp_path / "none.json")
