"""Builds HTML and SVG from nested calls. Text is escaped unless it was built here."""

import html
from collections.abc import Iterable
from typing import TypeAlias

VOID = frozenset({"meta", "br", "hr", "input"})


class Markup(str):
    """Text that is markup already and is not escaped again. Only this module makes it."""

    __slots__ = ()


Child: TypeAlias = "Markup | str | int | Iterable[Child] | None"
Attribute: TypeAlias = str | int | float | bool | None


def element(tag: str, *children: Child, **attributes: Attribute) -> Markup:
    """One element. `class_` stands for `class`, `aria_label` for `aria-label`. None and False: left out."""
    opening = "".join([tag, *(_attribute(name, value) for name, value in attributes.items())])
    if tag in VOID:
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{together(*children)}</{tag}>")


def together(*children: Child) -> Markup:
    """Children side by side: markup as it is, text escaped, None as nothing."""
    return Markup("".join(_rendered(child) for child in children))


def stylesheet(rules: str) -> Markup:
    """A style element. CSS is not escaped in HTML, so rules that could close the element are refused."""
    if "</" in rules:
        raise ValueError("a style sheet must not hold '</'")
    return Markup(f"<style>{rules}</style>")


def document(language: str, head: Markup, body: Markup) -> str:
    """A whole HTML document."""
    return f"<!doctype html>\n{element('html', head, body, lang=language)}\n"


def _rendered(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int):
        return html.escape(_displayable(str(child)), quote=False)
    return together(*child)


def _displayable(text: str) -> str:
    """The text without what HTML forbids: control characters and lone surrogates become a visible mark."""
    return "".join(
        character
        if character in "\n\t" or (character >= " " and not _is_forbidden(character))
        else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )


def _is_forbidden(character: str) -> bool:
    code = ord(character)
    return 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xDFFF or code & 0xFFFE == 0xFFFE


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    written = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {written}"
    return f' {written}="{html.escape(_displayable(str(value)))}"'
