"""Each compiled part, and the Python that it replaces."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", params=["compiled", "Python"])
def each_reader(request: pytest.FixtureRequest) -> Iterator[None]:
    """Read with the compiled part in front of the Python, and then with the Python alone."""
    from app.broker import deliveries, firehose

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
    from app.tracker import fifo

    with pytest.MonkeyPatch.context() as patch:
        if request.param == "Python":
            patch.setattr(fifo, "_compiled", None)
        elif fifo._compiled is None:
            pytest.skip("not built")  # if it should have been, `test_fifo.py` fails
        yield
