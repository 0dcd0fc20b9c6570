"""A file of the size and shape of LongMemEval-S, made from the oracle file.

python benchmarks/s_size_file.py OUT.json [--instances 500] [--sessions 48]

The questions and evidence sessions are the oracle's own. The rest of each haystack is drawn, by a seed,
from the evidence sessions of other instances and padded with turns of no meaning to the size of S. It is
for loading only, never for a score. The same arguments make the same file.
"""

import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from figures import parser_for
from suite_runs import oracle_file

DATE = "%Y/%m/%d (%a) %H:%M"
SESSION_CHARACTERS = 11_500
FILLING = "A line that is here for its length alone, as a haystack of this benchmark is long. "
DAYS = 120

Session = tuple[str, str, list[dict[str, Any]]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_for(__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--instances", type=int, default=500)
    parser.add_argument("--sessions", type=int, default=48, help="sessions an instance")
    options = parser.parse_args(arguments)
    write(options.out, options.instances, options.sessions)
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.0f} MB")
    return 0


def write(out: Path, instances: int = 500, sessions: int = 48) -> None:
    """Writes the file, an instance at a time."""
    oracle = json.loads(oracle_file().read_text(encoding="utf-8"))[:instances]
    pool = [session for instance in oracle for session in sessions_of(instance)]
    chance = random.Random(f"{instances}/{sessions}")
    with out.open("w", encoding="utf-8") as file:
        for number, instance in enumerate(oracle):
            file.write("[\n" if number == 0 else ",\n")
            file.write(json.dumps(with_haystack(instance, pool, sessions, chance), indent=4))
        file.write("\n]\n")


def with_haystack(
    instance: Mapping[str, Any], pool: Sequence[Session], count: int, chance: random.Random
) -> dict[str, Any]:
    """An instance with so many sessions in the order of their dates, its own among them."""
    own = list(sessions_of(instance))
    latest = max(moment_of(date) for date, _name, _turns in own)
    drawn = chance.sample(pool, max(0, count - len(own)))
    others = [
        (earlier(latest, chance), f"filling_{place}_{name}", padded(turns))
        for place, (_date, name, turns) in enumerate(drawn)
    ]
    ordered = sorted([*own, *others], key=lambda session: moment_of(session[0]))
    return {
        **instance,
        "haystack_dates": [date for date, _name, _turns in ordered],
        "haystack_session_ids": [name for _date, name, _turns in ordered],
        "haystack_sessions": [turns for _date, _name, turns in ordered],
    }


def sessions_of(instance: Mapping[str, Any]) -> Iterator[Session]:
    yield from zip(
        instance["haystack_dates"],
        instance["haystack_session_ids"],
        instance["haystack_sessions"],
        strict=True,
    )


def moment_of(date: str) -> datetime:
    return datetime.strptime(date, DATE)


def earlier(latest: datetime, chance: random.Random) -> str:
    return (latest - timedelta(minutes=chance.randrange(1, DAYS * 24 * 60))).strftime(DATE)


def padded(turns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Turns without marks of evidence, and one more that fills the session up."""
    kept = [{"role": turn["role"], "content": turn["content"]} for turn in turns]
    lacking = SESSION_CHARACTERS - sum(len(turn["content"]) for turn in kept)
    if lacking > 0:
        kept.append({"role": "assistant", "content": FILLING * (lacking // len(FILLING) + 1)})
    return kept


if __name__ == "__main__":
    sys.exit(main())
