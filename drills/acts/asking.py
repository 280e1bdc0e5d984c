"""The service's account of the programs' acts: its stored events, and how it relates them.

Which events an event was `caused` by is what it lists as its causes along links, and how two are
ordered is what their stamps say: both are what a comparison says (`Asked.sample` makes sure), and
can be had for all pairs. Where they say that an act cannot have influenced another, the comparison
itself is asked: it may answer `unknown`.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import httpx2

from app.store import Store
from drills.acts.log import Act, ActKind, Log
from drills.judge import stored_events
from itc import Stamp, compare
from model.event import Event
from model.words import EventType

Key: TypeAlias = tuple[object, ...]
CANNOT = "cannot have"
CAUSED = "caused"


class Sightings:
    """The stored events of acts."""

    def __init__(self, log: Log, events: Sequence[Event]) -> None:
        acts: defaultdict[Key, list[Act]] = defaultdict(list)
        for act in log.acts:
            if act.kind in (ActKind.publish, ActKind.delivery):
                acts[_key_of_act(act)].append(act)
        self.event_of: dict[int, Event] = {}
        self.unseen: list[Event] = []
        """Stored deliveries that their program never saw: on their way when its session ended."""
        for event in events:
            same = acts.get(_key_of_event(event))
            if same:
                self.event_of[same.pop(0).number] = event
            else:
                self.unseen.append(event)
        self.missing = [act for same in acts.values() for act in same]


def _key_of_act(act: Act) -> Key:
    is_publish = act.kind is ActKind.publish
    where = (act.exchange, act.key) if is_publish else (act.queue, act.redelivered)
    return is_publish, act.session, *where, act.body


def _key_of_event(event: Event) -> Key:
    port = event.connection.partition(" ")[0].rpartition(":")[2]
    is_publish = event.type is EventType.published
    where = (
        (event.exchange, event.routing_keys[0]) if is_publish else (event.queue, event.redelivered)
    )
    return is_publish, f"{port}/{event.channel}", *where, (event.payload or b"").decode()


class Asked:
    """The service's answers, by the numbers of the acts."""

    def __init__(self, url: str, seen: Sightings, client: httpx2.AsyncClient) -> None:
        self._url = url
        self._client = client
        self._events = seen.event_of
        self._act_of = {event.id: number for number, event in self._events.items()}
        self._stamps: dict[int, Stamp] = {n: event.stamp for n, event in self._events.items()}
        self.caused: dict[int, set[int]] = {}
        """The acts that caused an act, of each that was asked for."""

    def relation(self, a: int, b: int) -> str:
        """Name the relation between the stamps of two acts."""
        return compare(self._stamps[a], self._stamps[b]).name

    async def ask_causes(self, numbers: Iterable[int]) -> None:
        """Ask what caused these acts."""
        for number in numbers:
            found: set[int] = set()
            query: dict[str, str | int] = {"via": "links", "limit": 1000, "columns": "id"}
            while True:
                answer = await self._get(f"events/{self._events[number].id}/causes", query)
                found |= {_id(each) for each in answer["items"]}
                if answer.get("next") is None:
                    break
                query["before"] = answer["next"]
            self.caused[number] = {self._act_of[each] for each in found if each in self._act_of}

    async def comparison(self, a: int, b: int) -> dict[str, Any]:
        """Compare two acts."""
        answer: dict[str, Any] = await self._get(
            f"compare/{self._events[a].id}/{self._events[b].id}", {}
        )
        return answer

    async def sample(self, count: int, draw: random.Random) -> tuple[Counter[str], int]:
        """Compare pairs drawn at random: what is answered, and how often otherwise than in bulk."""
        numbers = sorted(self._events)
        answers: Counter[str] = Counter()
        different = 0
        for _ in range(count):
            a, b = sorted(draw.sample(numbers, 2))
            said = await self.comparison(a, b)
            answers[said["answer"]] += 1
            earlier, later = sorted((a, b), key=lambda number: self._events[number].id)
            is_caused = earlier in self.caused[later]
            different += said["relation"] != self.relation(a, b)
            different += is_caused != (said["answer"] == CAUSED)
        return answers, different

    async def _get(self, path: str, query: dict[str, str | int]) -> Any:
        answer = await self._client.get(f"{self._url}/itc_db/{path}", params=query)
        answer.raise_for_status()
        return answer.json()


def _id(item: Any) -> int:
    return int(item["id"])


async def everything(store: Store, vhost: str) -> list[Event]:
    """All stored events of a virtual host."""
    return [event async for event in stored_events(store, vhost)]


async def lost_copies(store: Store, vhost: str) -> list[tuple[int, str]]:
    """The copies that are said to be gone, by publish and queue."""
    trace = await store.traces.find(vhost)
    if trace is None:
        return []
    restored = await store.checkpoints.restore(trace.id, 1)
    return [(cause.id or 0, queue) for queue, _, cause in restored.lost_copies]


@asynccontextmanager
async def asking(port: int, seen: Sightings) -> AsyncIterator[Asked]:
    """Ask the service at a port."""
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        yield Asked(f"http://127.0.0.1:{port}", seen, client)
