"""Conversations as the model meets them: dated sessions in tags, and dated lines of its own writing."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from pytest_dshmem.offline.dates import first_date, with_dates_resolved, written

_SESSION = re.compile(r'<session\b[^>]*?\bdate="(?P<date>[^"]*)"[^>]*>\n?(?P<body>.*?)</session>', re.DOTALL)
_FINISHED = re.compile(
    r'<finished_session\b[^>]*?recorded_on="(?P<date>[^"]*)"[^>]*>(?P<body>.*)</finished_session>', re.DOTALL
)
_MESSAGE = re.compile(r'<message from="(?P<role>[^"]*)">\n(?P<text>.*?)\n</message>', re.DOTALL)
_LABEL = re.compile(r"^(?P<speaker>\w[\w .'’-]{0,39}): ?(?P<text>.*)$")
_LINE_NUMBER = re.compile(r"^\s*\d+(?:\t|→|\||:| {2,})\s*")
_MARKUP = ("#", "<", "- [", "---", "description:")
_WRITTEN_LINE = re.compile(r"^- \((?P<date>[^)]*)\) (?P<speaker>[^:]{1,40}): (?P<text>.*)$")


@dataclass(frozen=True, slots=True)
class Line:
    """Something said: who, when (None if unknown), and the words with relative dates made absolute."""

    said_on: date | None
    speaker: str
    text: str

    def written(self) -> str:
        """The line as it stands in a memory file."""
        return f"- ({written(self.said_on) if self.said_on else 'undated'}) {self.speaker}: {self.text}"


@dataclass(frozen=True, slots=True)
class Remark:
    """One turn of a session: a speaker and a text that may span several lines."""

    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Session:
    """One sitting: its date as written and as a date (None if unreadable), its body, and its remarks."""

    date_text: str
    said_on: date | None
    body: str
    remarks: tuple[Remark, ...]

    @property
    def speakers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(remark.speaker for remark in self.remarks))

    def line(self, remark: Remark, text: str) -> Line:
        """A remark's text, or a part of it, as a line of this session."""
        flat = " ".join(text.split())
        dated = with_dates_resolved(flat, self.said_on) if self.said_on else flat
        return Line(self.said_on, remark.speaker, dated)


def sessions_in(text: str) -> tuple[Session, ...]:
    """The `<session date="…">` blocks of a text, in order."""
    return tuple(_session(match["date"], match["body"]) for match in _SESSION.finditer(text))


def finished_session_in(text: str) -> Session | None:
    """The conversation of a `<finished_session>`: the dated session told in it, or else its own messages."""
    finished = _FINISHED.search(text)
    if finished is None:
        return None
    told = sessions_in(finished["body"])
    if told:
        return told[0]
    remarks = tuple(Remark(match["role"], match["text"]) for match in _MESSAGE.finditer(finished["body"]))
    return (
        Session(finished["date"], first_date(finished["date"]), finished["body"], remarks)
        if remarks
        else None
    )


def lines_in(text: str) -> tuple[Line, ...]:
    """The lines of a memory text, with or without line numbers.

    Where none has the form that `Line.written` gives, each line that is not markup is an undated line.
    """
    plain = [_LINE_NUMBER.sub("", raw).strip() for raw in text.splitlines()]
    ours = tuple(
        Line(first_date(match["date"]), match["speaker"], match["text"])
        for match in map(_WRITTEN_LINE.match, plain)
        if match
    )
    return ours or tuple(Line(None, "", line) for line in plain if line and not line.startswith(_MARKUP))


def _session(date_text: str, body: str) -> Session:
    return Session(date_text, first_date(date_text), body, tuple(_remarks(body)))


def _remarks(body: str) -> Iterator[Remark]:
    speakers = _speakers(body)
    speaker, gathered = "", list[str]()
    for line in body.splitlines():
        label = _LABEL.match(line)
        if label and label["speaker"] in speakers:
            if any(gathered):
                yield Remark(speaker, "\n".join(gathered).strip())
            speaker, gathered = label["speaker"], [label["text"]]
        else:
            gathered.append(line)
    if any(gathered):
        yield Remark(speaker, "\n".join(gathered).strip())


def _speakers(body: str) -> frozenset[str]:
    """Who speaks in a session: `user` and `assistant`, or else the two commonest labels at line starts."""
    labels = Counter(label["speaker"] for line in body.splitlines() if (label := _LABEL.match(line)))
    roles = frozenset(labels) & {"user", "assistant"}
    return roles or frozenset(name for name, _ in labels.most_common(2))
