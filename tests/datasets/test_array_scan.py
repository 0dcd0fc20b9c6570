"""The streaming scanner against the standard parser, on any list of objects and any size of read."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_dshmem.datasets import array_scan
from pytest_dshmem.datasets.array_scan import scan_objects

TROUBLE = st.text(alphabet='"\\{}[],:\n\t\u2028é😀 ab', max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TROUBLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TROUBLE, inner, max_size=4),
    max_leaves=12,
)
LISTS = st.lists(st.dictionaries(TROUBLE, VALUES, max_size=5), max_size=5)


class Dribble(io.BytesIO):
    """A file that hands out a few bytes at a time, whatever is asked for."""

    def __init__(self, data: bytes, step: int) -> None:
        super().__init__(data)
        self._step = step

    def read(self, size: int | None = -1, /) -> bytes:
        del size
        return super().read(self._step)


@given(LISTS, st.sampled_from([None, 1, 4]), st.booleans(), st.integers(1, 40))
def test_every_object_is_found_where_it_stands(
    objects: list[dict[str, Any]], indent: int | None, ascii_only: bool, step: int
) -> None:
    data = json.dumps(objects, indent=indent, ensure_ascii=ascii_only).encode()
    found = list(scan_objects(Dribble(data, step)))
    assert [json.loads(element.text) for element in found] == objects
    assert [data[each.offset : each.offset + len(each.text)] for each in found] == [
        each.text for each in found
    ]


@given(LISTS.filter(bool), st.data(), st.integers(1, 40))
def test_a_cut_file_is_never_taken_for_a_whole_one(
    objects: list[dict[str, Any]], data: st.DataObject, step: int
) -> None:
    whole = json.dumps(objects, indent=1).encode()
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ValueError, match="byte"):
        list(scan_objects(Dribble(whole[:cut], step)))


@given(st.text(alphabet='[]{}", 1a\\', max_size=14), st.integers(1, 5))
def test_what_the_scanner_lets_pass_parses_to_the_same_or_fails_within_an_object(
    text: str, step: int
) -> None:
    try:
        found = [element.text for element in scan_objects(Dribble(text.encode(), step))]
        parsed = [json.loads(each) for each in found]
    except ValueError:
        return
    assert json.loads(text) == parsed


def test_a_file_that_never_ends_an_object_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_scan, "_LARGEST", 100)
    endless = Dribble(b'[{"x": "' + b"a" * 10_000, 30)
    with pytest.raises(ValueError, match="no object ends within 100 bytes"):
        list(scan_objects(endless))
    assert endless.tell() < 200
