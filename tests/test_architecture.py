"""The house rules: what may import what, which view goes to whom, and how a file looks."""

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "pytest_dshmem"

FACES = {"face", "command", "plugin", "hookspecs"}
MAY_IMPORT: dict[str, set[str]] = {
    "datasets": {"bundled"},
    "record": set(),
    "harness": {"record"},
    "experiment": {"harness", "record", "datasets"},
    "report": {"experiment", "record", "datasets"},
    "offline": {"bundled"},
    "bundled": set(),
    **{
        face: {*FACES, "report", "experiment", "harness", "record", "datasets", "offline", "bundled"}
        for face in FACES
    },
}
"""Layers, lowest first, with the layers below that each may use; every layer may use itself."""

KNOWS_PYTEST = {"face", "plugin", "hookspecs"}
HEAVY = ("pydantic", "openai", "tiktoken", "deepseek_harness", "deepseek_harness_runtime", "filelock", "yaml")
VIEWS_BY_MODULE = {
    "experiment/formation.py": {"History", "Session"},
    "experiment/ingestion.py": {"History", "Session", "Setting"},
    "experiment/asking.py": {"History", "Question"},
}
SEALED_VIEWS = {"History", "Question", "Reference"}
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "manager", "common", "misc", "tools"}
LONGEST_FILE = 500
STATEMENTS_OF_A_HOOK = 3
SOURCE = {".py", ".mjs"}
TEXT = {*SOURCE, ".md", ".toml", ".txt", ".yml", ".yaml", ".json", ".cfg", ""}
OF_THE_MACHINE = [f"/{folder}/" for folder in ("work", "root", "tmp/scratch")]


@dataclass(frozen=True, slots=True)
class Import:
    """One import, wherever it stands: in a module, in a function, or for the type checker only."""

    file: str
    line: int
    module: str
    names: tuple[str, ...]

    @property
    def layers(self) -> set[str]:
        """The layers of ours that it reaches into; none for what is not ours."""
        package, *parts = self.module.split(".")
        if package != "pytest_dshmem":
            return set()
        return {parts[0]} if parts else {name for name in self.names if not name.startswith("__")}

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module} ({', '.join(self.names)})"


def modules() -> list[Path]:
    found = sorted(PACKAGE.rglob("*.py"))
    assert len(found) > 50
    return found


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@functools.cache
def imports_of(path: Path) -> tuple[Import, ...]:
    return tuple(_imports_of(path))


def _imports_of(path: Path) -> Iterator[Import]:
    file = path.relative_to(PACKAGE).as_posix()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(file, node.lineno, alias.name, (alias.name,))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: an import says where it comes from"
            yield Import(file, node.lineno, node.module or "", tuple(alias.name for alias in node.names))


def layers() -> set[str]:
    return {layer_of(path) for path in modules()} - {"__init__"}


def files_of_the_project(suffixes: set[str]) -> list[Path]:
    """Everything that is ours: no caches, no version control, nothing that was built."""
    return sorted(
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and path.suffix in suffixes
        and not any(
            part in ("__pycache__", "build", "dist", "node_modules") or part.startswith(".")
            for part in path.relative_to(ROOT).parts[:-1]
        )
    )


def test_every_layer_is_known() -> None:
    assert layers() == set(MAY_IMPORT)


@pytest.mark.parametrize("layer", sorted(MAY_IMPORT))
def test_imports_point_down(layer: str) -> None:
    allowed = {layer, *MAY_IMPORT[layer]}
    wrong = [
        str(found)
        for path in modules()
        if layer_of(path) == layer
        for found in imports_of(path)
        if not found.layers <= allowed
    ]
    assert wrong == []


def test_only_the_face_knows_pytest() -> None:
    knows = {
        layer_of(path)
        for path in modules()
        for found in imports_of(path)
        if found.module.split(".")[0] in ("pytest", "_pytest", "pluggy", "xdist")
    }
    assert knows == KNOWS_PYTEST


def test_each_view_goes_to_those_who_may_see_it() -> None:
    seen = {
        file: {
            name for found in imports_of(PACKAGE / file) if "datasets" in found.layers for name in found.names
        }
        for file in VIEWS_BY_MODULE
    }
    assert seen == VIEWS_BY_MODULE


def test_no_module_of_the_harness_and_of_the_judge_sees_a_history() -> None:
    for path in (*(PACKAGE / "harness").glob("*.py"), *(PACKAGE / "experiment" / "judging").glob("*.py")):
        names = {name for found in imports_of(path) for name in found.names}
        assert "History" not in names, path
    assert {p.parent.name for p in PACKAGE.rglob("*.py")} >= {"harness", "judging"}


def test_views_meet_only_where_the_experiment_is_put_together_and_where_data_is_read() -> None:
    meeting = {
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        if layer_of(path) != "datasets"
        and {"History", "Reference"} <= {name for found in imports_of(path) for name in found.names}
    }
    assert meeting <= {"experiment/assembly.py"}


def test_loading_the_plugin_loads_nothing_heavy() -> None:
    program = (
        "import sys, pytest_dshmem.plugin\n"
        f"print([name for name in {HEAVY} if name in sys.modules])\n"
        "print(any(name.startswith('pytest_dshmem.') for name in sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines() == ["[]", "True"]


def test_the_plugin_is_a_manifest() -> None:
    tree = ast.parse((PACKAGE / "plugin.py").read_text(encoding="utf-8"))
    hooks = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert len(hooks) >= 8
    assert not [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for hook in hooks:
        assert hook.name.startswith("pytest_"), hook.name
        assert len(hook.body) <= STATEMENTS_OF_A_HOOK, hook.name
        assert all(isinstance(step, ast.Expr | ast.Return | ast.ImportFrom) for step in hook.body), hook.name


def test_every_hook_of_ours_is_typed_and_explained() -> None:
    tree = ast.parse((PACKAGE / "hookspecs.py").read_text(encoding="utf-8"))
    hooks = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert hooks
    for hook in hooks:
        assert hook.name.startswith("pytest_dshmem_")
        assert ast.get_docstring(hook)
        assert all(argument.annotation is not None for argument in hook.args.args)


def test_every_module_says_what_it_is() -> None:
    silent = [str(path) for path in modules() if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_files_have_names_that_tell_something_and_can_be_read_at_once() -> None:
    files = files_of_the_project(SOURCE)
    assert {path.suffix for path in files} == SOURCE
    assert [str(path) for path in files if path.stem in EMPTY_NAMES] == []
    assert [str(path) for path in files if len(path.read_text().splitlines()) > LONGEST_FILE] == []


def test_nothing_in_the_tree_names_a_place_of_the_machine_that_it_was_written_on() -> None:
    files = files_of_the_project(TEXT)
    assert len(files) > 150
    named = [
        f"{path.relative_to(ROOT)} names {place}"
        for path in files
        for place in OF_THE_MACHINE
        if place in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert named == []
