"""Ten formations at once against one alone.

python benchmarks/formations.py [--samples 10] [--sessions 10] [--latency 2] [--repeat 1]

Every formation has a runtime of its own and takes two model calls or more a session. What is measured is
the time from the end of collection until the last memory is frozen.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from figures import Figure, median_of, parser_for, ratio, show
from suite_runs import run_suite, scratch

from pytest_dshmem.offline.process import StandIn
from pytest_dshmem.record.run_directory import RunDirectory

BOUND = 1.6
PEOPLE = ("Ilse", "Marek")
PLACES = ("the harbour", "a pottery class", "the allotment", "a choir rehearsal", "the night market")
THINGS = ("a green bicycle", "two clay bowls", "a sack of chestnuts", "an old accordion", "a map of the moor")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October")
TURNS = 20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--samples", type=int, default=10, help="formations, and units in flight")
    parser.add_argument("--sessions", type=int, default=10, help="sessions a formation")
    parser.add_argument("--latency", type=float, default=2.0, help="seconds a model call")
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args(arguments)
    with scratch() as folder:
        file = folder / "locomo10.json"
        samples = [conversation(number, options.sessions) for number in range(options.samples)]
        file.write_text(json.dumps(samples), encoding="utf-8")

        def once() -> list[Figure]:
            return [measure(file, options.samples, options.latency)]

        return show(median_of(options.repeat, once))


def measure(file: Path, samples: int, latency: float) -> Figure:
    with StandIn.start(latency=latency) as model:
        alone = seconds_to_form(file, model.url, samples, ["-k", "walk-0-"])
        together = seconds_to_form(file, model.url, samples, [])
    return ratio(f"{samples} formations over one", together, alone, BOUND)


def seconds_to_form(file: Path, url: str, concurrency: int, selection: list[str]) -> float:
    """Seconds from the end of collection until the last memory of a run is frozen."""
    with scratch() as folder:
        arguments = [
            "suites/locomo",
            "--mode=memory",
            "--dshmem-no-judge",
            "--dshmem-allow-unpinned",
            f"--dshmem-data={file}",
            f"--dshmem-run={folder / 'run'}",
            f"--dshmem-concurrency={concurrency}",
            *selection,
        ]
        done = run_suite(arguments, url).require()
        formed = RunDirectory.open(folder / "run").formations.read().entries
    end: float = max(formation.started_at + formation.seconds for formation in formed)
    return end - done.moments["collected"]["time"]


def conversation(number: int, sessions: int) -> dict[str, object]:
    """One sample in LoCoMo's format, with one question. Its text is of no consequence, only its size."""
    told: dict[str, object] = {"speaker_a": PEOPLE[0], "speaker_b": PEOPLE[1]}
    for session in range(1, sessions + 1):
        month = MONTHS[session % len(MONTHS)]
        told[f"session_{session}_date_time"] = f"{1 + session % 12}:15 pm on {session} {month}, 2023"
        told[f"session_{session}"] = [turn(number, session, place) for place in range(1, TURNS + 1)]
    return {
        "sample_id": f"walk-{number}-",
        "conversation": told,
        "qa": [
            {
                "question": f"What did {PEOPLE[0]} find at {PLACES[number % 5]}?",
                "answer": THINGS[number % 5],
                "evidence": ["D1:1"],
                "category": 4,
            }
        ],
        "event_summary": {},
        "observation": {},
        "session_summary": {},
    }


def turn(sample: int, session: int, place: int) -> dict[str, str]:
    thing = THINGS[(sample + session + place) % len(THINGS)]
    where = PLACES[(sample + place) % len(PLACES)]
    return {
        "speaker": PEOPLE[place % 2],
        "dia_id": f"D{session}:{place}",
        "text": f"On round {sample}.{session}.{place} I came past {where} and found {thing} there.",
    }


if __name__ == "__main__":
    sys.exit(main())
