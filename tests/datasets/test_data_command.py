"""`dshmem data`: exit statuses and what is printed."""

import argparse
import hashlib
from pathlib import Path

import pytest

from pytest_dshmem.command import data
from pytest_dshmem.datasets import fetch as fetching
from pytest_dshmem.datasets.catalog import PUBLISHED, Published
from pytest_dshmem.datasets.fetch import Progress
from pytest_dshmem.datasets.views import DataError

ENTRY = Published(
    "locomo", "locomo", "f.json", "http://nowhere", 4, hashlib.sha256(b"good").hexdigest(), "free"
)


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    data.add_data_commands(parser.add_subparsers())
    arguments = parser.parse_args(["data", *words])
    status = arguments.run(arguments)
    assert isinstance(status, int)
    return status


@pytest.fixture(autouse=True)
def one_small_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fetching, "PUBLISHED", (ENTRY,))
    monkeypatch.setenv("DSHMEM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DSHMEM_DATA", raising=False)


def test_fetch_goes_to_the_cache_or_where_it_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def arrive(entry: Published, folder: Path, progress: Progress) -> Path:
        for arrived in range(0, 101):
            progress(arrived, 100)
        return folder / entry.file_name

    monkeypatch.setattr(data, "fetch", arrive)
    assert run("fetch", "locomo") == 0
    shown = capsys.readouterr()
    assert str(tmp_path / "cache" / "locomo10.json") in shown.out
    assert "\r" not in shown.err
    assert len(shown.err.splitlines()) == 11
    assert run("fetch", "locomo", "--to", str(tmp_path / "there")) == 0
    assert str(tmp_path / "there" / "locomo10.json") in capsys.readouterr().out


def test_a_failed_fetch_exits_1_with_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(entry: Published, *_: object) -> Path:
        raise DataError(f"{entry.name} could not be downloaded.")

    monkeypatch.setattr(data, "fetch", fail)
    assert run("fetch", "locomo") == 1
    assert capsys.readouterr().err == "dshmem: locomo could not be downloaded.\n"


def test_an_unknown_name_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run("fetch", "lokomo")
    assert "longmemeval-oracle" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "status", "said"), [(b"good", 0, "good"), (b"evil", 1, "WRONG HASH"), (None, 1, "absent")]
)
def test_verify_exits_by_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, status: int, said: str
) -> None:
    if content is not None:
        (tmp_path / "f.json").write_bytes(content)
    assert run("verify", "--in", str(tmp_path)) == status
    shown = capsys.readouterr()
    assert said in shown.out
    assert ("dshmem data fetch NAME" in shown.err) == (content is None)


def test_list_shows_pin_and_licence_of_every_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    shown = capsys.readouterr().out
    for entry in PUBLISHED:
        assert entry.sha256 in shown
        assert entry.licence in shown
