"""What a run took on average per session and per question, for the plan of a larger one."""

from pytest_dshmem.experiment.estimating import Averages, Phase, Spending
from pytest_dshmem.report.ledger import PHASES, PhaseLedger, account, work_items
from pytest_dshmem.report.reading import RunReading


def measured_averages(reading: RunReading) -> Averages:
    """Averages by condition and phase, failed and repeated attempts included.

    A phase is left out where nothing was done, or where tokens went unseen: their mean would be too low.
    """
    averages: dict[tuple[str, Phase], Spending] = {}
    for condition in reading.conditions:
        items = work_items(reading.narrowed(condition))
        for phase in PHASES:
            spent = account(items[phase])
            if spent.items and not spent.at_least:
                averages[condition, phase] = _average(spent)
    return averages


def _average(spent: PhaseLedger) -> Spending:
    whole = Spending(
        calls=spent.calls.total or 0,
        input=spent.input.total or 0,
        cache_read=spent.cache_read.total or 0,
        cache_write=spent.cache_write.total or 0,
        output=spent.output.total or 0,
    )
    return whole.times(1 / spent.items)
