"""What a test here needs is a moment: no servers, no processes, no random runs."""

import gc
import sys

import pytest


def pytest_collection_finish() -> None:
    """Leave what was imported out of the collections of garbage that follow."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep Hypothesis's plugin from importing all of it, to say that it found nothing."""
    plugin = session.config.pluginmanager.get_plugin("hypothesispytest")
    if plugin is not None and "hypothesis" not in sys.modules:
        session.config.pluginmanager.unregister(plugin)
