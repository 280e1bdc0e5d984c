"""Settlements: what became of deliveries at their consumers, as the broker plugin says it.

The broker's trace has no delivery tags. A channel counts its deliveries from 1, and each is traced:
so they are counted here from what the plugin says of a channel, when it was opened or later. What
it then says is settled up to a tag is known by that. Where the count is not known, nothing is.

What a channel has in hand is stored with each event, so that its own state stays small. A channel
of which nothing was said costs one look-up for a delivery, and none before the plugin has said
anything at all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable

import msgspec
from msgspec.structs import replace

from app.tracker.events import NEVER, Disposed, Reference, SettledChanges
from app.tracker.records import NOWHERE, Channel, Deliver, Settlement
from model.words import Disposition

# Of a channel with more than this in hand nothing of that is known any more; nor of one that would
# take all of them beyond the second, which users share.
MOST_IN_HAND = 10_000
MOST_HELD = 100_000
MOST_CHANNELS = 20_000
# Of queues that one channel takes from, and all together, which users share.
MOST_QUEUES = 1_000
MOST_MANNERS = 100_000

_UNKNOWN: Disposed = (None, None, None)


class OpenChannel(msgspec.Struct, array_like=True):
    """A channel whose deliveries are counted: the next has ``next_tag``.

    Of those before ``since`` nothing is known. ``is_refused``: the broker closes it, or the count
    is wrong. ``modes``: whether its consumers of a queue are in auto-ack mode; ``got``: whether its
    last get from a queue was; ``former``: of which it consumed when it last said where it stands.
    ``hand`` is what it holds, by tag; ``tags`` are those, sorted. Its transaction has settled what
    is ``taken``, and of ``hand`` all that is up to a tag (``spans``): a rollback undoes it, and
    what it costs is not what the channel holds.
    """

    channel: Channel
    pid: str
    next_tag: int
    since: int
    transactional: bool
    is_refused: bool = False
    modes: dict[str, bool] = {}
    got: dict[str, bool] = {}
    former: dict[str, bool] = {}
    spans: list[tuple[int, Disposition]] = []
    hand: dict[int, Reference] = {}
    taken: dict[int, tuple[Reference, Disposition]] = {}
    tags: list[int] = []

    @property
    def last_taken(self) -> int:
        """The last tag up to which its transaction has settled all; 0 if it has not."""
        return self.spans[-1][0] if self.spans else 0

    @property
    def manners(self) -> int:
        """The number of queues that are kept of it."""
        return len(self.modes) + len(self.got) + len(self.former)

    def hold(self, tag: int, reference: Reference) -> None:
        """Have a delivery in hand."""
        self.hand[tag] = reference
        insort(self.tags, tag)

    def release(self, tag: int) -> Reference:
        """Have it in hand no more."""
        del self.tags[bisect_left(self.tags, tag)]
        return self.hand.pop(tag)

    def release_between(self, after: int, last: int) -> list[Reference]:
        """Have none in hand any more of those behind a tag, up to another one."""
        tags = self.tags
        part = slice(bisect_right(tags, after), bisect_right(tags, last))
        released = [self.hand.pop(tag) for tag in tags[part]]
        del tags[part]
        return released


class UserShares:
    """Places that users share: one who has few still finds some when others have taken all.

    So up to twice as many may be taken.
    """

    def __init__(self, most: int) -> None:
        self._most, self._taken = most, 0
        self._of: Counter[str] = Counter()

    def take(self, user: str, count: int = 1) -> None:
        """Take this many; fewer than none are given back."""
        self._taken += count
        self._of[user] += count
        if not self._of[user]:
            del self._of[user]

    def are_taken(self, user: str) -> bool:
        """Tell whether a user finds none any more."""
        if self._taken < self._most:
            return False
        share = self._most // max(1, len(self._of))
        return self._of[user] >= share or self._taken >= 2 * self._most


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OpenChannel).decode


class Settlements:
    """The channels of a trace whose deliveries are counted, and what they have in hand."""

    def __init__(
        self,
        stored: Iterable[bytes] = (),
        held: Iterable[tuple[Channel, int, int]] = (),
        last_id: int = 0,
    ) -> None:
        """Go on with stored channels, and what each has in hand: `Disposed`, and the event's id.

        ``last_id`` is the last stored event's.
        """
        self._begin()
        for each in map(_decode, stored):
            self._add(each)
        self.is_anew = not self.channels  # whether channels are to say where they stand
        self.last = Reference(b"", 0, last_id)  # the last event that was stamped
        self._changes = SettledChanges()
        for channel, hold, event_id in held:
            tag, how = divmod(hold, 8)
            known, reference = self.channels[channel], Reference(b"", 0, event_id)
            if how == Disposition.in_hand:
                known.hold(tag, reference)
            else:
                known.taken[tag] = reference, Disposition(how)
            self._held.take(channel.user)

    def _begin(self) -> None:
        self.channels: dict[Channel, OpenChannel] = {}
        self._of_users: defaultdict[str, dict[Channel, None]] = defaultdict(dict)
        self._held, self._manners = UserShares(MOST_HELD), UserShares(MOST_MANNERS)
        self._acted: dict[str, OpenChannel | None] = {}  # by pid; None for those gone

    def _add(self, new: OpenChannel) -> None:
        user = new.channel.user
        self.channels[new.channel], self._of_users[user][new.channel] = new, None
        self._manners.take(user, new.manners)

    def note(self, said: Settlement) -> None:
        """Take in what the plugin says."""
        if said.event in _ANYWHERE:
            _ANYWHERE[said.event](self, said)
        elif known := self.channels.get(said.channel):
            self._acted[known.pid] = known
            if known.is_refused and said.event != "closed":
                self._drop(known)
            else:
                _OF_CHANNELS[said.event](self, known, said)

    def handed_over(self, deliver: Deliver, reference: Reference, at: int) -> None:
        """Count a delivery, which reached us ``at`` (µs)."""
        known = self.channels.get(deliver.channel)
        if known is None:
            return
        self._acted[known.pid] = known
        tag, queue, user = known.next_tag, deliver.queue, known.channel.user
        known.next_tag = tag + 1
        modes = [each[queue] for each in (known.modes, known.got) if queue in each]
        is_auto = modes[0] if modes else known.former.get(queue, False)
        if modes and modes[-1] != is_auto:  # by which of them it came is not known
            self._drop(known)
        elif is_auto:
            self._changes.settled[reference] = (Disposition.auto, at, None)
        elif len(known.hand) + len(known.taken) >= MOST_IN_HAND or self._held.are_taken(user):
            self._empty(known)
        else:
            self._held.take(user)
            self._hold(known, tag, reference)

    def forget(self, after: int = NEVER) -> None:
        """Know nothing any more: deliveries may be missing since an event, so no count is right."""
        self._begin()
        self.is_anew = True
        self._changes = self._changes.forgotten(after)

    def lose(self, channel: Channel) -> None:
        """Know nothing of a channel any more, `NOWHERE`: of all, as a record cannot be read."""
        if channel == NOWHERE:
            self.forget()
        elif known := self.channels.get(channel):
            self._drop(known)
            self.is_anew = True

    def changes(self) -> SettledChanges:
        """What changed since the last call."""
        changes, self._changes = self._changes, SettledChanges()
        acted, self._acted = self._acted, {}
        changes.channels = {
            pid: None if known is None else _encode(replace(known, hand={}, taken={}, tags=[]))
            for pid, known in acted.items()
        }
        return changes

    def _count(self, said: Settlement) -> None:
        known = self.channels.get(said.channel)
        if known is not None and known.pid != said.pid:  # its name and number are another's now
            self._drop(known, (Disposition.returned, said.at, self.last))
        elif known is not None and (known.is_refused or known.next_tag != said.next_tag):
            self._drop(known)
        if said.channel not in self.channels:
            if len(self.channels) >= MOST_CHANNELS:
                busiest = max(self._of_users, key=lambda user: len(self._of_users[user]))
                self._drop(self.channels[next(iter(self._of_users[busiest]))])
            place, tag = said.channel, said.next_tag
            self._add(OpenChannel(place, said.pid, tag, tag, said.transactional))
        self._acted[said.pid] = known = self.channels[said.channel]
        known.transactional = said.transactional
        # Its consumers are told next, all that there are. What others had been handed before they
        # were cancelled may come behind this, and before it says again where it stands.
        self._manners.take(known.channel.user, -len(known.former) - len(known.got))
        known.former, known.modes, known.got = known.modes, {}, {}

    def _begin_node(self, said: Settlement) -> None:
        """What was settled on this node until now may not have been recorded."""
        for known in self._on_node(said):
            self._empty(known)

    def _end_node(self, said: Settlement) -> None:
        for known in self._on_node(said):
            self._drop(known)

    def _on_node(self, said: Settlement) -> list[OpenChannel]:
        return [each for at, each in self.channels.items() if at.node == said.channel.node]

    def _closed(self, known: OpenChannel, said: Settlement) -> None:
        if known.pid == said.pid:
            self._drop(known, (Disposition.returned, said.at, self.last))

    def _silent(self, known: OpenChannel, said: Settlement) -> None:
        self._drop(known)

    def _consume(self, known: OpenChannel, said: Settlement) -> None:
        if known.modes.get(said.queue, said.auto) != said.auto:
            self._drop(known)
        else:
            self._keep(known, known.modes, said)

    def _get(self, known: OpenChannel, said: Settlement) -> None:
        self._keep(known, known.got, said)

    def _keep(self, known: OpenChannel, modes: dict[str, bool], said: Settlement) -> None:
        user = known.channel.user
        if said.queue in modes:
            modes[said.queue] = said.auto
        elif len(modes) >= MOST_QUEUES or self._manners.are_taken(user):
            self._drop(known)
        else:
            self._manners.take(user)
            modes[said.queue] = said.auto

    def _settled(self, known: OpenChannel, said: Settlement) -> None:
        tag, after = said.delivery_tag, known.last_taken
        if said.multiple and tag == 0:
            tag = known.tags[-1] if known.tags else 0
            if tag <= after:
                return
        elif tag not in known.hand or tag <= after:
            known.is_refused = tag >= known.since or tag == 0
            return
        how = Disposition[said.outcome]
        if not known.transactional:
            first = 0 if said.multiple else tag - 1
            self._settle(known, known.release_between(first, tag), how, said.at)
        elif said.multiple:
            known.spans.append((tag, how))
        else:
            known.taken[tag] = reference, _ = known.release(tag), how
            self._changes.settled[reference] = (Disposition.in_hand, None, tag * 8 + how)

    def _recover(self, known: OpenChannel, said: Settlement) -> None:
        free = known.release_between(known.last_taken, known.next_tag)
        self._settle(known, free, Disposition.returned, said.at)

    def _select(self, known: OpenChannel, said: Settlement) -> None:
        known.transactional = True

    def _commit(self, known: OpenChannel, said: Settlement) -> None:
        for last, how in known.spans:
            self._settle(known, known.release_between(0, last), how, said.at)
        for reference, how in known.taken.values():
            self._settle(known, [reference], how, said.at)
        known.spans, known.taken = [], {}

    def _roll_back(self, known: OpenChannel, said: Settlement) -> None:
        for tag, (reference, _) in known.taken.items():
            self._hold(known, tag, reference)
        known.spans, known.taken = [], {}

    def _hold(self, known: OpenChannel, tag: int, reference: Reference) -> None:
        known.hold(tag, reference)
        how = Disposition.in_hand
        self._changes.settled[reference] = (how, None, tag * 8 + how)

    def _settle(
        self, known: OpenChannel, those: Collection[Reference], how: Disposition, at: int
    ) -> None:
        self._held.take(known.channel.user, -len(those))
        self._changes.settled |= dict.fromkeys(those, (how, at, self.last))

    def _empty(self, known: OpenChannel, how: Disposed = _UNKNOWN) -> None:
        """Say what became of all that a channel has in hand, unknown by default, and count on."""
        of_it = [*known.hand.values(), *(reference for reference, _ in known.taken.values())]
        self._changes.settled |= dict.fromkeys(of_it, how)
        self._held.take(known.channel.user, -len(of_it))
        known.hand, known.taken, known.since = {}, {}, known.next_tag
        known.tags, known.spans = [], []
        self._acted[known.pid] = known

    def _drop(self, known: OpenChannel, how: Disposed = _UNKNOWN) -> None:
        self._empty(known, how)
        place, user = known.channel, known.channel.user
        self._manners.take(user, -known.manners)
        del self.channels[place], self._of_users[user][place]
        if not self._of_users[user]:
            del self._of_users[user]
        self._acted[known.pid] = None


_ANYWHERE: dict[str, Callable[[Settlements, Settlement], None]] = {
    "channel": Settlements._count,
    "began": Settlements._begin_node,
    "ended": Settlements._end_node,
}
_OF_CHANNELS: dict[str, Callable[[Settlements, OpenChannel, Settlement], None]] = {
    "closed": Settlements._closed,
    "silent": Settlements._silent,
    "consumer": Settlements._consume,
    "get": Settlements._get,
    "settled": Settlements._settled,
    "recovered": Settlements._recover,
    "selected": Settlements._select,
    "committed": Settlements._commit,
    "rolled_back": Settlements._roll_back,
}
