"""History shows runs of one configuration together, oldest first, with their drift."""

from pathlib import Path

import pytest
from synthetic_run import synthetic_run

from pytest_dshmem.record.entries import QuestionKey
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.record.run_directory import RunDirectory
from pytest_dshmem.report.history import history
from pytest_dshmem.report.history_text import history_lines
from pytest_dshmem.report.lines import WIDTH, columns


def dated(run: RunDirectory, created_at: float) -> None:
    manifest = run.manifest.model_copy(update={"created_at": created_at})
    run.manifest_path.write_text(manifest.model_dump_json())


def nothing(key: QuestionKey) -> bool:
    return key.question_id.endswith("q001") and key.condition == "baseline"


def test_the_same_configuration_is_one_series_in_time_order(tmp_path: Path) -> None:
    dated(synthetic_run(tmp_path / "later"), 2_000.0)
    dated(synthetic_run(tmp_path / "deep" / "earlier", correct=nothing), 1_000.0)
    dated(synthetic_run(tmp_path / "other", settings={"model.name": "another"}), 3_000.0)
    found = history([tmp_path])
    assert len(found.series) == 4
    series = next(one for one in found.series if one.configuration.group.condition == "memory-consolidate")
    assert [occasion.path.name for occasion in series.occasions] == ["earlier", "later"]
    assert [occasion.accuracy for occasion in series.occasions] == [0.0, 8 / 12]
    assert series.occasions[0].drift is None
    drift = series.occasions[1].drift
    assert drift is not None
    assert (drift.only_a, drift.only_b) == (0, 8)


def test_another_protocol_or_selection_is_another_configuration(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "a", conditions=("memory",))
    synthetic_run(tmp_path / "b", conditions=("memory",), protocol="dshmem-binary-9-000000000000")
    synthetic_run(tmp_path / "c", conditions=("memory",), trouble=True)
    assert [len(series.occasions) for series in history([tmp_path]).series] == [1, 1, 1]


def test_a_broken_run_is_named_and_stops_nothing(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "good", conditions=("memory",))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    found = history([tmp_path])
    assert len(found.series) == 1
    assert "broken/run.json cannot be read as a run's manifest" in found.unreadable[0]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="is not a folder"):
        history([tmp_path / "nowhere"])


def test_the_text_fits_the_terminal(tmp_path: Path) -> None:
    synthetic_run(tmp_path / ("long-name-" * 12), conditions=("memory",))
    synthetic_run(tmp_path / "b", conditions=("memory",), correct=nothing)
    lines = history_lines(history([tmp_path]))
    assert max(columns(line.text) for line in lines) <= WIDTH
    text = " ".join(" ".join(line.text for line in lines).split())
    assert "+66.7 (p 0.008)" in text or "-66.7 (p 0.008)" in text
    assert "66.7 points apart; fewer than three make no trend" in text
