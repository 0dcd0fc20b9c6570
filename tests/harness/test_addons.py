"""Native code on the real runtime: the harness carries it in its executable, and copies it out to load it."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from guarded_runtime import guarded_runtime, one_after_the_other

from pytest_dshmem.harness.composition import Policy
from pytest_dshmem.harness.sandbox import IsolatedHome

pytestmark = pytest.mark.runtime


def no_tools(_home: IsolatedHome) -> Mapping[str, Policy]:
    return {"qa": Policy()}


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_an_addon_is_copied_out_alone_into_the_home(tmp_path: Path) -> None:
    with guarded_runtime(tmp_path, no_tools) as guarded:
        turn, _requests = guarded.turn("qa", one_after_the_other())

        assert turn.finish_reason == "completed"
        copies = list(guarded.home.temporary_folder.glob("addon-*"))
        assert [file.name for copy in copies for file in copy.iterdir()] == ["system.node"]
        assert files_below(guarded.home.native_cache) == []


def test_where_it_does_not_load_alone_the_executable_copies_out_all_around_it(tmp_path: Path) -> None:
    with guarded_runtime(tmp_path, no_tools) as guarded:
        shutil.rmtree(guarded.home.temporary_folder)
        turn, _requests = guarded.turn("qa", one_after_the_other())

        assert turn.finish_reason == "completed"
        assert len(files_below(guarded.home.native_cache)) > 1_000
