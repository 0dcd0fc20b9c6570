"""Where the model's credential comes from: the environment, or a DSH home that is read and never written."""

from pathlib import Path

import pytest
from guarded_runtime import tree_of

from pytest_dshmem.harness.endpoint import (
    Endpoint,
    HarnessError,
    SourceHome,
    read_source_home,
    resolve_endpoint,
)

SECRET = "sk-very-secret"


def source_home(folder: Path, **files: str) -> Path:
    """A DSH home with these files; `/` in a path is written `__`."""
    names = {"credentials": ".credentials.yaml", "dotenv": ".env", "profile": "profiles/sdk/cordis.patch.yml"}
    for name, text in files.items():
        path = folder / names[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def test_credential_and_default_model_are_taken_and_nothing_is_written(tmp_path: Path) -> None:
    home = source_home(
        tmp_path,
        credentials=f"version: 1\nrefs:\n  OTHER: x\n  DEEPSEEK_API_KEY: {SECRET}\n",
        profile="- id: agent-default-model\n  config: { model: some-model }\n- id: other\n  disabled: true\n",
    )
    before = tree_of(home)

    assert read_source_home(home) == SourceHome(api_key=SECRET, model="some-model")
    assert tree_of(home) == before


@pytest.mark.parametrize(
    "line",
    [f"DEEPSEEK_API_KEY={SECRET}", f'export DEEPSEEK_API_KEY="{SECRET}"', f"  DEEPSEEK_API_KEY = '{SECRET}'"],
)
def test_a_credential_in_a_dotenv_file_is_found(tmp_path: Path, line: str) -> None:
    home = source_home(tmp_path, dotenv=f"# mine\nOTHER=1\n{line}\n")
    assert read_source_home(home).api_key == SECRET


def test_the_credential_store_wins_over_the_dotenv_file(tmp_path: Path) -> None:
    home = source_home(
        tmp_path, credentials="refs: { DEEPSEEK_API_KEY: stored }\n", dotenv="DEEPSEEK_API_KEY=dotenv\n"
    )
    assert read_source_home(home).api_key == "stored"


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"credentials": ""},
        {"credentials": "refs: 7\n"},
        {"credentials": "- a list\n"},
        {"dotenv": "DEEPSEEK_API_KEY=\n"},
        {"profile": "not: rows\n"},
        {"profile": "- id: agent-default-model\n"},
    ],
)
def test_a_home_without_either_gives_neither(tmp_path: Path, files: dict[str, str]) -> None:
    assert read_source_home(source_home(tmp_path, **files)) == SourceHome(api_key=None, model=None)


def test_expressions_in_a_profile_are_text_and_never_run(tmp_path: Path) -> None:
    profile = '- id: agent-default-model\n  config: { model: !!js "process.exit(1)" }\n'
    assert read_source_home(source_home(tmp_path, profile=profile)).model == "process.exit(1)"


def test_broken_yaml_is_a_sentence_with_file_and_line_and_without_the_secret(tmp_path: Path) -> None:
    home = source_home(tmp_path, credentials=f"refs:\n  DEEPSEEK_API_KEY: [{SECRET}\n: :\n")

    with pytest.raises(HarnessError) as refused:
        read_source_home(home)

    sentence = str(refused.value)
    assert sentence.startswith(f"{home / '.credentials.yaml'} is not valid YAML at line ")
    assert SECRET not in sentence
    assert refused.value.__cause__ is None


def test_a_file_that_is_no_text_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / ".credentials.yaml").write_bytes(b"\xff\xfe\x00broken")
    with pytest.raises(HarnessError, match=r"cannot read .*\.credentials\.yaml"):
        read_source_home(tmp_path)


def test_a_source_home_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="is not a folder"):
        read_source_home(tmp_path / "none")


def test_the_environment_s_credential_wins_over_the_source_home() -> None:
    source = SourceHome(api_key="from-home", model=None)
    endpoint = resolve_endpoint({"DEEPSEEK_API_KEY": "from-environment"}, base_url=None, source=source)
    assert endpoint.api_key == "from-environment"
    assert resolve_endpoint({}, base_url=None, source=source).api_key == "from-home"


def test_a_base_url_that_is_given_wins_over_the_environment_s() -> None:
    environment = {"DEEPSEEK_API_KEY": SECRET, "DEEPSEEK_BASE_URL": "http://127.0.0.1:1"}
    assert resolve_endpoint(environment, base_url=None, source=None).base_url == "http://127.0.0.1:1"
    given = resolve_endpoint(environment, base_url="http://127.0.0.1:2", source=None)
    assert given.environment()["DEEPSEEK_BASE_URL"] == "http://127.0.0.1:2"


@pytest.mark.parametrize("environment", [{}, {"DEEPSEEK_API_KEY": ""}])
@pytest.mark.parametrize("source", [None, SourceHome(api_key=None, model="m")])
def test_without_a_credential_there_is_a_sentence_that_says_what_to_do(
    environment: dict[str, str], source: SourceHome | None
) -> None:
    with pytest.raises(HarnessError, match=r"set DEEPSEEK_API_KEY, or name a DSH home .* or use --offline"):
        resolve_endpoint(environment, base_url=None, source=source)


def test_no_representation_shows_the_key() -> None:
    assert SECRET not in repr(Endpoint(api_key=SECRET))
    assert SECRET not in repr(SourceHome(api_key=SECRET, model=None))
