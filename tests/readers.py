"""The compiled reader of trace messages, and the Python that it leaves odd ones to."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", params=["compiled", "Python"])
def each_reader(request: pytest.FixtureRequest) -> Iterator[None]:
    """Read with the compiled part in front of the Python, and then with the Python alone."""
    from app.broker import _wire

    with pytest.MonkeyPatch.context() as patch:
        if request.param == "Python":  # the compiled part leaves it all, as if it were odd
            patch.setattr(_wire, "read_deliveries", lambda *_: ([], 0))
            patch.setattr(_wire, "read_trace", lambda *_: None)
        yield
