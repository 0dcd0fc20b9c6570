"""A reading holds what the records say: the latest of each key, every attempt, every state."""

from pathlib import Path

import pytest
from synthetic_run import (
    CATEGORIES,
    FAILING_SAMPLE,
    PROTOCOL,
    TROUBLED_SAMPLE,
    answer,
    question_id,
    synthetic_run,
    verdict,
)

from pytest_dshmem.record.entries import QuestionKey
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.report.reading import Group, RunReading, read_run

OTHER_PROTOCOL = "custom-1-fedcba987654"


def memory_key(sample: str, number: int) -> QuestionKey:
    return QuestionKey(question_id=question_id(sample, number), condition="memory-consolidate")


def states(reading: RunReading, sample: str) -> list[str]:
    return [reading.state_of(chosen) for chosen in reading.selected if chosen.sample_id == sample]


def test_every_state_of_a_question_has_its_name(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "run", trouble=True)
    reading = read_run(tmp_path / "run")
    assert states(reading, TROUBLED_SAMPLE) == [
        "error",
        "timeout",
        "empty",
        "missing",
        "answered",
        "answered",
    ]
    assert states(reading, FAILING_SAMPLE) == ["not-formed"]
    assert set(states(reading, "orchard")) == {"answered"}


def test_the_latest_record_of_a_key_counts_and_all_attempts_are_kept(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "run", trouble=True)
    reading = read_run(tmp_path / "run")
    key = memory_key(TROUBLED_SAMPLE, 1)
    assert [h.attempt for h in reading.all_hypotheses if h.key == key] == [1, 2]
    assert reading.hypotheses[key].attempt == 2


def test_conditions_repeats_and_categories_come_in_the_order_of_the_run(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "run", conditions=("memory", "baseline"), repeats=2)
    reading = read_run(tmp_path / "run")
    assert reading.conditions == ("memory", "baseline")
    assert reading.groups == (
        Group("memory", 1),
        Group("baseline", 1),
        Group("memory", 2),
        Group("baseline", 2),
    )
    assert reading.categories == CATEGORIES


def test_a_reading_of_each_group_adds_up_to_the_whole(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "run", repeats=2, trouble=True)
    reading = read_run(tmp_path / "run")
    parts = [reading.of(group) for group in reading.groups]
    assert len(parts) == 4
    for name in ("selected", "all_ingestions", "all_consolidations", "all_formations", "all_hypotheses"):
        assert sum(len(getattr(part, name)) for part in parts) == len(getattr(reading, name)) > 0
    assert sum(len(part.verdicts) for part in parts) == len(reading.verdicts) > 0
    assert all({chosen.key.repeat for chosen in part.selected} in ({1}, {2}) for part in parts)


def test_the_protocol_is_the_one_used_last_unless_named(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run")
    key = memory_key("orchard", 1)
    text = read_run(tmp_path / "run").hypotheses[key].hypothesis
    run.verdicts.append(verdict(key, OTHER_PROTOCOL, text, False))
    last = read_run(tmp_path / "run")
    assert last.protocols == (PROTOCOL, OTHER_PROTOCOL)
    assert last.protocol == OTHER_PROTOCOL
    assert list(last.verdicts) == [key]
    assert len(read_run(tmp_path / "run", PROTOCOL).verdicts) == 24


def test_a_verdict_on_an_earlier_answer_does_not_count_for_the_present_one(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run")
    key = memory_key("orchard", 1)
    assert key in read_run(tmp_path / "run").verdicts
    run.hypotheses.append(answer(key, "orchard", "a spirit level, I think"))
    assert key not in read_run(tmp_path / "run").verdicts
    assert len(read_run(tmp_path / "run").verdicts) == 23


def test_without_texts_the_latest_verdict_counts(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run")
    run.references.path.unlink()
    assert len(read_run(tmp_path / "run").verdicts) == 24


def test_an_unjudged_run_has_no_protocol_and_no_verdicts(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "run", judged=False)
    reading = read_run(tmp_path / "run")
    assert reading.protocol is None
    assert not reading.verdicts


def test_lines_that_a_crash_cut_short_are_counted_by_file(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run")
    with run.hypotheses.path.open("a") as file:
        file.write('{"key": {"question_')
    assert read_run(tmp_path / "run").torn == {"qa.jsonl": 1}


def test_a_folder_without_a_run_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="holds no run"):
        read_run(tmp_path)


def test_a_setting_is_found_in_settings_and_in_facts(tmp_path: Path) -> None:
    synthetic_run(tmp_path / "run", facts={"machine": {"cores": 2}})
    reading = read_run(tmp_path / "run")
    assert reading.setting("benchmark") == "locomo"
    assert reading.setting("machine.cores") == 2
    assert reading.setting("unheard.of") is None
