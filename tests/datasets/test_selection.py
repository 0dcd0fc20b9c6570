"""Selections and the split: fixed, derivable again, and fair to the strata."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_dshmem.datasets.catalog import open_benchmark, published
from pytest_dshmem.datasets.selection import (
    DEV_CONVERSATIONS,
    STRATIFIED_SIZE,
    SelectionRule,
    derive_selection,
    read_selection,
    split_of,
)
from pytest_dshmem.datasets.views import Benchmark, DataError, Listing

LISTS = Path(__file__).parents[2] / "pytest_dshmem" / "datasets" / "selections"
RULES: tuple[SelectionRule, ...] = ("smoke", "stratified")
LISTINGS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.booleans()), min_size=1, max_size=200
).map(lambda rows: [Listing(f"q{index}", *row) for index, row in enumerate(rows)])


@pytest.fixture(params=["locomo", "longmemeval"])
def sample(request: pytest.FixtureRequest) -> Benchmark:
    return open_benchmark(request.param, sample_corpus=True, environment={})


@given(LISTINGS)
def test_smoke_holds_one_of_each_category_and_one_abstention(listings: list[Listing]) -> None:
    chosen = [each for each in listings if each.question_id in derive_selection(listings, "smoke")]
    wanted = Counter({each.category for each in listings if not each.abstention})
    assert Counter(each.category for each in chosen if not each.abstention) == wanted
    assert sum(each.abstention for each in chosen) == any(each.abstention for each in listings)


@given(LISTINGS)
def test_stratified_holds_about_fifty_with_each_stratum_by_its_share(listings: list[Listing]) -> None:
    chosen = [each for each in listings if each.question_id in derive_selection(listings, "stratified")]
    sizes = Counter((each.category, each.abstention) for each in listings)
    taken = Counter((each.category, each.abstention) for each in chosen)
    total = min(STRATIFIED_SIZE, len(listings))
    assert taken.keys() == sizes.keys()
    assert all(abs(taken[each] - size * total / len(listings)) <= 1 for each, size in sizes.items())
    assert total <= len(chosen) <= total + len(sizes)


@given(LISTINGS, st.data())
def test_what_is_selected_does_not_depend_on_the_order(listings: list[Listing], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(listings))
    for rule in RULES:
        assert set(derive_selection(listings, rule)) == set(derive_selection(shuffled, rule))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("name", "variant", "file"), [("locomo", None, "locomo"), ("longmemeval", "oracle", "longmemeval-oracle")]
)
def test_the_fixed_lists_are_what_the_rule_derives(
    open_real: Callable[..., Benchmark], rule: SelectionRule, name: str, variant: str | None, file: str
) -> None:
    benchmark = open_real(name, variant=variant)
    derived = derive_selection(benchmark.listings(), rule)
    lines = (LISTS / f"{name}-{rule}.txt").read_text().splitlines()
    assert tuple(line for line in lines if not line.startswith("#")) == derived
    assert f"# sha256 {published(file).sha256}" in lines
    assert read_selection(rule, benchmark) == frozenset(derived)


@pytest.mark.parametrize(("name", "smoke"), [("locomo", 4), ("longmemeval", 7)])
def test_the_fixed_lists_have_their_size_and_name_their_data(name: str, smoke: int) -> None:
    file = published("locomo" if name == "locomo" else "longmemeval-oracle")
    for rule, size in (("smoke", smoke), ("stratified", STRATIFIED_SIZE)):
        lines = (LISTS / f"{name}-{rule}.txt").read_text().splitlines()
        ids = [line for line in lines if not line.startswith("#")]
        assert len(set(ids)) == len(ids) == size
        assert any(file.sha256 in line for line in lines)


def test_a_sample_corpus_has_selections_of_its_own(sample: Benchmark) -> None:
    everything = {listing.question_id for listing in sample.listings()}
    assert read_selection("full", sample) == everything
    smoke = [each for each in sample.listings() if each.question_id in read_selection("smoke", sample)]
    assert {each.category for each in smoke} == set(sample.categories)
    assert read_selection("smoke", sample) < everything


def test_a_list_of_ones_own(sample: Benchmark, tmp_path: Path) -> None:
    first, second, *_ = (listing.question_id for listing in sample.listings())
    path = tmp_path / "mine.txt"
    path.write_text(f"# mine\n\n  {first}  # the hard one\n{second}\r\n{first}\n")
    assert read_selection(str(path), sample) == {first, second}


def test_unknown_ids_are_named(sample: Benchmark, tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("\n".join(f"nothing-{number}" for number in range(5)))
    with pytest.raises(DataError, match="'nothing-0', 'nothing-1', 'nothing-2' and 2 more"):
        read_selection(str(path), sample)


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot be read"), (b"# none\n", "is empty"), (b"\xff\xfe", "not a text file")],
)
def test_an_unusable_list_is_one_sentence(
    sample: Benchmark, tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "mine.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=said):
        read_selection(str(path), sample)


def test_both_halves_of_a_sample_corpus_hold_something(sample: Benchmark) -> None:
    assert {split_of(each.sample_id, sample.name) for each in sample.listings()} == {"dev", "held-out"}


def test_the_split_is_fixed() -> None:
    assert {"conv-26", "conv-41", "conv-47"} <= DEV_CONVERSATIONS
    assert split_of("conv-26", "locomo") == "dev"
    assert split_of("conv-30", "locomo") == "held-out"
    assert [split_of(name, "longmemeval") for name in ("61d2fe08", "a90c44b6")] == ["dev", "held-out"]


def test_a_fifth_of_any_ids_is_for_development() -> None:
    dev = sum(split_of(f"{number:08x}", "longmemeval") == "dev" for number in range(5000))
    assert 900 < dev < 1100
