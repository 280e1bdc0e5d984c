"""Few examples during development, more in `make test`, the same each time.

``HYPOTHESIS_EXAMPLES=2000`` looks for new ones.
"""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from app.broker import deliveries, firehose
from app.tracker import fifo

NEW = os.environ.get("HYPOTHESIS_EXAMPLES")

always = settings(
    database=None,
    deadline=None,  # the machine's load is not the code's fault
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", always, max_examples=10, derandomize=True)
settings.register_profile("thorough", always, max_examples=50, derandomize=True)
settings.register_profile("new", always, max_examples=int(NEW or 1), derandomize=False)
settings.load_profile("new" if NEW else os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(scope="module", params=["compiled", "Python"])
def each_reader(request: pytest.FixtureRequest) -> Iterator[None]:
    """Read with the compiled part in front of the Python, and then with the Python alone."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "Python":
            for module in (deliveries, firehose):
                patch.setattr(module, "_compiled", None)
        elif firehose._compiled is None:
            pytest.skip("not built")  # if it should have been, `test_compiled_wire.py` fails
        yield


@pytest.fixture(scope="module", params=["compiled", "Python"])
def each_memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """Remember in the compiled queue, and then in the one in Python."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "Python":
            patch.setattr(fifo, "_compiled", None)
        elif fifo._compiled is None:
            pytest.skip("not built")  # if it should have been, `test_fifo.py` fails
        yield
