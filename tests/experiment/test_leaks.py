"""What the model endpoint gets to see, captured there: formation sees the history, a question the memory.

Every question, gold answer and evaluation mark of a corpus is replaced by a word that exists nowhere else. If
one of these words turns up in a request in which it has no business, something has leaked.
"""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tiny_experiment import TinyExperiment, formation_key

from pytest_dshmem.bundled import bundled_path
from pytest_dshmem.datasets.locomo import LoCoMo
from pytest_dshmem.datasets.longmemeval import LongMemEval
from pytest_dshmem.datasets.views import Benchmark, DataFile, History
from pytest_dshmem.offline.process import StandIn

pytestmark = pytest.mark.runtime

Json = dict[str, Any]

MODEL = "offline-model"
CONDITION = "memory-consolidate"
ASKED_IN = ("baseline", CONDITION, "oracle")
PLANTED = re.compile(r"leak[a-z]+\d", re.IGNORECASE)
MARKS = (
    "has_answer",
    "answer_session",
    "dia_id",
    "evidence",
    "category",
    "question_type",
    "_abs",
    "adversarial",
)
TYPES = ("single-hop", "multi-hop", "open-domain", "single-session-", "multi-session", "knowledge-update")
EVIDENCE = re.compile(r"\bD\d+:\d+\b")


@dataclass(frozen=True)
class Seen:
    """One request as the endpoint saw it: headers less credentials, and the body."""

    headers: Json
    body: Json

    @property
    def text(self) -> str:
        return json.dumps(self.headers) + json.dumps(self.body, ensure_ascii=False)

    @property
    def session_id(self) -> str:
        return str(self.headers["x-deepseek-harness-session-id"])

    @property
    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.body.get("tools", [])]

    @property
    def said(self) -> str:
        """All text of the messages as it was, line breaks included."""
        blocks = (block for message in self.body["messages"] for block in _blocks(message["content"]))
        return "\n".join(block.get("text", "") for block in blocks)


def _blocks(content: str | list[Json]) -> list[Json]:
    return [{"text": content}] if isinstance(content, str) else content


@dataclass(frozen=True)
class Watched:
    """A corpus that was formed and asked about, and what the endpoint saw of each."""

    experiment: TinyExperiment
    samples: tuple[str, ...]
    forming: dict[str, list[Seen]]
    asking: list[Seen]

    @property
    def all_forming(self) -> list[Seen]:
        return [seen for requests in self.forming.values() for seen in requests]

    def history(self, sample: str) -> History:
        return self.experiment.benchmark.history(sample)

    def frozen(self, sample: str) -> str:
        files = self.experiment.run.snapshot_folder(formation_key(CONDITION, sample)) / "files"
        return "\n".join(file.read_text("utf-8") for file in files.rglob("*.md"))


def captured(file: Path, position: int = 0) -> list[Seen]:
    lines = file.read_text("utf-8").splitlines()[position:]
    requests = [json.loads(line) for line in lines]
    return [Seen(one["headers"], one["body"]) for one in requests if one["path"] == "/v1/messages"]


def watch(folder: Path, benchmark: Benchmark, asked_in: Sequence[str]) -> Watched:
    """Forms every sample, one after the other, and then asks all questions under these conditions."""
    samples = tuple(dict.fromkeys(listing.sample_id for listing in benchmark.listings()))
    capture = folder / "requests.jsonl"
    forming = {}
    with StandIn.start(capture=capture) as stand_in:
        experiment = TinyExperiment.at(folder, stand_in.url, benchmark=benchmark, model=MODEL)
        position = 0
        for sample in samples:
            formation = experiment.former().form(formation_key(CONDITION, sample))
            assert formation.state == "frozen", formation.reason
            forming[sample] = captured(capture, position)
            position = len(capture.read_text("utf-8").splitlines())
        answers = experiment.ask(*asked_in)
        assert {entry.state for entry in answers.values()} == {"answered"}
        return Watched(experiment, samples, forming, captured(capture, position))


def plant_locomo(sample: Json, sessions: int) -> Json:
    """A sample with its first sessions, and a planted word for all that only the evaluation may know."""
    last = f"session_{sessions + 1}"
    numbers = [name for name in sample["conversation"] if re.fullmatch(r"session_\d+", name)]
    kept = sorted(numbers, key=lambda name: int(name.split("_")[1]))[:sessions]
    conversation = {
        name: value
        for name, value in sample["conversation"].items()
        if name.startswith("speaker") or name.removesuffix("_date_time") in kept
    }
    assert kept
    assert last not in conversation or last in kept
    for name in kept:
        conversation[name] = [
            {**turn, **({"query": "leakquery1"} if "query" in turn else {})} for turn in conversation[name]
        ]
    asked = [item for item in sample["qa"] if item["category"] != 5][:3]
    questions = [
        {**item, "question": f"What of leakquestion{number}?", "answer": f"leakgold{number}"}
        for number, item in enumerate(asked, start=1)
    ]
    return {**sample, "conversation": conversation, "qa": questions}


def plant_longmemeval(instance: Json, number: int) -> Json:
    """An instance with a planted word for all that only the evaluation may know."""
    answers = instance["answer_session_ids"]
    renamed = {old: f"leaksession{number}_{place}" for place, old in enumerate(answers)}
    suffix = "_abs" if instance["question_id"].endswith("_abs") else ""
    return {
        **instance,
        "question_id": f"leakid{number}{suffix}",
        "question": f"What of leakquestion{number}?",
        "answer": f"leakgold{number}",
        "answer_session_ids": [renamed[old] for old in answers],
        "haystack_session_ids": [renamed.get(old, old) for old in instance["haystack_session_ids"]],
    }


def written(folder: Path, items: list[Json]) -> tuple[Path, DataFile]:
    path, content = folder / "corpus.json", json.dumps(items).encode()
    path.write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    return path, DataFile("planted", sha256, len(content), pinned=False, sample_corpus=True)


def locomo_at(folder: Path, sample: Json, sessions: int) -> Benchmark:
    return LoCoMo(*written(folder, [plant_locomo(sample, sessions)]))


def longmemeval_at(folder: Path, instances: list[Json]) -> Benchmark:
    planted = [plant_longmemeval(instance, number) for number, instance in enumerate(instances, start=1)]
    path, file = written(folder, planted)
    return LongMemEval(path, file, None)


def corpus(name: str) -> list[Json]:
    return list(json.loads(bundled_path("corpora", f"{name}-sample.json").read_text("utf-8")))


def real_file(*names: str) -> Path:
    if "DSHMEM_DATA" not in os.environ:
        pytest.skip("DSHMEM_DATA does not name the folder of the real data sets")
    path = Path(os.environ["DSHMEM_DATA"]).joinpath(*names)
    if not path.is_file():
        pytest.skip(f"the real file {names[-1]} is not there")
    return path


def short_instances(items: list[Json]) -> list[Json]:
    """The shortest real instance, and the shortest of those whose answer cannot be known."""
    by_length = sorted(items, key=lambda one: len(json.dumps(one["haystack_sessions"])))
    abstention = next(one for one in by_length if one["question_id"].endswith("_abs"))
    return [next(one for one in by_length if not one["question_id"].endswith("_abs")), abstention]


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """Three chats with an assistant. The first and the third hold one session under the same id."""
    folder = tmp_path_factory.mktemp("chats")
    return watch(folder, longmemeval_at(folder, corpus("longmemeval")[:3]), ASKED_IN)


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    folder = tmp_path_factory.mktemp("talk")
    return watch(folder, locomo_at(folder, corpus("locomo")[0], sessions=3), ASKED_IN)


@pytest.fixture(scope="module")
def real_talk(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    samples = json.loads(real_file("locomo", "locomo10.json").read_text("utf-8"))
    folder = tmp_path_factory.mktemp("real-talk")
    return watch(folder, locomo_at(folder, samples[0], sessions=2), ASKED_IN)


@pytest.fixture(scope="module")
def real_chats(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    instances = json.loads(real_file("longmemeval", "longmemeval_oracle.json").read_text("utf-8"))
    folder = tmp_path_factory.mktemp("real-chats")
    return watch(folder, longmemeval_at(folder, short_instances(instances)), ASKED_IN)


@pytest.fixture(scope="module", params=["talk", "chats", "real_talk", "real_chats"])
def watched(request: pytest.FixtureRequest) -> Watched:
    found: Watched = request.getfixturevalue(request.param)
    return found


def has_history(seen: Seen) -> bool:
    return "<history>" in seen.text


def test_formation_is_shown_every_sentence_of_the_history(watched: Watched) -> None:
    """Without this, that nothing leaks would prove nothing."""
    for sample in watched.samples:
        said = "\n".join(seen.said for seen in watched.forming[sample])
        for session in watched.history(sample).sessions:
            assert session.date_text in said
            assert all(turn.text in said for turn in session.turns)


def test_no_request_of_formation_holds_a_question_a_gold_or_a_mark_of_the_evaluation(
    watched: Watched,
) -> None:
    history_text = json.dumps(
        [[turn.text for turn in session.turns] for name in watched.samples
         for session in watched.history(name).sessions],
        ensure_ascii=False,
    )  # fmt: skip
    assert watched.all_forming
    for seen in watched.all_forming:
        assert PLANTED.findall(seen.text) == []
        assert EVIDENCE.findall(seen.text) == []
        found = {mark for mark in (*MARKS, *TYPES) if mark in seen.text and mark not in history_text}
        assert found == set()


def test_session_ids_on_the_wire_tell_nothing(watched: Watched) -> None:
    for seen in (*watched.all_forming, *watched.asking):
        assert re.fullmatch(r"s-[0-9a-f]{24}|q-[0-9a-f]{24}-\d|memory-worker-[0-9a-f-]{36}", seen.session_id)
        for sample in watched.samples:
            assert sample not in seen.text


def test_what_each_request_is_offered_is_exactly_what_its_place_allows(watched: Watched) -> None:
    forming = {tuple(sorted(seen.tools)) for seen in watched.all_forming}
    assert forming == {("memory_update", "read"), ("memory_commit",)}
    for seen in watched.asking:
        expected = ["read"] if "<workspace_memory" in seen.text else []
        assert seen.tools == expected
    baseline = [seen for seen in watched.asking if not seen.tools and not has_history(seen)]
    assert baseline
    assert all(not seen.body.get("tools") for seen in baseline)


def test_a_question_brings_itself_and_neither_its_gold_nor_another_question(watched: Watched) -> None:
    questions = {planted for seen in watched.asking for planted in PLANTED.findall(seen.text)}
    assert {name.lower() for name in questions} == {
        f"leakquestion{number}" for number in range(1, len(watched.experiment.benchmark.listings()) + 1)
    }
    for seen in watched.asking:
        assert len(set(PLANTED.findall(seen.text))) == 1
        assert EVIDENCE.findall(seen.text) == []


def test_a_question_holds_no_sentence_of_the_history_that_the_memory_did_not_put_there(
    watched: Watched,
) -> None:
    sentences = {
        turn.text: sample
        for sample in watched.samples
        for session in watched.history(sample).sessions
        for turn in session.turns
        if len(turn.text) > 30
    }
    assert sentences
    frozen = "\n".join(watched.frozen(sample) for sample in watched.samples)
    without_history = [seen for seen in watched.asking if not has_history(seen)]
    assert without_history
    for seen in without_history:
        strayed = [text for text in sentences if text in seen.said]
        assert all(seen.tools and text in frozen for text in strayed)


def test_the_oracle_brings_its_evidence_sessions_in_the_prompt(watched: Watched) -> None:
    benchmark = watched.experiment.benchmark
    prompts = [seen.said for seen in watched.asking if has_history(seen)]
    assert len(prompts) == len(benchmark.listings())
    for listing in benchmark.listings():
        question = benchmark.question(listing.question_id).text
        (prompt,) = [text for text in prompts if question in text]
        evidence = {place.session for place in benchmark.reference(listing.question_id).evidence}
        for session in benchmark.history(listing.sample_id).sessions:
            shown = [turn.text in prompt for turn in session.turns if len(turn.text) > 30]
            assert all(shown) if session.number in evidence else not any(shown)


def test_samples_that_share_a_session_share_nothing_else(chats: Watched) -> None:
    first, _, third = corpus("longmemeval")[:3]
    assert set(first["haystack_session_ids"]) & set(third["haystack_session_ids"]) == {"chat_lamp"}
    one, other = chats.samples[0], chats.samples[2]

    for name in ("x-deepseek-harness-session-id", "x-deepseek-harness-user-id"):
        used = [{seen.headers[name] for seen in chats.forming[sample]} for sample in (one, other)]
        assert used[0].isdisjoint(used[1])
    assert folders_of(chats.forming[one]).isdisjoint(folders_of(chats.forming[other]))
    for sample, foreign in ((one, other), (other, one)):
        unshared = texts_of(chats.history(foreign)) - texts_of(chats.history(sample))
        assert unshared
        said = "\n".join(seen.said for seen in chats.forming[sample])
        assert [text for text in unshared if text in said] == []


def folders_of(requests: list[Seen]) -> set[str]:
    """The folders of formations that requests name; a model sees where it works."""
    found = set(re.findall(r"/f-[0-9a-f]{16}/", "".join(seen.text for seen in requests)))
    assert len(found) == 1
    return found


def texts_of(history: History) -> set[str]:
    return {turn.text for session in history.sessions for turn in session.turns if turn.text.strip()}
