"""What the data-set tests share: small files of our own writing, and the real ones where they are."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_dshmem.datasets.catalog import open_benchmark
from pytest_dshmem.datasets.locomo import LoCoMo
from pytest_dshmem.datasets.longmemeval import LongMemEval
from pytest_dshmem.datasets.views import Benchmark, DataFile

Json = dict[str, Any]
OpenBenchmark = Callable[..., Benchmark]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user who has a home and a cache and nothing in them."""
    return {"HOME": str(tmp_path / "home"), "DSHMEM_CACHE": str(tmp_path / "cache")}


@pytest.fixture(scope="session")
def real_data() -> Path:
    if not (data := os.environ.get("DSHMEM_DATA")):
        pytest.skip("DSHMEM_DATA does not name the folder of the real data sets")
    return Path(data)


@pytest.fixture(scope="session")
def open_real(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> OpenBenchmark:
    environment = {"DSHMEM_DATA": str(real_data), "DSHMEM_CACHE": str(tmp_path_factory.mktemp("cache"))}

    def open_it(name: str, **options: Any) -> Benchmark:
        return open_benchmark(name, environment=environment, **options)

    return open_it


def data_file(path: Path) -> DataFile:
    data = path.read_bytes()
    return DataFile("handwritten", hashlib.sha256(data).hexdigest(), len(data), False)


@pytest.fixture
def open_locomo(tmp_path: Path) -> Callable[..., LoCoMo]:
    """Writes samples to a file and opens it."""

    def open_it(*samples: Json, captions: bool = True) -> LoCoMo:
        path = tmp_path / "chats.json"
        path.write_text(json.dumps(samples))
        return LoCoMo(path, data_file(path), captions)

    return open_it


@pytest.fixture
def open_longmemeval(tmp_path: Path) -> Callable[..., LongMemEval]:
    """Writes instances to a file and opens it with an index kept under the test's folder."""

    def open_it(*instances: Json, indent: int | None = None) -> LongMemEval:
        path = tmp_path / "instances.json"
        path.write_text(json.dumps(instances, indent=indent))
        return LongMemEval(path, data_file(path), tmp_path / "cache")

    return open_it


@pytest.fixture
def chat() -> Json:
    """A LoCoMo sample of two sessions."""
    return {
        "sample_id": "conv-x",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Bo",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "I have a boat."},
                {
                    "speaker": "Bo",
                    "dia_id": "D1:2",
                    "text": "Look!",
                    "blip_caption": "a red kite",
                    "query": "kite sky secretword",
                },
            ],
            "session_2_date_time": "12:09 am on 9 May, 2023",
            "session_2": [{"speaker": "Bo", "dia_id": "D2:1", "text": "I sold the kite."}],
        },
        "qa": [
            {"question": "What has Ann?", "answer": "a boat", "evidence": ["D1:1"], "category": 4},
            {"question": "How many?", "answer": 1, "evidence": ["D1:1", "D2:1"], "category": 1},
        ],
    }


@pytest.fixture
def instance() -> Json:
    """A LongMemEval instance of two sessions."""
    return {
        "question_id": "ab12",
        "question_type": "multi-session",
        "question": "How many cups do I have?",
        "answer": 3,
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/10 (Wed) 10:00"],
        "haystack_session_ids": ["answer_late", "answer_early"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "One more cup.", "has_answer": True},
                {"role": "assistant", "content": "Nice.", "has_answer": False},
            ],
            [{"role": "user", "content": "I have two cups."}],
        ],
        "answer_session_ids": ["answer_early", "answer_late"],
    }
