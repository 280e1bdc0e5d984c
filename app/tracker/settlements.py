"""Settlements: what became of deliveries at their consumers, as the broker plugin says it.

The broker's trace has no delivery tags. A channel counts its deliveries from 1, and each is traced:
so they are counted here from what the plugin says of a channel, when it was opened or later. What
it then says is settled up to a tag is known by that. Where the count is not known, nothing is.

A channel of which nothing was said costs one look-up for a delivery, and none before the plugin has
said anything at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import takewhile

from msgspec.structs import replace

from app.tracker.events import Disposed, OpenChannel, Reference, SettledChanges
from app.tracker.records import Channel, Deliver, Settlement
from app.tracker.replies import PREFIX
from model.words import Disposition

# Of a channel with more than this in hand nothing of that is known any more; nor of one that would
# take all of them beyond the second.
MOST_IN_HAND = 10_000
MOST_HELD = 100_000
MOST_CHANNELS = 20_000
MOST_QUEUES = 1_000  # that one channel consumes from

_REPLIES = PREFIX.removesuffix(".")
_UNKNOWN: Disposed = (None, None)
_IN_HAND, _AUTO = (Disposition.in_hand, None), Disposition.auto


class Settlements:
    """The channels of a trace whose deliveries are counted, and what they have in hand."""

    def __init__(self, stored: Iterable[OpenChannel] = ()) -> None:
        """Go on with the channels that are stored."""
        self.channels = {each.channel: _restored(each) for each in stored}
        self._held = sum(each.count for each in self.channels.values())
        self._changes = SettledChanges()

    def note(self, said: Settlement) -> None:
        """Take in what the plugin says."""
        if said.event in _OF_NODES:
            _OF_NODES[said.event](self, said)
        elif said.event == "channel":
            self._count(said)
        elif known := self.channels.get(said.channel):
            self._touch(known)
            known.got = None
            _OF_CHANNELS[said.event](self, known, said)

    def handed_over(self, deliver: Deliver, reference: Reference, at: int) -> None:
        """Count a delivery, which reached us ``at`` (µs)."""
        known = self.channels.get(deliver.channel)
        if known is None:
            return
        self._touch(known)
        tag, got = known.next_tag, known.got
        known.next_tag, known.got = tag + 1, None
        is_auto = known.modes.get(deliver.queue, got == deliver.queue)
        if got == deliver.queue and not is_auto:
            is_auto = None  # it may be a consumer's, behind one that got nothing
        if is_auto:
            self._changes.settled[reference] = (_AUTO, at)
        elif known.count >= MOST_IN_HAND or self._held >= MOST_HELD:
            self._lose_hand(known)
        else:
            known.hand[tag] = reference
            self._held += 1
            if is_auto is None:
                known.unsure.add(tag)
            else:
                self._changes.settled[reference] = _IN_HAND

    def published(self, channel: Channel) -> None:
        """Note that something else happened on a channel than a delivery."""
        known = self.channels.get(channel)
        if known is not None and known.got is not None:
            self._touch(known)
            known.got = None

    def forget(self) -> None:
        """Know nothing any more: deliveries may be missing, so that no count is right."""
        self.channels, self._held = {}, 0
        self._changes = SettledChanges(is_anew=True)

    def changes(self) -> SettledChanges:
        """What changed since the last call."""
        changes, self._changes = self._changes, SettledChanges()
        for pid, known in changes.channels.items():
            if known is not None:
                known.is_stored = True
                changes.channels[pid] = replace(
                    known,
                    modes=known.modes.copy(),
                    hand=known.hand.copy(),
                    unsure=known.unsure.copy(),
                    taken=[*known.taken],
                )
        return changes

    def _count(self, said: Settlement) -> None:
        known = self.channels.get(said.channel)
        if known is not None and known.pid != said.pid:
            self._close(known, said.at)  # its name and number are another's now
            known = None
        if known is None:
            if len(self.channels) >= MOST_CHANNELS:
                self._drop(next(iter(self.channels.values())))
            tag = said.next_tag
            known = OpenChannel(said.channel, said.pid, tag, tag, said.transactional)
            self.channels[said.channel] = known
        elif known.next_tag != said.next_tag:
            known.next_tag = said.next_tag
            self._lose_hand(known)
        known.transactional = said.transactional
        self._touch(known)

    def _touch(self, known: OpenChannel) -> None:
        self._changes.channels[known.pid] = known

    def _begin_node(self, said: Settlement) -> None:
        """What was settled on this node until now may not have been recorded."""
        for known in self._on_node(said):
            self._touch(known)
            self._lose_hand(known)

    def _end_node(self, said: Settlement) -> None:
        for known in self._on_node(said):
            self._drop(known)

    def _on_node(self, said: Settlement) -> list[OpenChannel]:
        node = said.channel.node
        return [known for channel, known in self.channels.items() if channel.node == node]

    def _closed(self, known: OpenChannel, said: Settlement) -> None:
        if known.pid == said.pid:
            self._close(known, said.at)

    def _close(self, known: OpenChannel, at: int) -> None:
        known.hand |= {tag: reference for tag, reference, _, is_sure in known.taken if is_sure}
        self._held += len(known.hand) - known.count
        known.taken.clear()
        self._settle(known, [*known.hand], Disposition.returned, at)
        self._drop(known)

    def _consume(self, known: OpenChannel, said: Settlement) -> None:
        # Direct replies have tags, and are not traced before RabbitMQ 4.2.
        if said.queue.startswith(_REPLIES) or len(known.modes) >= MOST_QUEUES:
            self._drop(known)
            return
        before = known.modes.get(said.queue, said.auto)
        known.modes[said.queue] = before if before == said.auto else None

    def _get(self, known: OpenChannel, said: Settlement) -> None:
        # One with acknowledgement is told only behind one without, which it is not to pass for.
        known.got = said.queue if said.auto else None

    def _settled(self, known: OpenChannel, said: Settlement) -> None:
        tag, hand = said.delivery_tag, known.hand
        if tag >= known.next_tag:  # so the count is not right
            self._drop(known)
            return
        tags = [tag] if tag in hand else []
        if said.multiple:
            if tag == 0:
                tags = [*hand]
            elif tags or tag < known.since:  # otherwise the broker closes the channel over it
                tags = [*takewhile(lambda each: each <= tag, hand)]
        self._settle(known, tags, Disposition[said.outcome], said.at, tag)

    def _settle(
        self,
        known: OpenChannel,
        tags: list[int],
        how: Disposition,
        at: int,
        named: int | None = None,
    ) -> None:
        """Take tags out of hand, by a method that has ``named`` one, or because all go back.

        Of what is unsure only the one that is named was in hand for sure.
        """
        for tag in tags:
            reference = known.hand.pop(tag)
            is_sure = tag not in known.unsure or tag == named
            known.unsure.discard(tag)
            if known.transactional and named is not None:
                known.taken.append((tag, reference, how, is_sure))
                continue
            self._held -= 1
            if is_sure:
                self._changes.settled[reference] = (how, at)

    def _recover(self, known: OpenChannel, said: Settlement) -> None:
        self._settle(known, [*known.hand], Disposition.returned, said.at)

    def _select(self, known: OpenChannel, said: Settlement) -> None:
        known.transactional = True

    def _commit(self, known: OpenChannel, said: Settlement) -> None:
        for _, reference, how, is_sure in known.taken:
            if is_sure:
                self._changes.settled[reference] = (how, said.at)
        self._held -= len(known.taken)
        known.taken = []

    def _roll_back(self, known: OpenChannel, said: Settlement) -> None:
        back = {tag: reference for tag, reference, _, _ in known.taken}
        known.unsure |= {tag for tag, _, _, is_sure in known.taken if not is_sure}
        known.taken = []
        known.hand = dict(sorted((back | known.hand).items()))

    def _lose_hand(self, known: OpenChannel) -> None:
        """Know nothing of what was handed over on a channel until now, and count on."""
        for reference in (*known.hand.values(), *[each[1] for each in known.taken]):
            self._changes.settled[reference] = _UNKNOWN
        self._held -= known.count
        known.hand, known.unsure, known.taken = {}, set(), []
        known.since = known.next_tag

    def _drop(self, known: OpenChannel) -> None:
        self._lose_hand(known)
        del self.channels[known.channel]
        if known.is_stored:
            self._changes.channels[known.pid] = None
        else:
            self._changes.channels.pop(known.pid, None)


_OF_NODES: dict[str, Callable[[Settlements, Settlement], None]] = {
    "began": Settlements._begin_node,
    "ended": Settlements._end_node,
}
_OF_CHANNELS: dict[str, Callable[[Settlements, OpenChannel, Settlement], None]] = {
    "closed": Settlements._closed,
    "consumer": Settlements._consume,
    "get": Settlements._get,
    "settled": Settlements._settled,
    "recovered": Settlements._recover,
    "selected": Settlements._select,
    "committed": Settlements._commit,
    "rolled_back": Settlements._roll_back,
}


def _restored(known: OpenChannel) -> OpenChannel:
    hand = {tag: Reference(b"", 0, event_id) for tag, event_id in sorted(known.hand.items())}
    taken = [(tag, Reference(b"", 0, event_id), *how) for tag, event_id, *how in known.taken]
    return replace(known, hand=hand, taken=taken, is_stored=True)
