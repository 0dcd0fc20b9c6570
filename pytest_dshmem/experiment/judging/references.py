"""Questions and golds for the judge: from the run's own records, or from the data set without them."""

from collections.abc import Iterable, Iterator

from pytest_dshmem.datasets.views import Benchmark
from pytest_dshmem.record.entries import ReferenceText
from pytest_dshmem.record.run_directory import RunDirectory


def recorded_references(run: RunDirectory) -> dict[str, ReferenceText]:
    """Question and gold texts that the run itself holds, by question id."""
    return {text.question_id: text for text in run.references.read()}


def reference_texts(benchmark: Benchmark, question_ids: Iterable[str]) -> Iterator[ReferenceText]:
    """Question and gold of each of these questions, each once, in the order given."""
    for question_id in dict.fromkeys(question_ids):
        question = benchmark.question(question_id)
        reference = benchmark.reference(question_id)
        yield ReferenceText(
            question_id=question_id,
            asked_on=question.asked_on,
            question=question.text,
            gold=reference.gold,
            category=reference.category,
            abstention=reference.abstention,
        )
