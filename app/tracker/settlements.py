"""Settlements: what became of deliveries at their consumers, as the broker plugin says it.

The broker's trace has no delivery tags. A channel counts its deliveries from 1, and each is traced:
so they are counted here from the tag that the plugin names when a channel is opened, or later.
Where the count is not known, nothing is.

Deliveries in hand are stored with each event, so that a channel's own state stays small. A channel
of which the plugin said nothing costs one look-up for a delivery, and none before its first word.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable

import msgspec
from msgspec.structs import replace

from app.tracker.events import NO_EVENT_ID, Disposed, Reference, SettledChanges
from app.tracker.records import NOWHERE, Channel, Deliver, Settlement
from model.words import Disposition

# Deliveries in hand, of one channel and of all, which users share. Beyond that they are unknown.
MOST_IN_HAND = 10_000
MOST_HELD = 100_000
MOST_CHANNELS = 20_000
# Queues that one channel takes from, and all together, which users share.
MOST_QUEUES = 1_000
MOST_MANNERS = 100_000


class OpenChannel(msgspec.Struct, array_like=True):
    """A channel whose deliveries are counted: the next has ``next_tag``.

    Nothing is known of those before ``since``. ``is_refused``: the broker closes it, or the count
    is wrong. ``modes``: whether its consumers of a queue are in auto-ack mode; ``got``: whether its
    last get from a queue was; ``former``: ``modes`` when it last said where it stands. ``hand`` are
    the deliveries that it holds, by tag; ``tags`` are these, sorted. Its transaction has settled
    those in ``taken``, and of ``hand`` all up to a tag (``spans``); a rollback undoes that.
    """

    channel: Channel
    pid: str
    next_tag: int
    first_known: int
    transactional: bool
    is_refused: bool = False
    modes: dict[str, bool] = {}
    get_modes: dict[str, bool] = {}
    former: dict[str, bool] = {}
    spans: list[tuple[int, Disposition]] = []
    hand: dict[int, Reference] = {}
    tentative: dict[int, tuple[Reference, Disposition]] = {}
    tags: list[int] = []

    @property
    def last_taken(self) -> int:
        """The last tag up to which its transaction has settled all; 0 without one."""
        return self.spans[-1][0] if self.spans else 0

    @property
    def manners(self) -> int:
        """The number of queues kept in `modes`, `got` and `former`."""
        return len(self.modes) + len(self.get_modes) + len(self.former)

    def hold(self, tag: int, reference: Reference) -> None:
        self.hand[tag] = reference
        insort(self.tags, tag)

    def release(self, tag: int) -> Reference:
        del self.tags[bisect_left(self.tags, tag)]
        return self.hand.pop(tag)

    def release_between(self, first: int, last: int) -> list[Reference]:
        """Release the deliveries behind the ``first`` tag, up to the ``last``."""
        tags = self.tags
        part = slice(bisect_right(tags, first), bisect_right(tags, last))
        released = [self.hand.pop(tag) for tag in tags[part]]
        del tags[part]
        return released


class UserShares:
    """Room for ``limit`` entries that users share.

    A user with less than a fair share still finds room when others have taken all, so up to twice
    as many may be taken.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._count = limit, 0
        self._by_user: Counter[str] = Counter()

    def take(self, user: str, count: int = 1) -> None:
        """Take room for this many; a negative count gives it back."""
        self._count += count
        self._by_user[user] += count
        if not self._by_user[user]:
            del self._by_user[user]

    def are_taken(self, user: str) -> bool:
        """Tell whether a user finds no room any more."""
        if self._count < self._limit:
            return False
        share = self._limit // max(1, len(self._by_user))
        return self._by_user[user] >= share or self._count >= 2 * self._limit


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OpenChannel).decode


class Settlements:
    """The channels of a trace whose deliveries are counted, with the deliveries in their hands."""

    def __init__(
        self,
        stored: Iterable[bytes] = (),
        deliveries: Iterable[tuple[Channel, int, int]] = (),
        last_id: int = 0,
    ) -> None:
        """Go on with stored channels, and their deliveries in hand as `Disposed` and event id.

        ``last_id`` is the last stored event's.
        """
        self._begin()
        for channel_state in map(_decode, stored):
            self._add(channel_state)
        self.is_anew = not self.channels  # channels are to say where they stand
        self.last = Reference(b"", 0, last_id)  # the last event that was stamped
        self._changes = SettledChanges()
        for channel, hold, event_id in deliveries:
            tag, disposition = divmod(hold, 8)
            open_channel, reference = self.channels[channel], Reference(b"", 0, event_id)
            if disposition == Disposition.in_hand:
                open_channel.hold(tag, reference)
            else:
                open_channel.tentative[tag] = reference, Disposition(disposition)
            self._hands.take(channel.user)

    def _begin(self) -> None:
        self.channels: dict[Channel, OpenChannel] = {}
        self._of_users: defaultdict[str, dict[Channel, None]] = defaultdict(dict)
        self._hands, self._manners = UserShares(MOST_HELD), UserShares(MOST_MANNERS)
        self._acted: dict[str, OpenChannel | None] = {}  # by pid; None for those gone

    def _add(self, new: OpenChannel) -> None:
        user = new.channel.user
        self.channels[new.channel], self._of_users[user][new.channel] = new, None
        self._manners.take(user, new.manners)

    def note(self, record: Settlement) -> None:
        """Take in a message of the plugin."""
        if record.event in _ANYWHERE:
            _ANYWHERE[record.event](self, record)
        elif channel := self.channels.get(record.channel):
            self._acted[channel.pid] = channel
            if channel.is_refused and record.event != "closed":
                self._drop(channel)
            else:
                _OF_CHANNELS[record.event](self, channel, record)

    def count_delivery(self, deliver: Deliver, reference: Reference, moment: int) -> None:
        """Count a delivery, which reached us ``moment`` (µs)."""
        channel = self.channels.get(deliver.channel)
        if channel is None:
            return
        self._acted[channel.pid] = channel
        tag, queue, user = channel.next_tag, deliver.queue, channel.channel.user
        count = len(channel.hand) + len(channel.tentative)
        channel.next_tag = tag + 1
        modes = [table[queue] for table in (channel.modes, channel.get_modes) if queue in table]
        is_auto = modes[0] if modes else channel.former.get(queue, False)
        if modes and modes[-1] != is_auto:  # by which of them it came is not known
            self._drop(channel)
        elif is_auto:
            self._changes.settled[reference] = (Disposition.auto, moment, None)
        elif count >= MOST_IN_HAND or self._hands.are_taken(user):
            self._empty(channel)
        else:
            self._hands.take(user)
            self._hold(channel, tag, reference)

    def forget(self, event_id: int = NO_EVENT_ID) -> None:
        """Forget all channels: deliveries may be missing since an event, so no count is right."""
        self._begin()
        self.is_anew = True
        self._changes = self._changes.forget(event_id)

    def lose(self, channel: Channel) -> None:
        """Forget a channel, or all (`NOWHERE`), as one of its records cannot be read."""
        if channel == NOWHERE:
            self.forget()
        elif open_channel := self.channels.get(channel):
            self._drop(open_channel)
            self.is_anew = True

    def changes(self) -> SettledChanges:
        """The changes since the last call."""
        changes, self._changes = self._changes, SettledChanges()
        for pid, channel in self._acted.items():
            bare = channel and replace(channel, hand={}, tentative={}, tags=[])
            changes.channels[pid] = None if bare is None else _encode(bare)
        self._acted = {}
        return changes

    def _count(self, record: Settlement) -> None:
        channel = self.channels.get(record.channel)
        if channel is not None:
            if channel.pid != record.pid:  # its name and number are another's now
                self._drop(channel, (Disposition.channel_closed, record.at, self.last))
            elif channel.is_refused or channel.next_tag != record.next_tag:
                self._drop(channel)
        if record.channel not in self.channels:
            if len(self.channels) >= MOST_CHANNELS:
                busiest = max(self._of_users, key=lambda user: len(self._of_users[user]))
                self._drop(self.channels[next(iter(self._of_users[busiest]))])
            place, tag = record.channel, record.next_tag
            self._add(OpenChannel(place, record.pid, tag, tag, record.transactional))
        self._acted[record.pid] = channel = self.channels[record.channel]
        channel.transactional = record.transactional
        # All of its consumers follow. Deliveries to cancelled ones may come behind this, and before
        # it says again where it stands.
        self._manners.take(channel.channel.user, -len(channel.former) - len(channel.get_modes))
        channel.former, channel.modes, channel.get_modes = channel.modes, {}, {}

    def _begin_node(self, record: Settlement) -> None:
        """Empty all hands of a node, as settlements until now may not have been recorded."""
        for channel in self._on_node(record):
            self._empty(channel)

    def _end_node(self, record: Settlement) -> None:
        for channel in self._on_node(record):
            self._drop(channel)

    def _on_node(self, record: Settlement) -> list[OpenChannel]:
        node = record.channel.node
        return [channel for place, channel in self.channels.items() if place.node == node]

    def _close(self, channel: OpenChannel, record: Settlement) -> None:
        if channel.pid == record.pid:
            self._drop(channel, (Disposition.channel_closed, record.at, self.last))

    def _silence(self, channel: OpenChannel, record: Settlement) -> None:
        self._drop(channel)

    def _consume(self, channel: OpenChannel, record: Settlement) -> None:
        if channel.modes.get(record.queue, record.auto) != record.auto:
            self._drop(channel)
        else:
            self._keep(channel, channel.modes, record)

    def _get(self, channel: OpenChannel, record: Settlement) -> None:
        self._keep(channel, channel.get_modes, record)

    def _keep(self, channel: OpenChannel, modes: dict[str, bool], record: Settlement) -> None:
        user = channel.channel.user
        if record.queue in modes:
            modes[record.queue] = record.auto
        elif len(modes) >= MOST_QUEUES or self._manners.are_taken(user):
            self._drop(channel)
        else:
            self._manners.take(user)
            modes[record.queue] = record.auto

    def _note_settled(self, channel: OpenChannel, record: Settlement) -> None:
        tag, last_taken = record.delivery_tag, channel.last_taken
        if record.multiple and tag == 0:
            tag = channel.tags[-1] if channel.tags else 0
            if tag <= last_taken:
                return
        elif tag not in channel.hand or tag <= last_taken:
            channel.is_refused = tag >= channel.first_known or tag == 0
            return
        disposition = Disposition[record.outcome]
        if not channel.transactional:
            first = 0 if record.multiple else tag - 1
            self._settle(channel, channel.release_between(first, tag), disposition, record.at)
        elif record.multiple:
            channel.spans.append((tag, disposition))
        else:
            channel.tentative[tag] = reference, _ = channel.release(tag), disposition
            self._changes.settled[reference] = (Disposition.in_hand, None, tag * 8 + disposition)

    def _recover(self, channel: OpenChannel, record: Settlement) -> None:
        free = channel.release_between(channel.last_taken, channel.next_tag)
        self._settle(channel, free, Disposition.returned, record.at)

    def _select(self, channel: OpenChannel, record: Settlement) -> None:
        channel.transactional = True

    def _commit(self, channel: OpenChannel, record: Settlement) -> None:
        for last, disposition in channel.spans:
            self._settle(channel, channel.release_between(0, last), disposition, record.at)
        for reference, disposition in channel.tentative.values():
            self._settle(channel, [reference], disposition, record.at)
        channel.spans, channel.tentative = [], {}

    def _roll_back(self, channel: OpenChannel, record: Settlement) -> None:
        for tag, (reference, _) in channel.tentative.items():
            self._hold(channel, tag, reference)
        channel.spans, channel.tentative = [], {}

    def _hold(self, channel: OpenChannel, tag: int, reference: Reference) -> None:
        channel.hold(tag, reference)
        disposition = Disposition.in_hand
        self._changes.settled[reference] = (disposition, None, tag * 8 + disposition)

    def _settle(
        self, channel: OpenChannel, events: Collection[Reference], word: Disposition, moment: int
    ) -> None:
        self._hands.take(channel.channel.user, -len(events))
        self._changes.settled |= dict.fromkeys(events, (word, moment, self.last))

    def _empty(self, channel: OpenChannel, outcome: Disposed | None = None) -> None:
        """Settle all that a channel has in hand, by default as unknown, and count on."""
        outcome = outcome or (None, None, self.last)
        events = [*channel.hand.values(), *(event for event, _ in channel.tentative.values())]
        self._changes.settled |= dict.fromkeys(events, outcome)
        self._hands.take(channel.channel.user, -len(events))
        channel.hand, channel.tentative, channel.first_known = {}, {}, channel.next_tag
        channel.tags, channel.spans = [], []
        self._acted[channel.pid] = channel

    def _drop(self, channel: OpenChannel, outcome: Disposed | None = None) -> None:
        self._empty(channel, outcome)
        place, user = channel.channel, channel.channel.user
        self._manners.take(user, -channel.manners)
        del self.channels[place], self._of_users[user][place]
        if not self._of_users[user]:
            del self._of_users[user]
        self._acted[channel.pid] = None


_ANYWHERE: dict[str, Callable[[Settlements, Settlement], None]] = {
    "channel": Settlements._count,
    "began": Settlements._begin_node,
    "ended": Settlements._end_node,
}
_OF_CHANNELS: dict[str, Callable[[Settlements, OpenChannel, Settlement], None]] = {
    "closed": Settlements._close,
    "silent": Settlements._silence,
    "consumer": Settlements._consume,
    "get": Settlements._get,
    "settled": Settlements._note_settled,
    "recovered": Settlements._recover,
    "selected": Settlements._select,
    "committed": Settlements._commit,
    "rolled_back": Settlements._roll_back,
}
