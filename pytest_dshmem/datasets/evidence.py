"""LoCoMo's evidence marks, `D<session>:<turn>`, and the many ways in which the file writes them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_dshmem.datasets.views import EvidencePlace

_MARK = re.compile(r"D:?(\d{1,6}):(\d{1,6})", re.ASCII)


@dataclass(frozen=True, slots=True)
class EvidenceMap:
    """Where the marks of one sample stand: turns by mark, sessions by the number that the file gives them."""

    turns: Mapping[str, EvidencePlace]
    sessions: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The places that marks name. `irregular`: a mark, as written, is no turn's. `stray` marks name none."""

    places: tuple[EvidencePlace, ...]
    irregular: bool
    stray: int


def find_evidence(marks: Sequence[str], known: EvidenceMap) -> Evidence:
    """Reads every mark that can be read. One that points past its session's end still names the session."""
    places: list[EvidencePlace] = []
    stray = 0
    for mark in marks:
        found = read_marks(mark)
        stray += not found
        for session, turn in found:
            place = known.turns.get(f"D{session}:{turn}")
            stray += place is None
            if place is None and session in known.sessions:
                place = EvidencePlace(known.sessions[session])
            if place is not None:
                places.append(place)
    irregular = any(mark not in known.turns for mark in marks)
    return Evidence(tuple(dict.fromkeys(places)), irregular, stray)


def read_marks(text: str) -> list[tuple[int, int]]:
    """Session and turn numbers in a mark's text, which may hold several (`D8:6; D9:17`) or none (`D`)."""
    return [(int(session), int(turn)) for session, turn in _MARK.findall(text)]
