"""pytest-xdist: what the controller tells its workers, and what it hears of them.

The work itself needs no scheduler of ours: every worker's engine takes whatever unit is ready and unclaimed
in the run directory, and a test waits for its record, whoever makes it.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_dshmem.face.options import WORKER_KEY, options_as_plain, wants_plan

HALTED_KEY = "dshmem_halted"


def register(config: pytest.Config) -> None:
    """Takes part in xdist where it is there. A plan is made in one process: it runs nothing to share out."""
    if config.pluginmanager.hasplugin("xdist"):
        if wants_plan(config):
            config.option.dist = "no"
        config.pluginmanager.register(WorkerLink(), "dshmem-workers")


def is_controller(config: pytest.Config) -> bool:
    """Whether this process only hands out tests to workers."""
    return config.pluginmanager.hasplugin("dsession")


class WorkerLink:
    """Speaks with the workers, in builtins only."""

    def pytest_configure_node(self, node: Any) -> None:
        from pytest_dshmem.face import progress
        from pytest_dshmem.face.problems import PROBLEM_KEY
        from pytest_dshmem.face.session import RUN_KEY, TOKEN_KEY, session_of

        try:
            session = session_of(node.config)
        except pytest.UsageError as error:
            # It concerns the user only if a worker collects a suite of ours.
            node.workerinput[PROBLEM_KEY] = str(error)
            return
        progress.start(node.config)
        node.workerinput[WORKER_KEY] = options_as_plain(session.options)
        node.workerinput[RUN_KEY] = str(session.run_folder)
        node.workerinput[TOKEN_KEY] = session.token

    def pytest_testnodedown(self, node: Any) -> None:
        from pytest_dshmem.face.problems import PROBLEM_KEY, remember
        from pytest_dshmem.face.session import session_of

        told = getattr(node, "workeroutput", {})
        if told.get(PROBLEM_KEY) is not None:
            remember(node.config, told[PROBLEM_KEY])
        if told.get(HALTED_KEY) is not None:
            session_of(node.config).halted_in_worker = told[HALTED_KEY]
