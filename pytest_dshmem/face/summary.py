"""The terminal summary of one run: judge what was asked, print figures, write reports, hold gates."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_dshmem.face.budgeting import budget_of, watcher_of
from pytest_dshmem.face.options import Options
from pytest_dshmem.face.rerun import remember_verdicts
from pytest_dshmem.face.workbench import SLOWDOWNS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_dshmem.face.workbench import Workbench
    from pytest_dshmem.record.entries import ReferenceText, Verdict
    from pytest_dshmem.record.run_directory import RunDirectory
    from pytest_dshmem.report.gates import GateResult
    from pytest_dshmem.report.lines import Line
    from pytest_dshmem.report.prices import Prices
    from pytest_dshmem.report.reading import RunReading

COLOURS = {
    "heading": {"bold": True},
    "warning": {"yellow": True},
    "good": {"green": True},
    "bad": {"red": True},
    "dim": {"light": True},
    "plain": {},
}
JUDGED_PER_LINE = 200
DIAGNOSED_FROM = (
    "run.json",
    "selection.jsonl",
    "formation.jsonl",
    "qa.jsonl",
    "judge.jsonl",
    "diagnosis.jsonl",
)
"""What the diagnosis of wrong answers rests on, and itself: as it was sealed, it need not be made again."""


class RunSummary:
    """What happens with one run when all its tests are over."""

    def __init__(
        self,
        path: Path,
        options: Options,
        bench: Workbench,
        config: pytest.Config,
        reporter: pytest.TerminalReporter,
    ) -> None:
        self._run: RunDirectory = bench.run_in(path)
        self._options = options
        self._bench = bench
        self._config = config
        self._reporter = reporter
        self._protocol_key: str | None = None

    def carry_out(self, *, judging: bool = True) -> bool:
        """Judges and reports. False where judging broke off or a gate does not hold; never an exception."""
        from pytest_dshmem.datasets.views import DataError
        from pytest_dshmem.experiment.judging.errors import JudgeError
        from pytest_dshmem.record.journal import RecordError
        from pytest_dshmem.report.overlay import OverlayError
        from pytest_dshmem.report.prices import PriceError

        try:
            self._run.write_hypotheses({entry.key: entry for entry in self._run.hypotheses.read()})
            judged = self._judge() if judging and not self._options.no_judge else self._leave_unjudged()
            return self._report() and judged
        except (JudgeError, RecordError, PriceError, OverlayError, DataError, OSError) as error:
            self._reporter.write_line(f"ERROR: {error}", red=True)
            return False

    def _judge(self) -> bool:
        from pytest_dshmem.experiment.judging.choice import judge_run
        from pytest_dshmem.experiment.judging.references import recorded_references

        choice = self._bench.judge_choice
        protocol = choice.protocol(self._bench.name)
        self._protocol_key = protocol.key
        references = recorded_references(self._run) or self._references()
        stop, why_stop = threading.Event(), watcher_of(budget_of(self._bench, self._run))

        def after_verdict(done: int, count: int, verdict: Verdict) -> None:
            self._judge_progress(done, count, verdict)
            if why_stop(verdict.calls) is not None:
                stop.set()

        spent = why_stop(())
        if spent is not None:
            stop.set()
        outcome = judge_run(self._run, protocol, choice, references, on_progress=after_verdict, stop=stop)
        if stop.is_set() and outcome.stopped:
            self._reporter.write_line(f"judging was stopped: {why_stop(())}", red=True)
        if outcome.slowdowns:
            self._reporter.write_line(f"the judge was slowed down {outcome.slowdowns} times by rate limits")
        if outcome.stopped:
            self._reporter.write_line(f"judging broke off: {outcome.stopped}", red=True)
        return outcome.stopped is None

    def _leave_unjudged(self) -> bool:
        self._reporter.write_line(f"not judged; `dshmem judge {self._run.path}` does it")
        return True

    def _references(self) -> dict[str, ReferenceText]:
        """Out of the data set, where the run leaves texts out."""
        from pytest_dshmem.experiment.judging.references import reference_texts

        ids = (chosen.key.question_id for chosen in self._run.selected())
        return {text.question_id: text for text in reference_texts(self._bench.benchmark, ids)}

    def _judge_progress(self, done: int, count: int, verdict: Verdict) -> None:
        del verdict
        if done % JUDGED_PER_LINE == 0 or done == count:
            self._reporter.write_line(f"judged {done:,} of {count:,}")

    def _report(self) -> bool:
        from pytest_dshmem.report.diagnosis_text import disputed_lines
        from pytest_dshmem.report.figures import figures_kept_in
        from pytest_dshmem.report.reading import reading_of
        from pytest_dshmem.report.seal import seal_run
        from pytest_dshmem.report.summary import summary_lines

        self._keep_facts()
        reading = reading_of(self._run, self._protocol_key)
        prices = self._bench.prices
        figures = figures_kept_in(self._run, reading, prices)
        show(self._reporter, summary_lines(figures))
        show(self._reporter, self._diagnosed(reading))
        if self._bench.disputed:
            show(self._reporter, disputed_lines(figures, self._bench.disputed))
        self._show_slowdowns(reading)
        self._show_lost(reading)
        compared = self._compare(reading, prices)
        self._write_reports(reading, prices)
        seal_run(self._run.path, figures)
        self._config.hook.pytest_dshmem_summary(config=self._config, run=self._run.path, reading=reading)
        held = [self._show_gate(result) for result in self._gates(reading)]
        return compared and all(held)

    def _keep_facts(self) -> None:
        """What is known only now: the size of the histories that memories were formed from, and prices."""
        from pytest_dshmem.datasets.cache import cache_folder
        from pytest_dshmem.experiment.history_sizes import history_sizes
        from pytest_dshmem.experiment.tokenizer import find_tokenizer

        tokenizer = find_tokenizer()
        formed = {entry.key.sample_id for entry in self._run.formations.read() if entry.state == "frozen"}
        sizes = history_sizes(self._bench.benchmark, sorted(formed), tokenizer, cache_folder(os.environ))
        tokens = {sample: size.tokens for sample, size in sizes.items()}
        amended: dict[str, object] = {"history_tokens": tokens, "tokenizer": tokenizer.name}
        if self._bench.prices is not None:
            amended["prices"] = self._bench.prices.as_record()
        self._run.amend_facts(amended)

    def _diagnosed(self, reading: RunReading) -> list[Line]:
        """Why wrong answers are wrong; kept in the run, and made anew only where there is something new."""
        from pytest_dshmem.report.diagnosis import diagnose, read_diagnosis, write_diagnosis
        from pytest_dshmem.report.diagnosis_text import diagnosis_lines
        from pytest_dshmem.report.evidence import evidence_texts
        from pytest_dshmem.report.seal import is_as_sealed

        kept = read_diagnosis(self._run.path) if is_as_sealed(self._run.path, DIAGNOSED_FROM) else None
        if kept is not None:
            return diagnosis_lines(kept, reading.categories)
        evidence = evidence_texts(self._bench.benchmark, reading.selected)
        found = diagnose(reading, evidence, self._bench.injected_files)
        write_diagnosis(self._run.path, found)
        return diagnosis_lines(found, reading.categories)

    def _show_slowdowns(self, reading: RunReading) -> None:
        count = int(reading.manifest.facts.get(SLOWDOWNS, 0))
        if count:
            self._reporter.write_line(f"rate limits lowered the number of calls in flight {count:,} times")

    def _show_lost(self, reading: RunReading) -> None:
        """For work on prompts: which questions were right the last time and are wrong now."""
        lost = remember_verdicts(self._config, self._bench.name, reading)
        if lost:
            self._reporter.write_line(f"right the last time, wrong now: {', '.join(lost)}", yellow=True)

    def _compare(self, reading: RunReading, prices: Prices | None) -> bool:
        from pytest_dshmem.report.compare import CompareError, compare_runs
        from pytest_dshmem.report.comparison_figures import comparison_figures
        from pytest_dshmem.report.comparison_text import comparison_lines
        from pytest_dshmem.report.reading import read_run

        if not self._options.compare:
            return True
        try:
            others = [read_run(run) for run in self._options.compare]
            for comparison in compare_runs([*others, reading], force=self._options.force):
                show(self._reporter, comparison_lines(comparison_figures(comparison, prices)))
        except CompareError as error:
            self._reporter.write_line(f"not compared: {error}", red=True)
            return False
        return True

    def _write_reports(self, reading: RunReading, prices: Prices | None) -> None:
        from pytest_dshmem.record.run_directory import write_atomically

        texts = not self._options.without_text
        if self._options.json:
            from pytest_dshmem.report.json_report import report_document

            document = report_document(reading, prices, texts=texts)
            write_atomically(self._options.json, json.dumps(document, indent=1) + "\n")
        if self._options.html:
            from pytest_dshmem.report.html.gathering import page_content
            from pytest_dshmem.report.html.page import render_page

            content = page_content(reading, prices=prices, disputed=self._bench.disputed, texts=texts)
            write_atomically(self._options.html, render_page(content))

    def _gates(self, reading: RunReading) -> Iterable[GateResult]:
        from pytest_dshmem.report.gates import fail_under, no_worse_than
        from pytest_dshmem.report.reading import read_run

        if self._options.fail_under is not None:
            yield fail_under(reading, self._options.fail_under)
        if self._options.no_worse_than is not None:
            yield no_worse_than(reading, read_run(self._options.no_worse_than))

    def _show_gate(self, result: GateResult) -> bool:
        word = "passed" if result.passed else "FAILED"
        self._reporter.write_line(f"gate {word}: {result.reason}", red=not result.passed)
        return result.passed


def show(reporter: pytest.TerminalReporter, lines: Iterable[Line]) -> None:
    """Writes lines in the colours of their styles."""
    for line in lines:
        reporter.write_line(line.text, **COLOURS[line.style])
