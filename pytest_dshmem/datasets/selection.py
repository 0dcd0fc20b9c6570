"""Which questions to ask: fixed small selections, lists of the user's own, and the split for development.

The rule behind the fixed lists, so that anyone can derive them again: questions are ordered by the SHA-256
of `<seed>:<id>`, which is the same on every machine. A stratum is a category, its abstention questions apart.

- `smoke` holds one question of each category, and one abstention question where the data set has any. Samples
  are taken that cover the most of what is missing, so that few histories need to be formed.
- `stratified` holds about 50 questions, each stratum's share rounded by largest remainder and at least one.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pytest_dshmem.datasets.views import Benchmark, DataError, Listing

SelectionRule = Literal["smoke", "stratified"]
Split = Literal["dev", "held-out"]
Stratum = tuple[str, bool]

SEED = "pytest-dshmem 1"
STRATIFIED_SIZE = 50
DEV_PERCENT = 20
DEV_CONVERSATIONS = frozenset({"conv-26", "conv-41", "conv-47", "conv-a"})
"""LoCoMo's development conversations (three of the ten) and that of the sample corpus."""

_LISTS = Path(__file__).resolve().parent / "selections"
_NAMED_IN_ERRORS = 3


def read_selection(name_or_file: str, benchmark: Benchmark) -> frozenset[str]:
    """The question ids of `full`, `smoke`, `stratified`, or of a file with one id a line and `#` comments.

    The two small selections are fixed lists for the published data sets. For a sample corpus they are derived
    on the spot by the same rule. Raises DataError for an unreadable file, an empty one, or ids that the data
    set does not have.
    """
    listings = benchmark.listings()
    if name_or_file == "full":
        return frozenset(listing.question_id for listing in listings)
    if name_or_file in ("smoke", "stratified"):
        if benchmark.file.sample_corpus:
            rule: SelectionRule = "smoke" if name_or_file == "smoke" else "stratified"
            return frozenset(derive_selection(listings, rule))
        return _read_list(_LISTS / f"{benchmark.name}-{name_or_file}.txt", listings)
    return _read_list(Path(name_or_file), listings)


def selection_label(name_or_file: str) -> str:
    """What records call a selection: its name; for a file its name and a hash of what is in it, but no path.

    The file has been read as a selection before.
    """
    if name_or_file in ("full", "smoke", "stratified"):
        return name_or_file
    path = Path(name_or_file)
    return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def derive_selection(listings: Sequence[Listing], rule: SelectionRule, seed: str = SEED) -> tuple[str, ...]:
    """The ids that a rule selects from a data set, in data-set order."""
    ranked = sorted(listings, key=lambda listing: _rank(seed, listing.question_id))
    chosen = frozenset(_smoke(ranked, seed) if rule == "smoke" else _stratified(ranked))
    return tuple(listing.question_id for listing in listings if listing.question_id in chosen)


def split_of(sample_id: str, benchmark_name: str) -> Split:
    """Whether a sample is for tuning on (`dev`) or for reporting (`held-out`). Fixed for every sample.

    LoCoMo is split by conversation, see DEV_CONVERSATIONS: questions of one conversation share its memory.
    LongMemEval is split by the hash of the id, about one in five for development.
    """
    if benchmark_name == "locomo":
        return "dev" if sample_id in DEV_CONVERSATIONS else "held-out"
    return "dev" if int(_rank(SEED, sample_id), 16) % 100 < DEV_PERCENT else "held-out"


def _rank(seed: str, text: str) -> str:
    return hashlib.sha256(f"{seed}:{text}".encode()).hexdigest()


def _smoke(ranked: Sequence[Listing], seed: str) -> Iterable[str]:
    """One question for each category and one abstention, from as few samples as a greedy choice finds."""
    by_sample: dict[str, dict[str, str]] = defaultdict(dict)
    for listing in ranked:
        wanted = "abstention" if listing.abstention else listing.category
        by_sample[listing.sample_id].setdefault(wanted, listing.question_id)
    missing = {wanted for offered in by_sample.values() for wanted in offered}
    while missing:
        best = min(
            by_sample, key=lambda sample: (-len(missing & by_sample[sample].keys()), _rank(seed, sample))
        )
        for wanted in missing & by_sample[best].keys():
            yield by_sample[best][wanted]
        missing -= by_sample[best].keys()


def _stratified(ranked: Sequence[Listing]) -> Iterable[str]:
    strata: dict[Stratum, list[str]] = defaultdict(list)
    for listing in ranked:
        strata[listing.category, listing.abstention].append(listing.question_id)
    shares = _shares({stratum: len(ids) for stratum, ids in strata.items()}, STRATIFIED_SIZE)
    for stratum, ids in strata.items():
        yield from ids[: shares[stratum]]


def _shares(sizes: Mapping[Stratum, int], total: int) -> dict[Stratum, int]:
    """Seats for each stratum in proportion to its size, by largest remainder, and never none."""
    everything = sum(sizes.values())
    total = min(total, everything)
    exact = {stratum: size * total / everything for stratum, size in sizes.items()}
    shares = {stratum: int(share) for stratum, share in exact.items()}
    by_remainder = sorted(exact, key=lambda stratum: (shares[stratum] - exact[stratum], stratum))
    for stratum in by_remainder[: total - sum(shares.values())]:
        shares[stratum] += 1
    return {stratum: max(1, share) for stratum, share in shares.items()}


def _read_list(path: Path, listings: Sequence[Listing]) -> frozenset[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(
            f"The selection {path} cannot be read ({error.strerror}): give smoke, stratified, full, "
            "or a file with one question id a line."
        ) from None
    except UnicodeDecodeError:
        raise DataError(f"The selection {path} is not a text file: give one question id a line.") from None
    ids = [text for line in lines if (text := line.partition("#")[0].strip())]
    known = {listing.question_id for listing in listings}
    unknown = [each for each in dict.fromkeys(ids) if each not in known]
    if unknown:
        named = ", ".join(repr(each) for each in unknown[:_NAMED_IN_ERRORS])
        more = f" and {len(unknown) - _NAMED_IN_ERRORS} more" if len(unknown) > _NAMED_IN_ERRORS else ""
        raise DataError(f"The selection {path} names {named}{more}, which the data set does not have.")
    if not ids:
        raise DataError(f"The selection {path} is empty: give one question id a line.")
    return frozenset(ids)
