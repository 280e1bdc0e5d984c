"""Large fields are left out of lists where they are too much at once, and read some at a time."""

from __future__ import annotations

from app.store import Store
from app.store.reading.events import AT_ONCE, LIGHT
from app.stored.reading import EventFilter
from model.event import ALL_LARGE, NOTHING_LARGE
from tests.api.story import SHOP, Teller, publish

EVENTS = AT_ONCE // 60_000 + 2


async def test_what_is_too_much_at_once_is_left_out_and_can_be_read(database_url: str) -> None:
    store = await Store.open(database_url, payload_max_bytes=65_536)
    try:
        large = publish(SHOP, "large", body=b"\0" * 60_000)
        small = publish(SHOP, "small", body=b"\0" * LIGHT)
        ids = [*await Teller(store, "/").tell([small, *[large] * EVENTS])]
        found = await store.events.find(EventFilter(), after=0, limit=500)
        page = await store.events.page(EventFilter(), page=1, page_size=500)
        whole = [*await store.events.get_existing(ids)]
        some = await store.events.get_existing(ids[1:3], ALL_LARGE)
        few = await store.events.find(EventFilter(), after=0, limit=3)
        none = await store.events.find(EventFilter(), after=0, limit=500, large=NOTHING_LARGE)
    finally:
        await store.close()

    assert [event.id for event in found.items] == [event.id for event in whole] == ids
    assert found.heavy == dict.fromkeys(ids[1:], 60_000)
    assert [*page.heavy] == ids[:0:-1]
    assert [len(event.payload or b"") for event in found.items] == [LIGHT] + [0] * EVENTS
    assert some == whole[1:3]
    assert (few.items, few.heavy) == (whole[:3], {})
    assert none.heavy == {}


async def test_long_lists_of_names_are_large_too(database_url: str) -> None:
    queues = [f"{number:0200d}" for number in range(500)]
    store = await Store.open(database_url)
    try:
        ids = [*await Teller(store, "/").tell([publish(SHOP, "all", *queues)] * 12)]
        found = await store.events.find(EventFilter(), after=0, large=NOTHING_LARGE)
        some = await store.events.get_existing(ids, NOTHING_LARGE)
    finally:
        await store.close()

    assert [*found.heavy] == ids
    assert {event.routed_queues for event in found.items} == {None}
    assert {event.routed_queues for event in some} == {tuple(queues)}
