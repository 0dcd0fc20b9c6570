"""Profiles of memory systems: what a valid one means, and how an invalid one is refused."""

import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from memory_home import BUNDLED

from pytest_dshmem.harness.memory_system import (
    MemorySystem,
    ProfileError,
    bundled_names,
    load_memory_system,
)
from pytest_dshmem.harness.paths import HomePaths
from pytest_dshmem.harness.triggers import StatusEvidence

PATHS = HomePaths(home=Path("/h"), dsh_home=Path("/d"), workspace=Path("/w"))

PROFILE = """
name = "sample"
title = "A sample"
version = "1.0.0"
verified = true
rows = ["sample-row"]
memory_roots = ["notes"]
writes_during_qa = false
redirect_home = false

[install]
kind = "file"
row = "sample-row"
path = "plugin.mjs"
[install.config]
root = "{memory_root}"
nested = { deep = ["{model} by {provider}", 3, true, "a { brace"] }

[[state]]
name = "index"
base = "home"
path = ".sample"
kind = "sqlite"
[[state]]
name = "notes"
base = "dsh-home"
path = "notes"
kind = "markdown"
include = ["**/*.md"]
exclude = ["drafts/*"]

[tools]
ingest = ["read", "note"]
qa = ["read"]

[consolidation]
trigger = "none"

[usage]
metering = "unmetered"
"""


def write(folder: Path, profile: str = PROFILE) -> Path:
    (folder / "plugin.mjs").write_text("export const name = 'sample'\n", "utf-8")
    file = folder / "sample.toml"
    file.write_text(profile, "utf-8")
    return file


def load(folder: Path, profile: str = PROFILE) -> MemorySystem:
    return load_memory_system(str(write(folder, profile)), BUNDLED)


def refusal(folder: Path, profile: str) -> str:
    with pytest.raises(ProfileError) as refused:
        load(folder, profile)
    message = str(refused.value)
    assert message.startswith(f"{folder / 'sample.toml'}: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", bundled_names(BUNDLED))
def test_every_bundled_profile_is_valid_and_bears_its_file_name(name: str) -> None:
    system = load_memory_system(name, BUNDLED)
    assert system.name == name
    assert system.consolidates
    assert "read" in system.tools.qa
    assert system.tools.qa == ("read",), "what is asked may look, and do nothing else"


def test_the_bundled_profiles() -> None:
    assert bundled_names(BUNDLED) == ["hr98w-dsh-memory", "reference", "reference-web"]


def test_what_a_description_is_silent_about_is_marked_as_unverified() -> None:
    system = load_memory_system("hr98w-dsh-memory", BUNDLED)
    assert not system.verified
    assert any("consolidation.evidence" in item for item in system.unverified)


def test_rows_for_the_patch_have_their_placeholders_filled(tmp_path: Path) -> None:
    rows = load(tmp_path).patch_rows(PATHS, model="m", provider="p")
    assert rows == [
        {
            "id": "sample-row",
            "name": str(tmp_path / "plugin.mjs"),
            "config": {"root": "/d/notes", "nested": {"deep": ["m by p", 3, True, "a { brace"]}},
        }
    ]


def test_a_package_may_bring_its_own_rows(tmp_path: Path) -> None:
    start, end = PROFILE.index("[install]"), PROFILE.index("[[state]]")
    package = '[install]\nkind = "package"\npackage = "@a/b"\nversion = "1.2.3"\n'
    system = load(tmp_path, PROFILE[:start] + package + PROFILE[end:])
    assert system.patch_rows(PATHS, model="m", provider="p") == []
    assert system.plugin_file is None


def test_only_memory_roots_can_be_read(tmp_path: Path) -> None:
    assert load(tmp_path).readable_roots(PATHS) == (Path("/d/notes"),)


def test_state_is_what_is_included_and_not_excluded(tmp_path: Path) -> None:
    notes = tmp_path / "d" / "notes"
    for name in ("b.md", "a/c.md", "drafts/d.md", "e.txt"):
        (notes / name).parent.mkdir(parents=True, exist_ok=True)
        (notes / name).write_text("x", "utf-8")
    (notes / "link.md").symlink_to(notes / "b.md")
    paths = HomePaths(home=tmp_path / "h", dsh_home=tmp_path / "d", workspace=tmp_path / "w")
    index, root = load(tmp_path).state
    assert root.files(paths) == (PurePosixPath("a/c.md"), PurePosixPath("b.md"))
    assert index.files(paths) == ()


def test_the_fingerprint_covers_the_profile_and_every_file_of_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "plugin").mkdir()
    profile = PROFILE.replace('"plugin.mjs"', '"plugin/main.mjs"')
    for name in ("main.mjs", "store.mjs"):
        (tmp_path / "plugin" / name).write_text("1", "utf-8")
    first = load(tmp_path, profile).fingerprint()
    assert load(tmp_path, profile).fingerprint() == first

    (tmp_path / "plugin" / "store.mjs").write_text("2", "utf-8")
    second = load(tmp_path, profile).fingerprint()
    third = load(tmp_path, profile.replace("A sample", "Another")).fingerprint()
    assert len({first, second, third}) == 3


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        ProfileError, match=r"no memory system 'nope'.*hr98w-dsh-memory, reference, reference-web"
    ):
        load_memory_system("nope", BUNDLED)


def test_a_profile_is_found_by_its_path_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    system = load_memory_system("sample.toml", BUNDLED)
    monkeypatch.chdir("/")
    assert system.plugin_file == tmp_path / "plugin.mjs"
    assert system.fingerprint()


def test_a_profile_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sample.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ProfileError, match="the profile cannot be read"):
        load_memory_system(str(tmp_path / "sample.toml"), BUNDLED)


def test_a_plugin_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    message = refusal(tmp_path, PROFILE.replace('"plugin.mjs"', '"other.mjs"'))
    assert message.endswith(f"install.path: there is no plugin file {tmp_path / 'other.mjs'}")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('name = "sample"\n', "name = \n", "not valid TOML"),
        ('title = "A sample"\n', "", "title: Field required"),
        (
            'title = "A sample"\n',
            'titel = "A sample"\ntitle = "A"\n',
            "titel: Extra inputs are not permitted",
        ),
        ("verified = true", 'verified = "maybe"', "verified: Input should be a valid boolean"),
        ("verified = true", "verified = false", "an unverified profile must say what is unverified"),
        ("verified = true", 'verified = true\nunverified = ["x"]', "a verified profile cannot list"),
        ('rows = ["sample-row"]', "rows = []", "rows: Tuple should have at least 1 item"),
        ('rows = ["sample-row"]', 'rows = ["x"]', "rows: the installed row 'sample-row' is missing"),
        ('kind = "file"', 'kind = "magic"', "install: "),
        ('"{memory_root}"', '"{memory}"', "install.config: {memory} is not a placeholder"),
        ('memory_roots = ["notes"]', "memory_roots = []", "{memory_root} needs a state root"),
        ('memory_roots = ["notes"]', 'memory_roots = ["x"]', "there is no state root named 'x'"),
        ('name = "index"', 'name = "notes"', "state: two roots are named 'notes'"),
        ('path = ".sample"', 'path = "../x"', "'../x' must be a relative path without '..'"),
        ('path = ".sample"', 'path = "/x"', "'/x' must be a relative path without '..'"),
        ('base = "home"', 'base = "root"', "state.0.base: Input should be 'dsh-home', 'home' or 'workspace'"),
        ('trigger = "none"', 'trigger = "telepathy"', "consolidation: "),
        ('trigger = "none"', 'trigger = "jsonrpc"', "consolidation.jsonrpc.method: Field required"),
        ('metering = "unmetered"', 'metering = "free"', "usage.metering: "),
    ],
)
def test_an_invalid_profile_names_the_key_and_the_reason(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    assert old in PROFILE
    assert reason in refusal(tmp_path, PROFILE.replace(old, new, 1))


STATUS = 'evidence = {kind = "status", committed = ["ok"]}'


@pytest.mark.parametrize(
    ("trigger", "reason"),
    [
        (
            'trigger = "command"\ncommand = ["{secret}"]\ntimeout_seconds = 1\n'
            'evidence = {kind = "exit-status"}',
            "consolidation.command: {secret} is not a placeholder",
        ),
        (
            f'trigger = "http"\nendpoint_file = "{{model}}"\nroute = "/r"\ntimeout_seconds = 1\n{STATUS}',
            "consolidation.endpoint_file: {model} is not a placeholder",
        ),
        (
            f'trigger = "automatic"\ntimeout_seconds = 1\n{STATUS}',
            "consolidation.automatic.evidence: ",
        ),
        (
            'trigger = "jsonrpc"\nmethod = "m"\ntimeout_seconds = 1\n'
            'evidence = {kind = "status", committed = ["ok"], failed = ["ok"]}',
            "the status word 'ok' has two meanings",
        ),
        (
            f'trigger = "jsonrpc"\nmethod = "m"\ntimeout_seconds = 0\n{STATUS}',
            "consolidation.jsonrpc.timeout_seconds: Input should be greater than 0",
        ),
        (
            f'trigger = "web-route"\nroute = "r"\ntimeout_seconds = 1\n{STATUS}',
            "consolidation.web-route.route: ",
        ),
    ],
)
def test_an_invalid_trigger_is_refused(tmp_path: Path, trigger: str, reason: str) -> None:
    assert reason in refusal(tmp_path, PROFILE.replace('trigger = "none"', trigger))


def test_a_profile_cannot_be_changed(tmp_path: Path) -> None:
    system: Any = load(tmp_path)
    with pytest.raises(ValueError, match="frozen"):
        system.name = "other"


def test_both_reference_profiles_differ_in_their_trigger_only() -> None:
    one, other = (
        tomllib.loads((BUNDLED / f"{name}.toml").read_text("utf-8"))
        for name in ("reference", "reference-web")
    )
    assert {key for key in one if one[key] != other[key]} == {"name", "title", "install", "consolidation"}
    assert one["install"]["path"] == other["install"]["path"]
    assert one["consolidation"]["evidence"] == other["consolidation"]["evidence"]


def test_a_status_word_has_one_meaning_or_none() -> None:
    evidence = StatusEvidence(kind="status", committed=("done",), no_change=("same",), failed=("broken",))
    assert [evidence.meaning(word) for word in ("done", "same", "broken", "??")] == [
        "committed",
        "no-change",
        "failed",
        None,
    ]
