"""Where data files are found, and which of them may be used."""

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_dshmem.bundled import bundled_path
from pytest_dshmem.datasets import cache, catalog
from pytest_dshmem.datasets.cache import cache_folder, file_sha256
from pytest_dshmem.datasets.catalog import PUBLISHED, locate, open_benchmark, published
from pytest_dshmem.datasets.views import DataError

Json = dict[str, Any]
Environment = dict[str, str]


def place(folder: Path, name: str = "locomo10.json", text: str = "[]") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def test_a_given_folder_is_the_only_place(tmp_path: Path, environment: Environment) -> None:
    place(tmp_path / "cache")
    environment["DSHMEM_DATA"] = str(place(tmp_path / "named").parent)
    path = place(tmp_path / "given" / "locomo")
    assert locate("locomo", tmp_path / "given", environment) == path
    assert locate("locomo", path, environment) == path
    with pytest.raises(DataError, match="dshmem data fetch locomo --to"):
        locate("locomo", tmp_path / "empty", environment)


def test_the_named_folder_comes_before_the_cache(tmp_path: Path, environment: Environment) -> None:
    cached = place(tmp_path / "cache")
    environment["DSHMEM_DATA"] = str(tmp_path / "named")
    assert locate("locomo", None, environment) == cached
    named = place(tmp_path / "named")
    assert locate("locomo", None, environment) == named


def test_an_absent_file_names_the_command_that_downloads_it(environment: Environment) -> None:
    for entry in PUBLISHED:
        with pytest.raises(DataError, match=f"`dshmem data fetch {entry.name}`"):
            locate(entry.name, None, environment)


def test_the_cache_folder_follows_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder({"HOME": "/h"}) == Path("/h/.cache/pytest-dshmem")
    assert cache_folder({"HOME": "/h", "XDG_CACHE_HOME": "/x"}) == Path("/x/pytest-dshmem")
    assert cache_folder({"HOME": "/h", "XDG_CACHE_HOME": "relative"}) == Path("/h/.cache/pytest-dshmem")
    assert cache_folder({"HOME": "/h", "DSHMEM_CACHE": "/c"}) == Path("/c")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder({"HOME": "/h"}) == Path("/h/Library/Caches/pytest-dshmem")


def test_another_content_is_refused_with_both_hashes(
    tmp_path: Path, environment: Environment, chat: Json
) -> None:
    path = place(tmp_path / "given", text=json.dumps([chat]))
    with pytest.raises(DataError) as raised:
        open_benchmark("locomo", folder=path, environment=environment)
    actual = hashlib.sha256(path.read_bytes()).hexdigest()
    for part in (actual, published("locomo").sha256, "--dshmem-allow-unpinned"):
        assert part in str(raised.value)


def test_another_content_runs_when_allowed_and_says_so(
    tmp_path: Path, environment: Environment, chat: Json
) -> None:
    path = place(tmp_path / "given", text=json.dumps([chat]))
    benchmark = open_benchmark("locomo", folder=path, allow_unpinned=True, environment=environment)
    assert not benchmark.file.pinned
    assert not benchmark.file.sample_corpus
    assert len(benchmark.listings()) == 2


def test_the_published_content_is_pinned(
    tmp_path: Path, environment: Environment, chat: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place(tmp_path / "given", text=json.dumps([chat]))
    entry = catalog._locomo("locomo10.json", path.stat().st_size, file_sha256(path))
    monkeypatch.setattr(catalog, "PUBLISHED", (entry,))
    assert open_benchmark("locomo", folder=path, environment=environment).file.pinned


def test_a_published_file_is_not_taken_for_another_variant(
    tmp_path: Path, environment: Environment, instance: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place(tmp_path / "given", text=json.dumps([instance]))
    oracle = catalog._longmemeval("oracle", "o.json", path.stat().st_size, file_sha256(path))
    monkeypatch.setattr(catalog, "PUBLISHED", (oracle, published("longmemeval-s")))
    for allow in (False, True):
        with pytest.raises(DataError, match="is the published longmemeval-oracle, not longmemeval-s"):
            open_benchmark("longmemeval", folder=path, allow_unpinned=allow, environment=environment)


@pytest.mark.parametrize(
    ("name", "options", "named"),
    [("lokomo", {}, "'lokomo'"), ("longmemeval", {"variant": "xl"}, "'xl'")],
)
def test_an_unknown_name_lists_the_known_ones(
    environment: Environment, name: str, options: Json, named: str
) -> None:
    with pytest.raises(DataError, match=f"{named}: choose one of"):
        open_benchmark(name, environment=environment, **options)


@pytest.mark.parametrize("name", ["locomo", "longmemeval"])
def test_a_sample_corpus_opens_on_a_fresh_machine_and_leaves_nothing(
    tmp_path: Path, environment: Environment, name: str
) -> None:
    benchmark = open_benchmark(name, sample_corpus=True, environment=environment)
    assert benchmark.file.sample_corpus
    assert not benchmark.file.pinned
    assert benchmark.listings()
    assert list(tmp_path.iterdir()) == []


def test_a_hash_is_remembered_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place(tmp_path / "data", text="one")
    first = file_sha256(path, tmp_path / "cache")
    assert first == hashlib.sha256(b"one").hexdigest()
    with monkeypatch.context() as patched:
        patched.setattr(cache, "_hash", lambda _: pytest.fail("read again"))
        assert file_sha256(path, tmp_path / "cache") == first
    path.write_text("two!")
    assert file_sha256(path, tmp_path / "cache") == hashlib.sha256(b"two!").hexdigest()


def test_a_damaged_remembered_hash_is_computed_anew(tmp_path: Path) -> None:
    path = place(tmp_path / "data", text="one")
    first = file_sha256(path, tmp_path / "cache")
    (kept,) = (tmp_path / "cache" / "hashes").iterdir()
    kept.write_bytes(b"\xff" * 64)
    assert file_sha256(path, tmp_path / "cache") == first
    assert kept.read_text().strip() == first


def test_bundled_files_are_found_inside_and_beside_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pytest_dshmem.bundled as bundled

    for fixtures in (tmp_path / "package" / "fixtures", tmp_path / "fixtures"):
        fixtures.mkdir(parents=True)
        shutil.copy(bundled_path("corpora", "locomo-sample.json"), fixtures / "sample.json")
    monkeypatch.setattr(bundled, "_PACKAGE", tmp_path / "package")
    assert bundled_path("sample.json") == tmp_path / "package" / "fixtures" / "sample.json"
    shutil.rmtree(tmp_path / "package")
    assert bundled_path("sample.json") == tmp_path / "fixtures" / "sample.json"
    with pytest.raises(FileNotFoundError, match="install pytest-dshmem again"):
        bundled_path("nothing.json")
