"""The OpenAPI document against the whole service: a real broker, stored events, Spark's jobs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.examiner import examine
from tests.docs.conftest import Installation, installed
from tools.servers import RabbitNode

# The service, which makes nobody wait: wrong credentials are among what is tried.
PATIENT = """
from functools import partial
from app.api import parameters
from app.api.signin import auth
from app.cli import main
parameters.WAIT_SECONDS = 0.05
auth.BrokerAuthenticator = partial(auth.BrokerAuthenticator, failures=10**9)
main()
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Installation]:
    """A service with a broker of its own: random requests start and stop its traces."""
    program = (sys.executable, "-c", PATIENT)
    more = {"ITC_AUTH_CACHE_SECONDS": "60"}
    with RabbitNode() as node, installed(node, tmp_path, program, **more) as running:
        yield running


@pytest.mark.timeout(7_200)
@pytest.mark.long(100)
async def test_requests_made_from_the_document_find_nothing(
    own: Installation, tmp_path: Path
) -> None:
    await asyncio.to_thread(own.with_orders, "/", "1005")
    credentials = f"{own.broker.user}:{own.broker.password}"

    # Single bounds of each parameter are tested in tests/api, with fakes, and by `make examine`.
    phases = ("examples", "fuzzing", "stateful")
    assert await examine(own.url, credentials, tmp_path, 3, *phases) > 50
