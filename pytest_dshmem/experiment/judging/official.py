"""LongMemEval's own judge: its prompts from its own script, our client around them.

The prompts are not ours to copy. The user points at the `evaluate_qa.py` of the LongMemEval repository; out
of its text the one function that makes a prompt is compiled. Nothing else in the file runs or is imported.
"""

import ast
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_dshmem.experiment.judging.errors import JudgeError
from pytest_dshmem.experiment.judging.item import JudgeItem
from pytest_dshmem.experiment.judging.protocol import Parameters, Protocol, checked_parameters, endpoint_host

OFFICIAL_MODEL = "gpt-4o-2024-08-06"
OFFICIAL_PARAMETERS: Parameters = MappingProxyType({"temperature": 0, "n": 1, "max_tokens": 10})
KNOWN_SHA256 = "ecce9c4c79dc89d99534ac17b383a5cbb5b9f0c69ee98adaf0684742e3d95251"
"""Of src/evaluation/evaluate_qa.py in xiaowu0162/LongMemEval at commit 9e0b455."""

_FUNCTION = "get_anscheck_prompt"
_HARMLESS = (bool, dict, float, int, len, list, repr, str, tuple, NotImplementedError, ValueError, KeyError)

PromptFunction = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class OfficialScript:
    """The prompt function of an `evaluate_qa.py`. `known`: its hash is that of the file we know."""

    sha256: str
    known: bool
    prompt: PromptFunction = field(repr=False, compare=False)

    def render(self, item: JudgeItem) -> str:
        """The official prompt of an item. Raises JudgeError where the script has none for it."""
        try:
            text = self.prompt(
                item.category, item.question, item.gold, item.hypothesis, abstention=item.abstention
            )
        except Exception as error:
            raise JudgeError(
                f"The official script makes no prompt for {item.key.question_id} of type {item.category!r} "
                f"({type(error).__name__}): is it the evaluate_qa.py of LongMemEval, and the data its own?"
            ) from error
        if not isinstance(text, str):
            raise JudgeError(f"The official script's {_FUNCTION} gives no text for {item.key.question_id}.")
        return text


def load_official_script(path: Path) -> OfficialScript:
    """Take the prompt function out of an `evaluate_qa.py`.

    The function and the literal constants of the module that it names are compiled, with a handful of
    harmless builtins. Raises JudgeError where the file cannot be read or parsed, or holds no such function.
    """
    try:
        source = path.read_bytes()
        tree = ast.parse(source)
    except OSError as error:
        raise JudgeError(f"The official script {path} cannot be read: {error.strerror or error}.") from error
    except (SyntaxError, ValueError, RecursionError) as error:
        raise JudgeError(f"The official script {path} is not Python that can be parsed: {error}.") from error
    function = _prompt_function(tree, path)
    needed = [node for node in tree.body if _is_constant_for(node, function)]
    sha256 = hashlib.sha256(source).hexdigest()
    return OfficialScript(sha256, sha256 == KNOWN_SHA256, _compiled([*needed, function], path))


def official_protocol(
    script: OfficialScript,
    base_url: str,
    model: str = OFFICIAL_MODEL,
    parameters: Parameters = OFFICIAL_PARAMETERS,
) -> Protocol:
    """`longmemeval-official`: the official prompts, parameters and reading of the reply.

    With another model, which may need other parameters, the name stays; the key and the exported label tell
    the two apart.
    """
    return Protocol(
        name="longmemeval-official",
        version=1,
        model=model,
        endpoint=endpoint_host(base_url),
        parameters=checked_parameters(parameters),
        prompt_sha256=script.sha256,
        parse_rule="yes-no",
        render=partial(OfficialScript.render, script),
        extra={"official_script_known": script.known},
    )


def _prompt_function(tree: ast.Module, path: Path) -> ast.FunctionDef:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == _FUNCTION:
            if node.decorator_list:
                raise JudgeError(
                    f"In {path} the function {_FUNCTION} is decorated: it cannot be taken alone."
                )
            return node
    raise JudgeError(f"{path} holds no function {_FUNCTION}: it is not the evaluate_qa.py of LongMemEval.")


def _is_constant_for(node: ast.stmt, function: ast.FunctionDef) -> bool:
    """Whether the statement gives a literal value to a name that the function uses."""
    if not isinstance(node, ast.Assign) or not all(isinstance(target, ast.Name) for target in node.targets):
        return False
    used = {name.id for name in ast.walk(function) if isinstance(name, ast.Name)}
    if not used & {target.id for target in node.targets if isinstance(target, ast.Name)}:
        return False
    try:
        ast.literal_eval(node.value)
    except ValueError:
        return False
    return True


def _compiled(statements: list[ast.stmt], path: Path) -> PromptFunction:
    namespace: dict[str, Any] = {"__builtins__": {thing.__name__: thing for thing in _HARMLESS}}
    try:
        exec(compile(ast.Module(body=statements, type_ignores=[]), path.name, "exec"), namespace)
    except Exception as error:
        raise JudgeError(f"The function {_FUNCTION} of {path} cannot be taken alone: {error}.") from error
    function: PromptFunction = namespace[_FUNCTION]
    return function
