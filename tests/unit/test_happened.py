"""The keys by which people know a conversation, by who wrote them."""

from __future__ import annotations

from typing import Any

import pytest

from model.happened import keys_in


@pytest.mark.parametrize(
    ("properties", "keys"),
    [
        ({"correlation_id": "o-1"}, ["o-1"]),
        ({"headers": {"NServiceBus.ConversationId": "o-1"}}, ["o-1"]),
        ({"headers": {"rbs2-corr-id": "o-1"}, "correlation_id": "o-1"}, ["o-1"]),
        *(
            ({"headers": {f"{prefix}correlationid": "o-1"}}, ["o-1"])
            for prefix in ("cloudEvents:", "cloudEvents_", "ce-")
        ),
        ({"correlation_id": "", "headers": {"root_id": 5, "ConversationId": "x" * 201}}, []),
        (None, []),
    ],
)
def test_a_conversation_is_known_by_the_keys_of_each_convention(
    properties: dict[str, Any] | None, keys: list[str]
) -> None:
    assert [*keys_in(properties)] == keys
