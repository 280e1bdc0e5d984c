"""Orders whose messages say what they are and what caused them, written event by event."""

from __future__ import annotations

from typing import Any

from tests.web.history import Event, death
from tests.web.past import Past

# A message may name one cause by each of these.
NAMING = ("causation_id", "x-causation-id")


class Story:
    """Writes events into a world by hand, at milliseconds since the story began."""

    def __init__(self, world: Past, order: str, item: str = "lamp") -> None:
        self.world, self.order, self.item = world, order, item
        self.trace = world.start_trace("/", 5)
        self.began = self.trace.simulation.now + 1_000_000

    def publish(
        self,
        at: float,
        who: int,
        kind: str,
        routed: tuple[str, ...],
        *after: int,
        named: bool = True,
        **more: Any,
    ) -> int:
        """`after`: the deliveries that led to it, `more` what else it is; returns its id."""
        simulation = self.trace.simulation
        simulation.now = self.began + round(at * 1000)
        number = len(self.world.events) + 1
        causes = [self.world.events[self.world.events[n - 1].cause - 1].message_id for n in after]
        return self._keep(
            simulation._event(
                number,
                simulation.participants[who - 1],
                received=False,
                match="none",
                cause=None,
                exchange="orders",
                queue=None,
                key=kind,
                routed=routed,
                payload=f'{{"order": "{self.order}", "item": "{self.item}"}}'.encode(),
                headers={
                    "tenant": "acme",
                    **(dict(zip(NAMING, causes, strict=False)) if named else {}),
                },
            )
            ._replace(
                prompt=after[0] if after else 0,
                also=tuple(after[1:]),
                named=named and bool(after),
                message_id=f"m-{number}",
                correlation_id=self.order,
                kind=kind,
            )
            ._replace(**more)
        )

    def deliver(
        self,
        at: float,
        who: int,
        publish: int,
        queue: str,
        match: str = "routed",
        died: str | None = None,
    ) -> int:
        """`died`: the queue in which it died that comes out of a dead letter queue."""
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
            headers=of.headers | ({"x-death": [death(died, of)]} if died else {}),
        )._replace(message_id=of.message_id, correlation_id=of.correlation_id, kind=of.kind)
        return self._keep(event)

    def _keep(self, event: Event) -> int:
        self.trace.simulation.last[event.participant] = event
        self.world.add(event)
        return event.id


SHOP, BILLING, STOCK, MAILER, AUDITOR = 1, 2, 3, 4, 5


def tell_order(world: Past, order: str = "order-1234") -> int:
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
    story.deliver(2103, AUDITOR, receipt, "orders.dead", "dead_lettered", "printer")
    return root


def tell_plain(world: Past, order: str = "order-77") -> int:
    """An order that went well."""
    story = Story(world, order)
    root = story.publish(0, SHOP, "order.new", ("billing",))
    billed = story.deliver(15, BILLING, root, "billing")
    paid = story.publish(140, BILLING, "payment.done", ("audit",), billed)
    story.deliver(152, AUDITOR, paid, "audit")
    return root


def tell_batch(world: Past, messages: int = 1000, order: str = "batch-1") -> int:
    """A generated conversation of many messages."""
    story = Story(world, order, item="lot")
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


def tell_failures(world: Past, times: int) -> None:
    """Each time one message that dies, one that comes back, one given up, one for nobody."""
    for number in range(times):
        story = Story(world, f"failing-{number}")
        root = story.publish(0, SHOP, "order.new", ("stock", "billing", "mail.out"))
        story.deliver(10, STOCK, root, "stock")
        story.deliver(12, AUDITOR, root, "dead.orders", "dead_lettered", "stock")
        story.deliver(20, BILLING, root, "billing")
        for again in range(3):
            story.deliver(21 + again, BILLING, root, "billing", "redelivered")
        story.deliver(30, MAILER, root, "mail.out")
        said = {
            "MT-Fault-ExceptionType": "System.TimeoutException",
            "MT-Fault-Message": "the mail server did not answer",
            "MT-Fault-InputAddress": "rabbitmq://host/v/mail.out",
        }
        publish = world.events[root - 1]
        same = {"message_id": publish.message_id, "headers": publish.headers | said}
        story.publish(33, MAILER, "order.new", ("mail.out_error",), **same)
        story.publish(40, SHOP, "nobody.listens", ())
