"""The whole report page: one file, no network, and no script needed to read it."""

import datetime
from importlib.resources import files

from pytest_dshmem.report import numbers
from pytest_dshmem.report.html.accuracy import (
    accuracy_section,
    diagnosis_section,
    headline,
    unanswered_section,
)
from pytest_dshmem.report.html.comparison import comparison_section
from pytest_dshmem.report.html.content import PageContent
from pytest_dshmem.report.html.cost import cost_section
from pytest_dshmem.report.html.elements import Markup, document, element, stylesheet
from pytest_dshmem.report.html.memory import memory_section
from pytest_dshmem.report.html.questions import questions_section
from pytest_dshmem.report.html.tables import description_list
from pytest_dshmem.report.provenance import Provenance

POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render_page(content: PageContent) -> str:
    """The report as one HTML document."""
    sections = [
        headline(content),
        accuracy_section(content),
        unanswered_section(content),
        *(comparison_section(comparison) for comparison in content.comparisons),
        memory_section(content),
        cost_section(content),
        diagnosis_section(content),
        questions_section(content),
    ]
    body = element("body", _header(content), element("main", sections), _footer(content))
    return document("en", _head(content), body)


def _head(content: PageContent) -> Markup:
    rules = (files(__package__) / "style.css").read_text(encoding="utf-8")
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        # Whatever a model wrote, the page loads nothing and runs nothing.
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("title", f"{_title(content)}: memory benchmark"),
        stylesheet(rules),
    )


def _header(content: PageContent) -> Markup:
    source = content.figures.provenance
    return element(
        "header",
        element("h1", _title(content)),
        element("p", f"Run {source.run_id}, {_date(source.created_at)}", class_="muted"),
        _warnings(source),
        description_list(_provenance(source), class_="facts"),
    )


def _title(content: PageContent) -> str:
    conditions = ", ".join(condition.condition for condition in content.figures.conditions)
    return f"{content.figures.provenance.benchmark or 'Run'} · {conditions}"


def _warnings(source: Provenance) -> Markup | None:
    if not source.warnings:
        return None
    return element(
        "div", (element("p", warning) for warning in source.warnings), class_="banner", role="note"
    )


def _provenance(source: Provenance) -> list[tuple[str, str]]:
    return [
        ("memory system", source.memory_system),
        ("model", source.model),
        ("ingestion", source.ingestion),
        ("data", " ".join(part for part in (source.data_name, _short(source.data_sha256)) if part)),
        ("selection", source.selection),
        ("split", source.split),
        ("judge protocol", source.judge_protocol or "not judged"),
        ("judge model", ", ".join(source.judge_models)),
    ]


def _footer(content: PageContent) -> Markup:
    figures = content.figures
    torn = "; ".join(
        f"{name}: {numbers.plural(count, 'line')} cut short" for name, count in figures.torn.items()
    )
    facts = [
        ("run", figures.provenance.run_id),
        ("data sha256", _code(figures.provenance.data_sha256)),
        ("seal sha256", _code(content.seal or "")),
        ("torn records", torn),
    ]
    return element("footer", description_list(facts, class_="facts"), _warnings(figures.provenance))


def _code(text: str) -> Markup | str:
    return element("code", text) if text else ""


def _short(sha256: str) -> str:
    return f"(sha256 {sha256[:12]})" if sha256 else ""


def _date(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%-d %B %Y, %H:%M UTC")
