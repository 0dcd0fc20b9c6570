"""`dshmem judge`: judges a run again, from its records alone. No question is asked again."""

import argparse
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pytest_dshmem.command.terminal import fail, positive_count, refuse, show
from pytest_dshmem.datasets.catalog import open_benchmark
from pytest_dshmem.datasets.views import Benchmark, DataError
from pytest_dshmem.experiment.judging.choice import JudgeChoice, judge_run, read_parameters
from pytest_dshmem.experiment.judging.errors import JudgeError
from pytest_dshmem.experiment.judging.judge import JudgeOutcome
from pytest_dshmem.experiment.judging.protocol import Protocol
from pytest_dshmem.experiment.judging.references import recorded_references, reference_texts
from pytest_dshmem.offline import names as offline_names
from pytest_dshmem.offline.process import StandIn, StandInError
from pytest_dshmem.record.entries import ReferenceText, Verdict
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.record.run_directory import RunDirectory
from pytest_dshmem.report.diagnosis import FILE_NAME as DIAGNOSIS
from pytest_dshmem.report.diagnosis import diagnose, write_diagnosis
from pytest_dshmem.report.evidence import evidence_texts
from pytest_dshmem.report.figures import RunFigures, figures_kept_in
from pytest_dshmem.report.prices import PriceError, Prices, load_prices
from pytest_dshmem.report.reading import RunReading, reading_of
from pytest_dshmem.report.seal import seal_run
from pytest_dshmem.report.summary import summary_lines

JUDGED_PER_LINE = 200


def add_judge_command(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Registers `judge`."""
    parser = subparsers.add_parser("judge", help="judge a run again, without asking again")
    parser.add_argument("run_directory", type=Path, metavar="RUN", help="run directory")
    parser.add_argument(
        "--model", default="", help="judge (env DSHMEM_JUDGE_MODEL, else gpt-4o-mini)", metavar="MODEL"
    )
    parser.add_argument("--base-url", default="", help="endpoint (env OPENAI_BASE_URL)", metavar="URL")
    prompts = parser.add_mutually_exclusive_group()
    prompts.add_argument("--prompt", type=Path, help="judge with the prompt in this file", metavar="FILE")
    prompts.add_argument(
        "--official-script",
        type=Path,
        help="judge with the prompts of LongMemEval's evaluate_qa.py",
        metavar="FILE",
    )
    parser.add_argument(
        "--judge-parameters",
        default="",
        help='parameters of a call (default: {"temperature": 0})',
        metavar="JSON",
    )
    parser.add_argument(
        "--concurrency", type=positive_count, default=32, help="calls in flight (default: 32)", metavar="K"
    )
    parser.add_argument(
        "--timeout", type=positive_count, default=60, help="seconds for a call (default: 60)", metavar="S"
    )
    parser.add_argument("--offline", action="store_true", help="use the embedded judge")
    parser.add_argument(
        "--data", type=Path, help="where the data set is, for a run that leaves texts out", metavar="PATH"
    )
    parser.add_argument("--prices", type=Path, metavar="FILE", help="price file (TOML) for money")
    parser.set_defaults(run=_judge)


def _judge(arguments: argparse.Namespace) -> int:
    try:
        run = RunDirectory.open(arguments.run_directory)
        prices = load_prices(arguments.prices) if arguments.prices else None
        with _chosen(arguments) as choice:
            protocol = choice.protocol(_benchmark_name(run))
            try:
                outcome, figures = _judge_again(run, protocol, choice, arguments.data, prices)
                show(summary_lines(figures))
                return _conclude(outcome)
            except (JudgeError, DataError) as error:
                return fail(error)
    except (JudgeError, PriceError) as error:
        return refuse(error)
    except (RecordError, StandInError) as error:
        return fail(error)


@contextmanager
def _chosen(arguments: argparse.Namespace) -> Iterator[JudgeChoice]:
    """The judge that was asked for; the embedded one for as long as it is needed."""
    choice = JudgeChoice(
        model=arguments.model,
        base_url=arguments.base_url,
        prompt=arguments.prompt,
        official_script=arguments.official_script,
        parameters=read_parameters(arguments.judge_parameters),
        concurrency=arguments.concurrency,
        timeout_seconds=arguments.timeout,
        offline=arguments.offline,
    )
    if not arguments.offline:
        yield choice.completed(os.environ)
        return
    if arguments.model or arguments.base_url:
        raise JudgeError("--offline is a judge of its own: leave --model and --base-url out")
    with StandIn.start() as stand_in:
        choice = replace(choice, model=offline_names.JUDGE, base_url=stand_in.url, api_key=offline_names.KEY)
        yield choice.completed(os.environ)


def _judge_again(
    run: RunDirectory, protocol: Protocol, choice: JudgeChoice, data: Path | None, prices: Prices | None
) -> tuple[JudgeOutcome, RunFigures]:
    """Judges, and brings up to date what follows from verdicts: diagnosis and seal."""
    is_finished = not run.work.exists()
    references = recorded_references(run) or _references(run, data)
    run.write_hypotheses({entry.key: entry for entry in run.hypotheses.read()})
    outcome = judge_run(run, protocol, choice, references, on_progress=_tell_progress)
    reading = reading_of(run, protocol=protocol.key)
    _diagnose_again(reading, data)
    if is_finished:
        run.finish()
    figures = figures_kept_in(run, reading, prices)
    seal_run(run.path, figures)
    return outcome, figures


def _references(run: RunDirectory, data: Path | None) -> Mapping[str, ReferenceText]:
    benchmark = _open_data(run, data)
    texts = reference_texts(benchmark, (chosen.key.question_id for chosen in run.selected()))
    return {text.question_id: text for text in texts}


def _diagnose_again(reading: RunReading, data: Path | None) -> None:
    """A diagnosis is of the answers that are wrong; the old one does not hold for the new verdicts."""
    if not (reading.path / DIAGNOSIS).exists():
        return
    try:
        benchmark = _open_data(RunDirectory.open(reading.path), data)
    except DataError as error:
        (reading.path / DIAGNOSIS).unlink()
        print(f"the diagnosis of wrong answers was taken out, it needs the data set: {error}")
        return
    system = reading.manifest.facts.get("memory_system", {})
    evidence = evidence_texts(benchmark, reading.selected)
    write_diagnosis(reading.path, diagnose(reading, evidence, system.get("injected", ())))


def _open_data(run: RunDirectory, data: Path | None) -> Benchmark:
    """The data set that the run was made on. Raises DataError where it is not here."""
    facts, settings = run.manifest.facts.get("data", {}), run.manifest.settings
    name = _benchmark_name(run)
    variant = str(facts.get("name", "")).removeprefix(f"{name}-")
    sample_corpus = bool(facts.get("sample_corpus"))
    benchmark = open_benchmark(
        name,
        environment=os.environ,
        folder=data,
        allow_unpinned=True,
        variant=variant if name == "longmemeval" and not sample_corpus else None,
        captions=settings.get("data.captions") is not False,
        sample_corpus=sample_corpus,
    )
    if benchmark.file.sha256 != settings.get("data.sha256"):
        raise DataError(
            f"The run was made on another file than the {benchmark.file.name} found here (sha256 "
            f"{benchmark.file.sha256}): name the file of the run with --data."
        )
    return benchmark


def _benchmark_name(run: RunDirectory) -> str:
    name = run.manifest.settings.get("benchmark")
    if not isinstance(name, str):
        raise RecordError(f"{run.manifest_path} does not say of which benchmark the run is")
    return name


def _tell_progress(done: int, count: int, verdict: Verdict) -> None:
    del verdict
    if done % JUDGED_PER_LINE == 0 or done == count:
        print(f"judged {done:,} of {count:,}", flush=True)


def _conclude(outcome: JudgeOutcome) -> int:
    if outcome.slowdowns:
        print(f"the judge was slowed down {outcome.slowdowns} times by rate limits")
    if outcome.stopped is not None:
        return fail(JudgeError(f"judging broke off: {outcome.stopped}"))
    return 0
