"""The broker, for a trace: the firehose, and switching it on and off."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal, NoReturn

import msgspec
from msgspec.structs import replace

from app.broker.bundles import PLUGIN, bundles_queue, wishes
from app.broker.consumer import Firehose, Reading, TraceStream
from app.broker.management import ManagementApi, Node, QueueInfo
from app.broker.marks import MarkPublisher, keys, takes_default
from app.broker.outages import VirtualHostError, in_use_by_another, printable
from app.broker.passing import PassingStream
from app.broker.trace_queue import (
    Bookmark,
    QueueState,
    bookmarks,
    fault,
    feeds_plugin,
    guard_policy,
    is_others,
    keys_bound_to,
    state,
)
from app.broker.undeliverable import Waiting, read_messages
from app.errors import ForeignQueueError, NotFoundError, OutageError, QueueTakenError
from app.tracker.records import QUARANTINED_BODY
from app.tracker.taken import ALL, Selection, covers

# Time for the broker to show some messages, and to show those that it removes: a deeply nested one
# takes it seconds.
SHOW_SECONDS = 5.0
REMOVE_SECONDS = 30.0
CUT_OFF_SECONDS = 1.5
# The plugin looks at its queues ten times a second.
GIVEN_UP_SECONDS = 2.0


# All kinds of hand-overs in the broker's counts; redeliveries are among them.
HANDED_OVER = ("deliver", "deliver_no_ack", "get", "get_no_ack")


class BrokerCounts(msgspec.Struct, frozen=True):
    """The broker's counters of a virtual host, less hand-overs by trace queues.

    Those are counted apart, a moment earlier or later, so the rest is known within bounds.
    ``started`` is the time at which each running node started (about, s since the epoch), with the
    names of the trace queues: whenever it changes, the counters begin anew.
    """

    publishes: int
    deliveries_at_least: int
    deliveries_at_most: int
    started: dict[str, int]


class TraceSource:
    """Opens streams of trace messages, and switches tracing, for every virtual host."""

    def __init__(
        self, firehose: Firehose, management: ManagementApi, *, guard: bool = False
    ) -> None:
        """``guard`` keeps policies for other queues off ours, by one of our own."""
        self._guard = guard
        self._firehose = firehose
        self._management = management
        # Before 4.3.3 the broker loses all but one of concurrent changes of tracing.
        self._switching = asyncio.Lock()

    @asynccontextmanager
    async def open(
        self,
        vhost: str,
        prefetch: int,
        sentinel: str | None = None,
        taken: Selection = ALL,
        before: Selection = ALL,
        *,
        again: int = 0,
        passing: bool = False,
    ) -> AsyncIterator[TraceStream]:
        """Consume the trace queue of a virtual host, created if it is missing.

        ``sentinel`` is the token that should be at its head, if one is known. The queue is bound
        for the selection ``taken``, which replaces ``before``. ``again`` messages at most were
        handed out before. ``passing`` reads past messages that the broker cannot hand over, and
        past the sentinel: the head may be a bad message. Raises `OutageError`, and
        `ForeignQueueError` if a queue with that name cannot be ours.
        """
        token = None if passing else sentinel
        planned = await self._plan_reading(vhost, prefetch, token, taken, before)
        reading = replace(planned, again=again)
        if not passing:
            async with self._name_outages(vhost), self._firehose.open(vhost, reading) as stream:
                yield stream
            return
        if reading.quorum:
            await self._give_up(vhost, prefetch)
        async with (
            self._name_outages(vhost),
            self._firehose.open_idle(
                vhost, reading, PassingStream, guarded=False
            ) as passing_stream,
        ):
            passing_stream.begin(sentinel, partial(self._head, vhost))
            yield passing_stream

    async def check_firehose(self) -> None:
        """Raise `BadRequestError` for a broker that has no firehose."""
        await self._management.version()

    async def has_vhost(self, vhost: str) -> bool:
        return vhost in await self._management.vhosts()

    async def switch_on(self, vhost: str) -> list[str]:
        """Switch tracing on wherever it is off; returns the nodes where it was off."""
        async with self._switching:
            try:
                return await self._management.set_tracing(vhost, True)
            except NotFoundError as error:
                raise _no_vhost(vhost) from error

    async def nodes(self) -> frozenset[str]:
        return frozenset(node.name for node in await self._management.nodes() if node.running)

    async def switch_off(self, vhost: str) -> None:
        """Switch tracing off, unless another program's queue is bound to the trace exchange."""
        async with self._switching:
            if await self._trace_targets(vhost) <= {self._firehose.queue}:
                await self._management.set_tracing(vhost, False)

    async def _trace_targets(self, vhost: str) -> set[str]:
        """The queues and exchanges that trace messages go to, ours and others'.

        The plugin's own have no counters; what they give goes to those.
        """
        targets = {binding.destination for binding in await self._management.bindings(vhost)}
        return targets - {bundles_queue(target) for target in targets}

    async def unknown(self, vhost: str, selection: Selection) -> list[str]:
        """Patterns of a selection that match no exchange or queue now, in words.

        Raises `OutageError`.
        """
        return [
            *await self._unknown(vhost, "exchanges", selection.exchanges),
            *await self._unknown(vhost, "queues", selection.queues),
        ]

    async def _unknown(
        self, vhost: str, kind: Literal["exchanges", "queues"], patterns: Sequence[str] | None
    ) -> list[str]:
        uncovered = list(patterns or ())
        if not uncovered:
            return []
        try:
            async for names in self._management.names(vhost, kind):
                uncovered = [
                    pattern
                    for pattern in uncovered
                    if not any(covers(pattern, name) for name in names)
                ]
                if not uncovered:
                    break
        except NotFoundError as error:
            raise _no_vhost(vhost) from error
        return [f"{kind.removesuffix('s')} {pattern!r}" for pattern in uncovered]

    async def look(self, vhost: str, selection: Selection = ALL) -> QueueState:
        """Look at the trace queue: its declaration, its bindings, and its fill."""
        queue = await self.queue(vhost, self._firehose.queue)
        if queue is None:  # a lost stream is the consumer's to report
            return QueueState()
        bound_now = await self._bound_keys(vhost)
        queue_state = state(
            queue,
            self._firehose.bounds,
            wanted=self._keys(selection),
            bound=[key for key in bound_now if not bookmarks([key])],
        )
        if self._guard and queue_state.harm and queue.policy != self._firehose.queue:
            await self._management.set_policy(
                vhost,
                self._firehose.queue,
                guard_policy(self._firehose.queue, self._firehose.bounds),
            )
        return queue_state

    async def counts(self, vhost: str) -> BrokerCounts | None:
        """The counters of a virtual host's channels, less hand-overs of trace messages.

        None if the broker keeps no statistics, or has none yet. Raises `OutageError`.
        """
        try:
            queues = sorted(await self._trace_targets(vhost))
            count_before = await self._count_handovers(vhost, queues)
            stats = (await self._management.vhost_counts(vhost)).message_stats
            count_after = await self._count_handovers(vhost, queues)
        except NotFoundError as error:
            raise _no_vhost(vhost) from error
        if stats is None:
            return None
        deliveries = _sum(stats, HANDED_OVER)
        return BrokerCounts(
            publishes=_sum(stats, ("publish",)),
            deliveries_at_least=deliveries - count_after,
            deliveries_at_most=deliveries - count_before,
            # With a queue that others trace into, what it handed over leaves the sum.
            started=_start_times(await self._management.nodes()) | dict.fromkeys(queues, 0),
        )

    async def mark_publishers(self, vhost: str, taken: Selection = ALL) -> list[MarkPublisher]:
        """Publishers of marks, one for each running node, because each has a tracing of its own.

        Raises `OutageError`.
        """
        nodes = await self._management.amqp_listeners()
        marks = partial(self._firehose.marks, vhost, through_default=takes_default(taken))
        if len(nodes) < 2:
            return [marks()]
        return [marks(node) for node in nodes.values()]

    async def _count_handovers(self, vhost: str, queues: Iterable[str]) -> int:
        """The number of trace messages handed over, to us and to others: no trace shows these."""
        infos = [await self._management.queue(vhost, name) for name in queues]
        return sum(_sum(queue.message_stats or {}, HANDED_OVER) for queue in infos)

    async def _plan_reading(
        self,
        vhost: str,
        prefetch: int,
        sentinel: str | None,
        selection: Selection,
        former: Selection,
    ) -> Reading:
        nodes = await self._management.nodes()
        queue = await self.queue(vhost, self._firehose.queue)
        binding_keys, present = self._keys(selection), frozenset[str]()
        wished, has_bundles = wishes(binding_keys), False
        asked = {*binding_keys, *wished}
        present_bookmarks: list[Bookmark] = []
        if queue is None:
            quorum, was_bound = sum(node.running for node in nodes) > 1, True
            await self._wait_for_plugin(vhost)
        else:
            if is_others(queue, self._firehose.owner):
                raise QueueTakenError(in_use_by_another(vhost, queue.name))
            if reason := fault(queue, self._firehose.bounds):
                raise ForeignQueueError(
                    f"the queue {printable(queue.name)} of the virtual host {printable(vhost)} was "
                    f"made by somebody else ({printable(reason)}), and is created again"
                )
            bindings = await self._management.bindings(vhost)
            present = keys_bound_to(bindings, queue.name)
            has_bundles = feeds_plugin(bindings, queue.name)
            quorum = queue.type == "quorum"
            present_bookmarks = bookmarks(present)
            present -= {bookmark.key for bookmark in present_bookmarks}
            # A crash may have come between the new bindings and the removal of the old ones.
            was_bound = present.issuperset(binding_keys) or present.issuperset(self._keys(former))
        return Reading(
            prefetch,
            has_bundles=has_bundles,
            expects_bundles=bool(wished)
            and not has_bundles
            and any(PLUGIN in (node.enabled_plugins or ()) for node in nodes if node.running),
            wishes=wished,
            quorum=quorum,
            is_cluster=len(nodes) > 1,
            was_bound=was_bound,
            sentinel=sentinel,
            missing=tuple(sorted(asked - present)),
            excess=tuple(sorted(present - asked)),
            bookmarks=tuple(present_bookmarks),
        )

    async def _wait_for_plugin(self, vhost: str) -> None:
        """Wait until the plugin has given up a trace queue that is gone.

        While it is bound in its place, all that goes into a new one comes twice.
        """
        queue, deadline = self._firehose.queue, time.monotonic() + GIVEN_UP_SECONDS
        with contextlib.suppress(NotFoundError):  # of the virtual host, which is told of later
            while feeds_plugin(await self._management.bindings(vhost), queue):
                if time.monotonic() > deadline:
                    break
                await asyncio.sleep(GIVEN_UP_SECONDS / 40)

    @asynccontextmanager
    async def _name_outages(self, vhost: str) -> AsyncIterator[None]:
        """If an outage happened because the virtual host is gone, say so."""
        try:
            yield
        except VirtualHostError as error:
            if await self.has_vhost(vhost):
                raise
            raise _no_vhost(vhost) from error

    async def _give_up(self, vhost: str, prefetch: int) -> NoReturn:
        """Refuse a quorum queue with a message that it can hand to nobody.

        A message that is put back goes behind those put back before (measured on 3.10.8), so none
        can be looked at in its place. A queue with a single active consumer shows none at all.
        """
        messages = await self._head(vhost, prefetch, False)
        if messages and all(message.is_deliverable for message in messages):
            raise OutageError("the broker broke the connection off, over none of our messages")
        raise ForeignQueueError(
            f"the trace queue of {printable(vhost)} is a quorum queue and cannot be read past a "
            "message whose queue or exchange has a name of more than 247 bytes, and is made anew"
        )

    async def _head(self, vhost: str, count: int, remove: bool) -> list[Waiting] | None:
        """The first messages of the trace queue, which are given back or removed.

        None where the broker shows nothing, or takes too long.
        """
        try:
            answer = await self._management.get(
                vhost,
                self._firehose.queue,
                count,
                remove=remove,
                body=QUARANTINED_BODY,
                seconds=REMOVE_SECONDS if remove else SHOW_SECONDS,
            )
        except OutageError:
            if remove:
                raise
            await self._management.own_user()  # this tells whether the whole API is away
            return None
        try:
            return read_messages(answer)
        except ValueError as error:
            raise OutageError(f"the broker's management API is not understood: {error}") from error

    async def queue(self, vhost: str, name: str) -> QueueInfo | None:
        """A queue; None if there is none of this name. Raises `OutageError`."""
        try:
            return await self._management.queue(vhost, name)
        except NotFoundError:
            return None

    async def may_move_unseen(self) -> bool:
        """Tell whether the broker may move messages untraced; raises `OutageError`."""
        return await self._management.may_move_unseen()

    async def _bound_keys(self, vhost: str) -> frozenset[str]:
        bindings = await self._management.bindings(vhost)
        return keys_bound_to(bindings, self._firehose.queue)

    def _keys(self, selection: Selection) -> tuple[str, ...]:
        return keys(self._firehose.queue, selection)

    async def cut_off(self, vhost: str, services: Collection[str]) -> None:
        """Close the connections of these services that consume the trace queue.

        For services that no longer hold the trace: a stopped or partitioned one keeps its
        connection until the broker misses its heartbeats. Returns after `CUT_OFF_SECONDS` at the
        latest: the broker may take long to close a connection to a stopped client. Raises
        `OutageError`.
        """
        reason = "another rabbitmq-itc has taken this trace over"
        with contextlib.suppress(TimeoutError, NotFoundError):
            async with asyncio.timeout(CUT_OFF_SECONDS):
                consumers = await self._management.consumers(vhost, self._firehose.queue)
                for connection, service in consumers.items():
                    if service in services:
                        await self._management.close_connection(connection, reason)

    async def delete_queue(self, vhost: str) -> None:
        """Delete the trace queue with its messages, and our policy for it."""
        await self._firehose.delete_queue(vhost)
        if self._guard:
            await self._management.delete_policy(vhost, self._firehose.queue)


def _no_vhost(vhost: str) -> OutageError:
    return OutageError(
        f"the broker has no virtual host {printable(vhost)} any more: create it again, "
        "or stop this trace"
    )


def _sum(stats: Mapping[str, Any], names: Iterable[str]) -> int:
    """The sum of some counters; those that never counted are missing."""
    numbers = [stats.get(name, 0) for name in names]
    return sum(number for number in numbers if type(number) is int)


def _start_times(nodes: Iterable[Node]) -> dict[str, int]:
    """The running nodes, and about when each started: the broker says how long it has run."""
    moment = time.time()
    return {
        node.name: round(moment - node.uptime / 1000)
        for node in nodes
        if node.running and node.uptime is not None
    }
