"""pytest-xdist: what the controller tells its workers, and what it hears of them.

The work itself needs no scheduler of ours: every worker's engine takes whatever unit is ready and unclaimed
in the run directory, and a test waits for its record, whoever makes it.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_dshmem.face.options import WORKER_KEY, options_as_plain


def register(config: pytest.Config) -> None:
    """Takes part in xdist where it is there."""
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(WorkerLink(), "dshmem-workers")


def is_controller(config: pytest.Config) -> bool:
    """Whether this process only hands out tests to workers."""
    return config.pluginmanager.hasplugin("dsession")


class WorkerLink:
    """Speaks with the workers, in builtins only."""

    def pytest_configure_node(self, node: Any) -> None:
        from pytest_dshmem.face import progress
        from pytest_dshmem.face.session import OFFLINE_URL_KEY, RUN_KEY, session_of

        session = session_of(node.config)
        progress.start(node.config)
        node.workerinput[WORKER_KEY] = options_as_plain(session.options)
        node.workerinput[RUN_KEY] = str(session.run_folder)
        if session.options.offline:
            node.workerinput[OFFLINE_URL_KEY] = session.offline_url()

    def pytest_testnodedown(self, node: Any) -> None:
        from pytest_dshmem.face.problems import remember
        from pytest_dshmem.face.session import PROBLEM_KEY

        problem = getattr(node, "workeroutput", {}).get(PROBLEM_KEY)
        if problem is not None:
            remember(node.config, problem)
