"""Conversations as the fake server tells them: computed plainly, from all events each time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from app.stored.filters import HEADER
from tests.web import history
from tests.web.history import Event
from tests.web.world import BY_NAME, World, bad_request, iso

WAYS = ("links", "conversation", "any")
MOST_EVENTS = 5000
# Parameters of the list that are filters of events.
FOUND_BY = ("message_id", "correlation_id", "conversation", "q")


def type_of(event: Event) -> str:
    return event.kind or (f"{event.exchange}/{event.key}" if event.exchange else event.key)


class Web:
    """What led to what, for one way of looking."""

    def __init__(self, events: list[Event], via: str) -> None:
        self.events = events
        self.deliveries: dict[int, list[Event]] = defaultdict(list)
        self.publishes: dict[int, list[Event]] = defaultdict(list)
        self.via = via
        for event in events:
            if event.received:
                # A publish that was not observed goes by its delivery.
                self.deliveries[event.cause or event.id].append(event)
            for cause in self.causes(event):
                self.publishes[cause].append(event)

    def causes(self, event: Event) -> list[int]:
        """The deliveries that led to a publish."""
        if event.received:
            return []
        by_link = event.prompt if event.named or self.via == "conversation" else 0
        return sorted(number for number in (by_link, *event.also) if number)

    def root(self, event: Event) -> Event:
        while True:
            if event.received and event.cause:
                event = self.events[event.cause - 1]
            elif causes := self.causes(event):
                event = self.events[causes[0] - 1]
            else:
                return event

    def members(self, root: Event) -> list[Event]:
        """The publishes of a conversation, by event id."""
        found = {root.id: root}
        todo = [root]
        while todo:
            for delivery in self.deliveries[todo.pop().id]:
                for publish in self.publishes[delivery.id]:
                    if publish.id not in found:
                        found[publish.id] = publish
                        todo.append(publish)
        if self.via == "conversation" and root.correlation_id:
            found |= {
                e.id: e
                for e in self.events
                if not e.received
                and e.vhost == root.vhost
                and e.correlation_id == root.correlation_id
            }
        return [found[number] for number in sorted(found)]


def conversation(world: World, event: Event, query: Mapping[str, str]) -> dict[str, Any]:
    via = query.get("via", "links")
    limit = int(query.get("limit", 1000))
    if via not in WAYS or not 1 <= limit <= MOST_EVENTS:
        raise bad_request(f"via is one of {', '.join(WAYS)}; limit is 1 to {MOST_EVENTS}")
    web = Web(world.events, via)
    root = web.root(event)
    members = web.members(root)
    if via == "any":
        later = history.future(world.events, root)
        members = [e for e in world.events if e.id in later and not e.received]
    return Told(world, web, event, root, members).answer(limit, int(query.get("after", 0)))


class Told:
    """One conversation with its times."""

    def __init__(
        self, world: World, web: Web, event: Event, root: Event, members: list[Event]
    ) -> None:
        self.world, self.web, self.event, self.root = world, web, event, root
        self.members = members
        self.deliveries = {e.id: web.deliveries[e.id] for e in members}
        unseen = {e.id for e in members if e.received}
        known = {e.id for e in members}
        self.leads_to = {
            d.id: [e for e in web.publishes[d.id] if e.id in known]
            for copies in self.deliveries.values()
            for d in copies
        }
        seen = [e for e in members if e.id not in unseen]
        self.all = sorted([*seen, *(d for c in self.deliveries.values() for d in c)])
        self.end = max(self.all, key=lambda e: (e.at, e.id))
        self.slack = self._slacks()
        self.path = self._critical_path()

    def before(self, event: Event) -> list[Event]:
        """The events of the conversation that an event had to wait for."""
        if event.received and not event.cause:
            return []
        if event.received:
            of = self.deliveries.get(event.cause, ())
            same = [d for d in of if self.copy(d) == self.copy(event) and d.id < event.id]
            return [same[-1] if same else self.world.events[event.cause - 1]]
        known = [self.world.events[cause - 1] for cause in self.web.causes(event)]
        return [e for e in known if e.id in self.leads_to]

    def copy(self, delivery: Event) -> str | None:
        """The queue that a delivery's copy was routed to."""
        if delivery.match == "dead_lettered":
            return str(delivery.headers["x-death"][0]["queue"])
        return delivery.queue

    def _slacks(self) -> dict[int, float]:
        after: dict[int, list[Event]] = defaultdict(list)
        for event in self.all:
            for cause in self.before(event):
                after[cause.id].append(event)
        slack: dict[int, float] = {}
        for event in reversed(self.all):
            found = [(self.end.at - event.at) / 1e6]
            for effect in after[event.id]:
                last = max(self.before(effect), key=lambda e: e.at)
                found.append(slack[effect.id] + (last.at - event.at) / 1e6)
            slack[event.id] = min(found[1:] or found)
        return slack

    def _critical_path(self) -> list[int]:
        path = [self.end]
        while before := self.before(path[-1]):
            path.append(max(before, key=lambda e: e.at))
        return [event.id for event in reversed(path)]

    def answer(self, limit: int, after: int) -> dict[str, Any]:
        messages = [self.message(event) for event in self.members]
        seconds = self.offset(self.end)
        shown: list[dict[str, Any]] = []
        room = limit
        rest = [one for one in messages if one["event"] > after]
        for one in rest:
            room -= 1 + sum(len(copy["deliveries"]) for copy in one["copies"])
            if room < 0 and shown:
                break
            shown.append(one)
        truncated = len(shown) < len(rest)
        people = {e.participant for e in self.all}
        outcome = self.outcome(messages)
        counts = self.counts(messages, len(people))
        most = max(self.members, key=lambda e: (self.fan(e), -e.id))
        return {
            "event": self.event.id,
            "root": self.root.id,
            "other_roots": self.other_roots(),
            "vhost": self.root.vhost,
            "via": self.web.via,
            "type": type_of(self.root),
            "outcome": outcome,
            "sentence": self.sentence(counts, messages, seconds),
            "began_at": iso(self.root.at),
            "ended_at": iso(self.end.at),
            "seconds": seconds,
            "counts": counts,
            "keys": [self.root.correlation_id] if self.root.correlation_id else [],
            "participants": [{"number": n, "name": self.name(n)} for n in sorted(people)],
            "messages": shown,
            "critical_path": self.path,
            "amplification": {"most": self.fan(most), "event": most.id},
            "loops": [],
            "truncated": truncated,
            "next": shown[-1]["event"] if truncated else None,
            **self.world.certainty_json(self.root.vhost, self.root.id, self.end.id),
        }

    def other_roots(self) -> list[int]:
        found = set()
        for event in self.members:
            for cause in self.web.causes(event)[1:]:
                found.add(self.web.root(self.world.events[cause - 1]).id)
        return sorted(found - {self.root.id})[:20]

    def fan(self, event: Event) -> int:
        return sum(len(self.leads_to[d.id]) for d in self.deliveries[event.id])

    def name(self, number: int) -> str:
        people = self.world.traces[self.root.vhost].simulation.participants
        return people[number - 1].name

    def offset(self, event: Event) -> float:
        return (event.at - self.root.at) / 1e6

    def message(self, event: Event) -> dict[str, Any]:
        causes = self.web.causes(event)
        queues = [event.queue] if event.received else event.routed or ()
        copies = [self.copy_json(event, str(queue)) for queue in queues]
        failure = self.failure(event, copies)
        waiting = any(copy["state"] == "waiting" for copy in copies)
        how = None
        if causes:
            how = BY_NAME if event.named else {"rule": None, "kind": "conversation"}
        return {
            "event": event.id,
            "unseen": event.received,
            "type": type_of(event),
            "exchange": event.exchange,
            "routing_key": event.key,
            "participant": None if event.received else event.participant,
            "at": iso(event.at),
            "cause": causes[0] if causes else None,
            "how": how,
            "causes": causes,
            "offset": self.offset(event),
            "outcome": "failed" if failure else "waiting" if waiting else "done",
            "failure": failure,
            "slack": self.slack[event.id],
            "critical": event.id in self.path,
            "copies": copies,
        }

    def failure(self, event: Event, copies: list[dict[str, Any]]) -> dict[str, Any] | None:
        if event.routed == ():
            return {"kind": "unroutable", "queue": None, "reason": None, "exception": None}
        for copy in copies:
            if copy["state"] == "dead_lettered":
                dead = next(d for d in self.deliveries[event.id] if d.match == "dead_lettered")
                reason = dead.headers["x-death"][0]["reason"]
                return {
                    "kind": "died",
                    "queue": copy["queue"],
                    "reason": reason,
                    "exception": dead.headers.get("x-exception"),
                }
        return None

    def copy_json(self, event: Event, queue: str) -> dict[str, Any]:
        mine = [d for d in self.deliveries[event.id] if self.copy(d) == queue]
        dead = [d.queue for d in mine if d.match == "dead_lettered"]
        state = "dead_lettered" if dead else "handed_over" if mine else "waiting"
        return {
            "queue": queue,
            "state": state,
            "dead_lettered_to": dead,
            "remark": None,
            "deliveries": [self.delivery_json(d) for d in mine],
        }

    def delivery_json(self, event: Event) -> dict[str, Any]:
        effects = self.leads_to[event.id]
        handled = max((e.at - event.at for e in effects), default=None)
        [before] = self.before(event) or [event]
        return {
            "event": event.id,
            "participant": event.participant,
            "at": iso(event.at),
            "offset": self.offset(event),
            "match": event.match,
            "redelivered": event.redelivered,
            "queue": event.queue,
            "queued": (event.at - before.at) / 1e6,
            "handled": None if handled is None else handled / 1e6,
            "handled_until": None if handled is None else "published",
            "slack": self.slack[event.id],
            "critical": event.id in self.path,
            "leads_to": [e.id for e in effects],
        }

    def outcome(self, messages: list[dict[str, Any]]) -> str:
        outcomes = {one["outcome"] for one in messages}
        return next((word for word in ("failed", "waiting") if word in outcomes), "done")

    def counts(self, messages: list[dict[str, Any]], participants: int) -> dict[str, int]:
        copies = [copy for one in messages for copy in one["copies"]]
        deliveries = [d for copy in copies for d in copy["deliveries"]]
        return {
            "messages": len(messages),
            "deliveries": len(deliveries),
            "redeliveries": sum(d["redelivered"] for d in deliveries),
            "deaths": sum(copy["state"] == "dead_lettered" for copy in copies),
            "waiting": sum(copy["state"] == "waiting" for copy in copies),
            "participants": participants,
        }

    def sentence(
        self, counts: dict[str, int], messages: list[dict[str, Any]], seconds: float
    ) -> str:
        more = counts["messages"] - 1
        led = f"{more} more message{'s' * (more != 1)}" if more else "no other message"
        text = f"{type_of(self.root)} led to {led} in {seconds:.1f} s"
        failed = next((one["failure"] for one in messages if one["failure"]), None)
        if counts["deaths"]:
            text += f"; {counts['deaths']} died in {failed['queue'] if failed else 'a queue'}"
        if counts["waiting"]:
            verb = "was" if counts["waiting"] == 1 else "were"
            text += f"; {counts['waiting']} {verb} not handed over yet"
        return text


def listed(world: World, query: Mapping[str, str]) -> dict[str, Any]:
    """The conversations of the events that fit, newest root first."""
    limit = int(query.get("limit", 50))
    before = int(query.get("before", 2**62))
    web = Web(world.events, query.get("via", "links"))
    found: dict[int, Event] = {}
    for event in matching(world, query):
        root = web.root(event)
        found[root.id] = root
    items: list[dict[str, Any]] = []
    for number in sorted(found, reverse=True):
        if number >= before:
            continue
        root = found[number]
        whole = Told(world, web, root, root, web.members(root)).answer(MOST_EVENTS, 0)
        if fits(whole, query):
            items.append(summary(whole))
        if len(items) > limit:
            break
    truncated = len(items) > limit
    items = items[:limit]
    return {
        "items": items,
        "truncated": truncated,
        "next": items[-1]["root"] if truncated else None,
        "looked_at": len(found),
        "since": iso(min(e.at for e in found.values())) if found else None,
    }


def matching(world: World, query: Mapping[str, str]) -> Iterator[Event]:
    names = [name for name in query if name in FOUND_BY or name.startswith(HEADER)]
    wanted = {name: query[name] for name in ("vhost", "since", "until") if query.get(name)}
    tests = world.tests(wanted | {name: query[name] for name in names})
    return (event for event in world.events if all(test(event) for test in tests))


def fits(told: dict[str, Any], query: Mapping[str, str]) -> bool:
    people = {str(one["number"]): one["name"] for one in told["participants"]}
    return (
        query.get("outcome", told["outcome"]) == told["outcome"]
        and query.get("type", told["type"]) in {one["type"] for one in told["messages"]}
        and float(query.get("min_seconds", 0)) <= told["seconds"]
        and told["seconds"] <= float(query.get("max_seconds", "inf"))
        and ("participant" not in query or query["participant"] in people)
        and ("participant_name" not in query or query["participant_name"] in people.values())
    )


def summary(told: dict[str, Any]) -> dict[str, Any]:
    names = ("root", "vhost", "type", "began_at", "seconds", "outcome", "counts", "keys")
    return {
        **{name: told[name] for name in (*names, "sentence", "truncated")},
        "participants": [one["name"] for one in told["participants"]],
    }


# ---- stories ------------------------------------------------------------------------------------


class Story:
    """Writes events into a world by hand, at milliseconds since the story began."""

    def __init__(self, world: World, order: str, vhost: str = "/") -> None:
        self.world, self.order = world, order
        self.trace = world.start_trace(vhost, 5)
        self.began = self.trace.simulation.now + 1_000_000

    def publish(
        self,
        at: float,
        who: int,
        kind: str,
        routed: tuple[str, ...],
        *after: int,
        named: bool = True,
    ) -> int:
        """`after`: the deliveries that led to it; returns the event's id."""
        simulation = self.trace.simulation
        simulation.now = self.began + round(at * 1000)
        number = len(self.world.events) + 1
        event = simulation._event(
            number,
            simulation.participants[who - 1],
            received=False,
            match="none",
            cause=None,
            exchange="orders",
            queue=None,
            key=kind,
            routed=routed,
            payload=f'{{"order": "{self.order}", "item": "lamp"}}'.encode(),
            headers={"tenant": "acme"},
        )._replace(
            prompt=after[0] if after else 0,
            also=tuple(after[1:]),
            named=named and bool(after),
            message_id=f"m-{number}",
            correlation_id=self.order,
            kind=kind,
        )
        return self._keep(event)

    def deliver(
        self,
        at: float,
        who: int,
        publish: int,
        queue: str,
        match: str = "routed",
        died: dict[str, Any] | None = None,
    ) -> int:
        """`died`: the x-death entry of a message that comes out of a dead letter queue."""
        simulation = self.trace.simulation
        simulation.now = self.began + round(at * 1000)
        of = self.world.events[publish - 1]
        event = simulation._event(
            len(self.world.events) + 1,
            simulation.participants[who - 1],
            received=True,
            match=match,
            cause=of,
            exchange="dlx" if died else of.exchange,
            queue=queue,
            key=of.key,
            routed=None,
            payload=of.payload,
            headers=of.headers | ({"x-death": [died]} if died else {}),
        )._replace(message_id=of.message_id, correlation_id=of.correlation_id, kind=of.kind)
        return self._keep(event)

    def _keep(self, event: Event) -> int:
        self.trace.simulation.last[event.participant] = event
        self.world.events.append(event)
        self.trace.note(event)
        return event.id


SHOP, BILLING, STOCK, MAILER, AUDITOR = 1, 2, 3, 4, 5


def tell_order(world: World, order: str = "order-1234") -> int:
    """A fan-out, a retry, a join, a dead letter, and something that waits; the root's id."""
    story = Story(world, order)
    root = story.publish(0, SHOP, "order.new", ("billing", "stock", "audit"))
    story.deliver(20, BILLING, root, "billing")
    stocked = story.deliver(35, STOCK, root, "stock")
    story.deliver(60, AUDITOR, root, "audit")
    reserved = story.publish(310, STOCK, "stock.reserved", ("ship",), stocked)
    here = story.deliver(330, MAILER, reserved, "ship")
    billed = story.deliver(900, BILLING, root, "billing", "redelivered")
    paid = story.publish(1400, BILLING, "payment.done", ("ship",), billed)
    receipt = story.publish(1410, BILLING, "receipt.print", ("printer",), billed)
    there = story.deliver(1440, MAILER, paid, "ship")
    story.deliver(1460, STOCK, receipt, "printer")
    shipped = story.publish(1900, MAILER, "order.shipped", ("mail.out", "audit"), here, there)
    story.deliver(1925, AUDITOR, shipped, "audit")
    death = {"queue": "printer", "reason": "rejected", "count": 1}
    story.deliver(2103, AUDITOR, receipt, "orders.dead", "dead_lettered", death)
    return root


def tell_plain(world: World, order: str = "order-77") -> int:
    """An order that went well."""
    story = Story(world, order)
    root = story.publish(0, SHOP, "order.new", ("billing",))
    billed = story.deliver(15, BILLING, root, "billing")
    paid = story.publish(140, BILLING, "payment.done", ("audit",), billed)
    story.deliver(152, AUDITOR, paid, "audit")
    return root


def tell_batch(world: World, messages: int = 1000, order: str = "batch-1") -> int:
    """A generated conversation of many messages."""
    story = Story(world, order)
    random = story.trace.simulation.random
    queues = ("billing", "stock", "ship", "audit")
    root = story.publish(0, SHOP, "batch.start", queues[:2])
    todo = [(root, queue) for queue in queues[:2]]
    at, made = 0.0, 1
    while todo:
        publish, queue = todo.pop(random.randrange(min(len(todo), 20)))
        at += random.uniform(1, 9)
        who = 2 + queues.index(queue)
        delivery = story.deliver(at, who, publish, queue)
        for _ in range(0 if made >= messages else max(1, random.randrange(4))):
            if made < messages:
                made += 1
                at += random.uniform(0.5, 3)
                target = queues[random.randrange(4)]
                effect = story.publish(at, who, f"item.{target}", (target,), delivery)
                todo.append((effect, target))
    return root
