"""Everything that one run's records say, loaded once and never changed.

A reading can be narrowed to one condition or one repeat; what comes out is a reading again. Whatever computes
a figure takes a reading, so a figure for the whole run and one for a condition come from the same code.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pytest_dshmem.experiment.judging.item import judge_items, verdicts_for
from pytest_dshmem.record.entries import (
    Consolidation,
    Formation,
    FormationKey,
    Hypothesis,
    Ingestion,
    QuestionKey,
    ReferenceText,
    Selected,
    Verdict,
)
from pytest_dshmem.record.fingerprint import FieldValue, flatten
from pytest_dshmem.record.run_directory import RunDirectory, RunManifest

MISSING = "missing"
NOT_FORMED = "not-formed"

Key = TypeVar("Key")
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Group:
    """One column of a report: the questions of one condition in one repeat."""

    condition: str
    repeat: int = 1

    @property
    def label(self) -> str:
        """`memory`, and `memory #2` for its second repeat."""
        return self.condition if self.repeat == 1 else f"{self.condition} #{self.repeat}"


@dataclass(frozen=True, slots=True)
class RunReading:
    """One run's records. The mappings hold the latest record of each key, the tuples hold every record.

    `protocols` are the keys of the judge protocols in the order of their first use. `protocol` is the one
    that the run is read under, and None where nothing was judged. `torn` counts, by file name, the lines that
    a crash cut short.
    """

    path: Path
    manifest: RunManifest
    selected: tuple[Selected, ...]
    formations: Mapping[FormationKey, Formation]
    hypotheses: Mapping[QuestionKey, Hypothesis]
    verdicts_by_protocol: Mapping[str, Mapping[QuestionKey, Verdict]]
    references: Mapping[str, ReferenceText]
    all_ingestions: tuple[Ingestion, ...]
    all_consolidations: tuple[Consolidation, ...]
    all_formations: tuple[Formation, ...]
    all_hypotheses: tuple[Hypothesis, ...]
    all_verdicts: tuple[Verdict, ...]
    protocols: tuple[str, ...]
    protocol: str | None
    torn: Mapping[str, int]

    @property
    def verdicts(self) -> Mapping[QuestionKey, Verdict]:
        """The latest verdicts on the present hypotheses, under the protocol of this reading."""
        return self.verdicts_by_protocol.get(self.protocol or "", {})

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions in the order of the selection."""
        return tuple(dict.fromkeys(chosen.key.condition for chosen in self.selected))

    @property
    def groups(self) -> tuple[Group, ...]:
        """Every condition and repeat that questions were selected for, in the order of the selection."""
        return tuple(dict.fromkeys(Group(c.key.condition, c.key.repeat) for c in self.selected))

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories of the selection, in the data set's order where the manifest holds it."""
        present = dict.fromkeys(chosen.category for chosen in self.selected)
        declared = self.manifest.facts.get("categories", ())
        ordered = [str(category) for category in declared if category in present]
        return tuple(dict.fromkeys([*ordered, *present]))

    def setting(self, name: str) -> FieldValue:
        """A setting or a fact of the manifest by its dotted name; None where the manifest is silent."""
        if name in self.manifest.settings:
            return self.manifest.settings[name]
        return flatten(self.manifest.facts).get(name)

    def formation_of(self, chosen: Selected) -> Formation | None:
        """The formation whose snapshot a selected question starts from, if it has ended."""
        return self.formations.get(
            FormationKey(sample_id=chosen.sample_id, condition=chosen.key.condition, repeat=chosen.key.repeat)
        )

    def state_of(self, chosen: Selected) -> str:
        """How the asking of a selected question ended.

        A question without a record is `not-formed` where its formation failed, and `missing` otherwise.
        """
        hypothesis = self.hypotheses.get(chosen.key)
        if hypothesis is not None:
            return hypothesis.state
        formation = self.formation_of(chosen)
        return NOT_FORMED if formation is not None and formation.state == "failed" else MISSING

    def narrowed(self, condition: str | None = None, repeat: int | None = None) -> "RunReading":
        """The same run as if it held nothing but one condition, one repeat, or one of both."""

        def wanted(key: FormationKey | QuestionKey) -> bool:
            return condition in (None, key.condition) and repeat in (None, key.repeat)

        return replace(
            self,
            selected=tuple(e for e in self.selected if wanted(e.key)),
            formations={k: e for k, e in self.formations.items() if wanted(k)},
            hypotheses={k: e for k, e in self.hypotheses.items() if wanted(k)},
            verdicts_by_protocol={
                protocol: {k: e for k, e in verdicts.items() if wanted(k)}
                for protocol, verdicts in self.verdicts_by_protocol.items()
            },
            all_ingestions=tuple(e for e in self.all_ingestions if wanted(e.key)),
            all_consolidations=tuple(e for e in self.all_consolidations if wanted(e.key)),
            all_formations=tuple(e for e in self.all_formations if wanted(e.key)),
            all_hypotheses=tuple(e for e in self.all_hypotheses if wanted(e.key)),
            all_verdicts=tuple(e for e in self.all_verdicts if wanted(e.key)),
        )

    def of(self, group: Group) -> "RunReading":
        """This reading narrowed to one group."""
        return self.narrowed(group.condition, group.repeat)


def read_run(path: Path, protocol: str | None = None) -> RunReading:
    """Loads a run, to be read under the judge protocol with this key, or else under the one chosen last.

    Raises RecordError where there is no run, or where a record cannot be understood.
    """
    return reading_of(RunDirectory.open(path), protocol)


def reading_of(run: RunDirectory, protocol: str | None = None) -> RunReading:
    """The same of a run that is open: what it has read of its journals already is not read again."""
    selection = run.selection.read()
    formations = run.formations.read()
    hypotheses = run.hypotheses.read()
    verdicts = run.verdicts.read()
    references = run.references.read()
    ingestions = run.ingestions.read()
    consolidations = run.consolidations.read()
    journals = {
        run.selection.path.name: selection.torn,
        run.ingestions.path.name: ingestions.torn,
        run.consolidations.path.name: consolidations.torn,
        run.formations.path.name: formations.torn,
        run.hypotheses.path.name: hypotheses.torn,
        run.verdicts.path.name: verdicts.torn,
        run.references.path.name: references.torn,
    }
    used = tuple(dict.fromkeys(verdict.protocol for verdict in verdicts))
    latest_hypotheses = _latest(hypotheses, lambda entry: entry.key)
    latest_references = _latest(references, lambda entry: entry.question_id)
    return RunReading(
        path=run.path,
        manifest=run.manifest,
        selected=tuple(_latest(selection, lambda entry: entry.key).values()),
        formations=_latest(formations, lambda entry: entry.key),
        hypotheses=latest_hypotheses,
        verdicts_by_protocol={
            name: _fitting(
                [verdict for verdict in verdicts if verdict.protocol == name],
                latest_hypotheses,
                latest_references,
            )
            for name in used
        },
        references=latest_references,
        all_ingestions=ingestions.entries,
        all_consolidations=consolidations.entries,
        all_formations=formations.entries,
        all_hypotheses=hypotheses.entries,
        all_verdicts=verdicts.entries,
        protocols=used,
        protocol=protocol or _chosen_last(run.manifest, verdicts.entries),
        torn={name: count for name, count in journals.items() if count},
    )


def _chosen_last(manifest: RunManifest, verdicts: Sequence[Verdict]) -> str | None:
    """The manifest's protocol: verdicts that were known already leave no newer line in the journal."""
    chosen = manifest.facts.get("judge")
    if chosen is not None:
        return str(chosen)
    return verdicts[-1].protocol if verdicts else None


def _fitting(
    verdicts: Sequence[Verdict],
    hypotheses: Mapping[QuestionKey, Hypothesis],
    references: Mapping[str, ReferenceText],
) -> dict[QuestionKey, Verdict]:
    """The latest verdict on each question that was passed on its present hypothesis.

    A question that was asked again after it was judged is not judged yet. Where the run leaves question and
    gold text out this cannot be told, and the latest verdict counts.
    """
    answered = [hypothesis for hypothesis in hypotheses.values() if hypothesis.answered]
    told = [hypothesis for hypothesis in answered if hypothesis.key.question_id in references]
    untold = {hypothesis.key for hypothesis in answered} - {hypothesis.key for hypothesis in told}
    protocol = verdicts[0].protocol
    checked = verdicts_for(judge_items(told, references), verdicts, protocol)
    latest = _latest(verdicts, lambda entry: entry.key)
    return {key: checked.get(key, entry) for key, entry in latest.items() if key in checked or key in untold}


def _latest(records: Iterable[Record], key: Callable[[Record], Key]) -> dict[Key, Record]:
    """One record a key, the last one written; keys in the order of their first appearance."""
    return {key(record): record for record in records}
