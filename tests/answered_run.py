"""A run over a sample corpus, asked and not judged: every other answer is right, the last one missing."""

import os
from pathlib import Path

from pytest_dshmem.datasets.catalog import open_benchmark
from pytest_dshmem.datasets.views import Benchmark
from pytest_dshmem.experiment.judging.references import reference_texts
from pytest_dshmem.record.entries import Call, Hypothesis, QuestionKey, Selected, Usage
from pytest_dshmem.record.run_directory import RunDirectory

UNKNOWN = "I do not know."


def sample_corpus(name: str = "longmemeval") -> Benchmark:
    return open_benchmark(name, environment=os.environ, sample_corpus=True)


def answered_run(
    folder: Path, *, conditions: tuple[str, ...] = ("baseline",), repeats: int = 1, texts: bool = True
) -> RunDirectory:
    """Answers of LongMemEval's sample corpus. With `texts` the run holds questions and golds."""
    benchmark = sample_corpus()
    file = benchmark.file
    run = RunDirectory.create(
        folder,
        {
            "benchmark": benchmark.name,
            "data.sha256": file.sha256,
            "data.captions": True,
            "offline": True,
            "selection": "full",
            "split": "all",
            "model.name": "some-agent",
        },
        {
            "data": {"name": file.name, "pinned": False, "sample_corpus": True},
            "categories": list(benchmark.categories),
        },
    )
    ids = [listing.question_id for listing in benchmark.listings()]
    keys = [
        QuestionKey(question_id=question, condition=condition, repeat=repeat)
        for repeat in range(1, repeats + 1)
        for condition in conditions
        for question in ids
    ]
    run.select(_selected(benchmark, key) for key in keys)
    if texts:
        run.add_references(reference_texts(benchmark, ids))
    for key in keys:
        run.hypotheses.append(_answer(benchmark, key, ids.index(key.question_id), len(ids)))
    run.finish()
    return run


def _selected(benchmark: Benchmark, key: QuestionKey) -> Selected:
    reference = benchmark.reference(key.question_id)
    return Selected(
        id=f"{key.question_id}-{key.condition}-r{key.repeat}",
        key=key,
        sample_id=key.question_id,
        category=reference.category,
        abstention=reference.abstention,
    )


def _answer(benchmark: Benchmark, key: QuestionKey, place: int, count: int) -> Hypothesis:
    is_last = place == count - 1
    gold = benchmark.reference(key.question_id).gold
    usage = Usage(input=100, cache_read=10, output=20)
    return Hypothesis(
        key=key,
        sample_id=key.question_id,
        state="timeout" if is_last else "answered",
        hypothesis="" if is_last else gold if place % 2 == 0 else UNKNOWN,
        reason="no answer in 300 s" if is_last else None,
        started_at=1_700_000_000.0,
        seconds=2.0,
        calls=(
            Call(
                purpose="qa", model="some-agent", started_at=0.0, seconds=1.0, finish="end_turn", usage=usage
            ),
        ),
    )
