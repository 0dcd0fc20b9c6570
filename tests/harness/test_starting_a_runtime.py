"""Starting the real runtime: it is the one that was asked for, whole and guarded, or it is none at all."""

import dataclasses
import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from guarded_runtime import API_KEY, MODEL, runtimes_under

from pytest_dshmem.harness import composition as composition_module
from pytest_dshmem.harness.composition import Composition, Policy
from pytest_dshmem.harness.endpoint import Endpoint, HarnessError
from pytest_dshmem.harness.runtime import Deadlines, Runtime, RuntimeLost
from pytest_dshmem.harness.sandbox import IsolatedHome, Sandbox

pytestmark = pytest.mark.runtime

NEVER_READY = """
export const name = 'slow'
export async function apply() { await new Promise((done) => setTimeout(done, 600000)) }
"""
WORKS = "export const name = 'good'\nexport function apply() {}\n"


@pytest.fixture
def home(tmp_path: Path) -> IsolatedHome:
    return Sandbox(tmp_path / "sandbox").home("formation", "ingest")


def with_plugin(folder: Path, source: str, config: Mapping[str, Any] | None = None) -> Composition:
    """A composition with one memory plugin of this source."""
    plugin = folder / "plugin.mjs"
    plugin.write_text(source, "utf-8")
    return Composition(
        endpoint=Endpoint(api_key=API_KEY, base_url="http://127.0.0.1:9/v1"),
        model=MODEL,
        policies={"qa": Policy()},
        memory_rows=[{"id": "some-memory", "name": str(plugin), "config": dict(config or {})}],
        required_rows=("some-memory",),
    )


def refusal(home: IsolatedHome, composition: Composition, seconds: float = 60.0) -> str:
    """Why a runtime was not started; no process is left of it."""
    with pytest.raises(HarnessError) as refused:
        Runtime.start(home, composition, Deadlines(start=seconds)).close()
    assert runtimes_under(home.paths.dsh_home) == []
    sentence = str(refused.value)
    assert "\n" not in sentence
    assert "Traceback" not in sentence
    assert API_KEY not in sentence
    assert str(home.runtime_folder.parent.parent) not in sentence, "a record may be published"
    return sentence


def test_a_plugin_with_a_syntax_error_is_named(home: IsolatedHome, tmp_path: Path) -> None:
    sentence = refusal(home, with_plugin(tmp_path, "export const name = \n"))
    assert "not active in the harness: some-memory" in sentence
    assert "SyntaxError" in sentence


def test_a_plugin_that_refuses_its_config_is_named_with_the_reason(
    home: IsolatedHome, tmp_path: Path
) -> None:
    strict = """
        export const name = 'strict'
        const validate = () => ({ issues: [{ message: 'unknown key colour', path: ['colour'] }] })
        export const Config = { '~standard': { version: 1, vendor: 'test', validate } }
        export function apply() {}
    """
    sentence = refusal(home, with_plugin(tmp_path, strict, {"colour": "red"}))
    assert "some-memory" in sentence
    assert "unknown key colour" in sentence


def test_a_plugin_that_waits_for_a_missing_service_is_named(home: IsolatedHome, tmp_path: Path) -> None:
    waiting = "export const name = 'waiting'\nexport const inject = ['teapot']\nexport function apply() {}\n"
    sentence = refusal(home, with_plugin(tmp_path, waiting))
    assert "some-memory" in sentence
    assert "teapot" in sentence


def test_a_plugin_that_throws_when_it_starts_is_named(home: IsolatedHome, tmp_path: Path) -> None:
    throwing = "export const name = 'bad'\nexport function apply() { throw new Error('no teapot here') }\n"
    sentence = refusal(home, with_plugin(tmp_path, throwing))
    assert "some-memory" in sentence
    assert "no teapot here" in sentence


def test_a_row_that_should_be_there_and_is_not_is_named(home: IsolatedHome, tmp_path: Path) -> None:
    composition = with_plugin(tmp_path, WORKS)
    incomplete = dataclasses.replace(composition, required_rows=("some-memory", "its-second-half"))
    assert "not active in the harness: its-second-half" in refusal(home, incomplete)


def test_without_the_guard_nothing_starts(
    home: IsolatedHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Composition._rows

    def without_guard(self: Composition, home: IsolatedHome, nonce: str) -> list[dict[str, Any]]:
        kept = json.loads(json.dumps(rows(self, home, nonce)))
        for row in kept:
            row["insert"] = [one for one in row.get("insert", []) if one["id"] != "dshmem-guard"]
        return [row if row["insert"] else {key: row[key] for key in row if key != "insert"} for row in kept]

    monkeypatch.setattr(composition_module.Composition, "_rows", without_guard)

    sentence = refusal(home, with_plugin(tmp_path, WORKS), seconds=20.0)

    assert sentence.startswith("DeepSeek Harness did not start: ")


def test_a_guard_with_a_policy_that_makes_no_sense_does_not_start(home: IsolatedHome, tmp_path: Path) -> None:
    senseless = dataclasses.replace(with_plugin(tmp_path, WORKS), policies={"qa": Policy(max_steps=0)})
    sentence = refusal(home, senseless, seconds=20.0)
    assert "dshmem-guard" in sentence
    assert "qa: maxSteps must be at least 1" in sentence


def test_a_start_that_takes_too_long_is_given_up(home: IsolatedHome, tmp_path: Path) -> None:
    sentence = refusal(home, with_plugin(tmp_path, NEVER_READY), seconds=2.0)
    assert sentence.startswith("DeepSeek Harness did not start: ")


def test_one_that_is_still_starting_can_be_killed(home: IsolatedHome, tmp_path: Path) -> None:
    born: list[Runtime] = []

    def kill() -> None:
        end = time.monotonic() + 30.0
        while not (home.process_file.exists() and home.process_file.read_text("ascii")):
            assert time.monotonic() < end
            time.sleep(0.05)
        born[0].kill()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    began = time.monotonic()
    with pytest.raises(RuntimeLost):
        Runtime.start(home, with_plugin(tmp_path, NEVER_READY), Deadlines(start=120.0), born.append)
    killer.join(30.0)

    assert time.monotonic() - began < 60.0, "it was not waited for"
    assert runtimes_under(home.paths.dsh_home) == []
    born[0].kill()  # does nothing any more: the number may be another process's by now


def test_one_that_does_not_answer_has_not_started_and_was_not_killed_by_others(
    home: IsolatedHome, tmp_path: Path
) -> None:
    at_once = Deadlines(start=60.0, request=0.000_1)
    with pytest.raises(HarnessError, match="DeepSeek Harness did not start: "):
        Runtime.start(home, with_plugin(tmp_path, WORKS), at_once)
    assert runtimes_under(home.paths.dsh_home) == []


def test_what_a_plugin_starts_does_not_inherit_the_runtimes_own_options(
    home: IsolatedHome, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    asks = """
        import { execFileSync } from 'node:child_process'
        import { writeFileSync } from 'node:fs'
        export const name = 'asks'
        export const inject = ['dshmemGuard']
        export function apply(ctx, config) {
          writeFileSync(config.file, execFileSync('/bin/sh', ['-c', 'echo "options: $NODE_OPTIONS"']))
        }
    """
    with Runtime.start(home, with_plugin(tmp_path, asks, {"file": str(seen)})):
        pass
    assert seen.read_text("utf-8") == "options: \n"


def test_what_an_earlier_start_complained_of_is_forgotten(home: IsolatedHome, tmp_path: Path) -> None:
    refusal(home, with_plugin(tmp_path, "export const name = \n"))

    with Runtime.start(home, with_plugin(tmp_path, WORKS)) as runtime:
        assert runtime.resident_bytes() > 0
    assert runtimes_under(home.paths.dsh_home) == []
