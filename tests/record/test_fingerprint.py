"""Fingerprints: the same fields in any order, and every difference named."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_dshmem.record.fingerprint import (
    FieldValue,
    describe_differences,
    differences,
    fingerprint,
    flatten,
)
from pytest_dshmem.record.run_directory import RunManifest

VALUES: st.SearchStrategy[FieldValue] = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from([0.0, 1.0, 2.5]), st.text(max_size=3)
)
NAMES = st.text("abcde", min_size=1, max_size=2)
FIELDS = st.dictionaries(NAMES, VALUES, max_size=5)
in_its_own_time = settings(deadline=None)


@in_its_own_time
@given(FIELDS)
def test_the_order_of_fields_does_not_count(fields: dict[str, FieldValue]) -> None:
    assert fingerprint(dict(reversed(fields.items()))) == fingerprint(fields)


@in_its_own_time
@given(FIELDS, FIELDS)
def test_there_are_differences_exactly_where_fingerprints_differ(
    one: dict[str, FieldValue], other: dict[str, FieldValue]
) -> None:
    assert (differences(one, other) == []) == (fingerprint(one) == fingerprint(other))


@in_its_own_time
@given(FIELDS)
def test_settings_read_back_from_a_manifest_are_the_same_settings(fields: dict[str, FieldValue]) -> None:
    manifest = RunManifest(run_id="r", created_at=0.0, fingerprint=fingerprint(fields), settings=fields)
    again = RunManifest.model_validate_json(manifest.model_dump_json())
    assert fingerprint(again.settings) == manifest.fingerprint
    assert differences(again.settings, fields) == []


@in_its_own_time
@given(st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, min_size=1, max_size=3), max_size=4))
def test_nested_settings_become_dotted_fields(nested: dict[str, dict[str, FieldValue]]) -> None:
    assert flatten(nested) == {
        f"{outer}.{inner}": value for outer, fields in nested.items() for inner, value in fields.items()
    }


def test_lists_are_fields_of_their_own() -> None:
    assert flatten({"tools": {"qa": ["read"], "ingest": ("read", "write")}}) == {
        "tools.qa": json.dumps(["read"]),
        "tools.ingest": json.dumps(["read", "write"]),
    }


def test_differences_are_named_with_both_values() -> None:
    changed = differences({"a": 1, "b": "same", "c": True}, {"a": 2, "b": "same", "d": "x"})
    assert changed == [("a", 1, 2), ("c", True, None), ("d", None, "x")]
    assert describe_differences(changed[:1]) == "a (was 1, now 2)"


def test_a_number_is_not_a_truth_value() -> None:
    assert differences({"limit": 1}, {"limit": True}) == [("limit", 1, True)]


def test_a_setting_that_is_none_is_as_good_as_absent() -> None:
    assert differences({"a": 1}, {"a": 1, "b": None}) == []
