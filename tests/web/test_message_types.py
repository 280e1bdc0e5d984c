"""The page names a message's type as the service does."""

from __future__ import annotations

from tests.unit.test_message_types import CASES
from tests.web.conftest import OpenPage
from tests.web.service import Served


def test_the_page_names_types_as_the_service_does(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo)
    events = [
        {
            "properties": properties,
            "exchange": exchange,
            "routing_keys": list(keys),
            "payload": None if payload is None else payload.decode(),
        }
        for properties, exchange, keys, payload, _ in CASES
    ]
    named = page.evaluate(
        """async (events) => {
          const { typeOf } = await import("/app/core/message-type.js");
          return events.map(typeOf);
        }""",
        events,
    )
    assert named == [expected for *_, expected in CASES]
