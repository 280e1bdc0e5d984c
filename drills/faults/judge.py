"""The judge: compares what is stored with what the clients did.

It uses nothing of the service's that decides anything: no tracker, no matching. Stored events come
with their ids and stamps; `itc.compare` says how two stamps are related, the clients' clocks how
the two events are. Whatever lies in a gap may be missing or wrong, so each complaint is split:

- An event is **lost** if it is not stored. Let ``before`` be the newest stored event that happened
  before it, ``after`` the oldest stored one that it happened before, by the clients' clocks. The
  loss is inside a gap if an answer about these two would be called incomplete.
- An event is **doubled** if it is stored more often than it happened; no gap excuses that.
- A pair of stored events is **wrong** if stamps and clocks disagree. It is inside a gap if the
  answer about the two is called incomplete.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from drills.clocks import relation
from drills.faults.history import History, Key, Made
from itc import Stamp, compare, unpack
from model.gaps import Gap
from model.words import EventType

PAIRS = 4_000  # drawn from all events, and as many neighbours
LOSSES = 500  # around which pairs are looked at
END = 2**63  # greater than any id


class Held(NamedTuple):
    """A stored event, as far as the judge looks at it.

    ``clock`` and ``interval`` are its stamp. ``cause`` is what the service says was received; the
    judge decides nothing by it.
    """

    id: int
    key: Key
    clock: bytes
    interval: str
    cause: int | None = None

    @property
    def stamp(self) -> Stamp:
        """Its stamp, which takes far more room than what it is made of."""
        return unpack(self.clock, self.interval)


class Wrong(NamedTuple):
    """A pair of stored events on which the service and the clients disagree."""

    a: Held
    b: Held
    stored: str
    true: str


class Verdict(NamedTuple):
    """The judge's findings. ``strange`` are stored events that no client can have made."""

    events: int
    lost: int
    lost_outside: list[Key]
    doubled: list[Key]
    strange: list[Key]
    wrong: int
    wrong_outside: list[Wrong]
    gaps: Sequence[Gap]
    in_gaps: int  # stored events that lie in a gap
    bounds: dict[Key, tuple[int, int]]  # of those lost outside: between which ids they belong

    @property
    def errors(self) -> int:
        """The number of errors that nothing excuses."""
        found = (self.lost_outside, self.doubled, self.strange, self.wrong_outside)
        return sum(len(each) for each in found)


def judged(
    history: History, held: Sequence[Held], gaps: Sequence[Gap], *, pairs: int = PAIRS
) -> Verdict:
    """Compare what is stored, in the order of ids, with what the clients did."""
    return _Judge(history, held, gaps).verdict(pairs)


class _Judge:
    def __init__(self, history: History, held: Sequence[Held], gaps: Sequence[Gap]) -> None:
        self._history = history
        self._gaps = gaps
        self._held = held
        self._made: dict[Key, Made] = {}
        self._times: Counter[Key] = Counter()
        for made in self._everything():
            self._made[made.key] = made
            self._times[made.key] += 1
        self._first: dict[Key, Held] = {}
        for each in held:
            self._first.setdefault(each.key, each)
        # Of each connection, its events that are stored, in its own order.
        self._stored: dict[str, list[tuple[Made, int]]] = {
            who: [(m, self._first[m.key].id) for m in made if m.key in self._first]
            for who, made in history.made.items()
        }

    def verdict(self, pairs: int) -> Verdict:
        lost = [
            made
            for made in self._everything()
            if made.key not in self._first and made.key not in self._history.unsure
        ]
        doubled, strange = self._too_many()
        drawn = [*self._around(lost), *self._pairs(pairs)]
        wrong = [each for pair in drawn if (each := self._disagree(*pair))]
        bounds = {made.key: self._bounds(made) for made in lost}
        outside = {key: each for key, each in bounds.items() if not self._in_a_gap(*each)}
        return Verdict(
            events=len(self._held),
            lost=len(lost),
            lost_outside=list(outside),
            bounds=outside,
            doubled=doubled,
            strange=strange,
            wrong=len(wrong),
            wrong_outside=[each for each in wrong if not self._in_a_gap(each.a.id, each.b.id)],
            gaps=self._gaps,
            in_gaps=sum(self._lies_in_a_gap(each.id) for each in self._held),
        )

    def _everything(self) -> Iterator[Made]:
        for made in self._history.made.values():
            yield from made

    def _too_many(self) -> tuple[list[Key], list[Key]]:
        """Find what is stored more often than it happened, and what never happened.

        A delivery that its client never saw is fine: the connection broke on the way. So is one of
        a message that is known.
        """
        doubled, strange = [], []
        for key, times in Counter(each.key for each in self._held).items():
            doubled += [key] * (times - max(1, self._times[key]))
            published = Key(EventType.published, key.message)
            if key not in self._made and published not in self._made:
                strange.append(key)
        return doubled, strange

    def _bounds(self, lost: Made) -> tuple[int, int]:
        """The ids of the stored events between which a lost one belongs, by the clients."""
        before, after = 0, END
        for who, stored in self._stored.items():
            known = bisect_left(stored, lost.clock.get(who, 0) + 1, key=lambda each: each[0].seq)
            if known:
                before = max(before, stored[known - 1][1])
            first = bisect_left(stored, lost.seq, key=lambda each: each[0].clock.get(lost.who, 0))
            if first < len(stored):
                after = min(after, stored[first][1])
        return before, after

    def _in_a_gap(self, a: int, b: int) -> bool:
        return any(gap.is_spanned(a, b) for gap in self._gaps)

    def _lies_in_a_gap(self, id_: int) -> bool:
        return any(
            gap.after_event_id < id_ and id_ < (gap.before_event_id or END) for gap in self._gaps
        )

    def _around(self, lost: Sequence[Made]) -> Iterator[tuple[Held, Held]]:
        """Of lost events, the nearest before and after that are stored."""
        by_id = {each.id: each for each in self._first.values()}
        for made in random.Random(len(lost)).sample(lost, min(len(lost), LOSSES)):
            before, after = (by_id.get(id_) for id_ in self._bounds(made))
            if before and after and before.key in self._made and after.key in self._made:
                yield before, after

    def _pairs(self, count: int) -> Iterator[tuple[Held, Held]]:
        """Every delivery with its publish, neighbours, and pairs at random."""
        known = [each for key, each in self._first.items() if key in self._made]
        for each in known:
            if each.key.type is EventType.received:
                publish = self._first.get(Key(EventType.published, each.key.message))
                if publish is not None:
                    yield publish, each
        sample = random.Random(len(known))
        count = count if known else 0
        for _ in range(count):
            yield sample.choice(known), sample.choice(known)
        for _ in range(count):
            place = sample.randrange(len(known))
            yield known[place], known[min(len(known) - 1, place + sample.randrange(20))]

    def _disagree(self, a: Held, b: Held) -> Wrong | None:
        stored = compare(a.stamp, b.stamp).name
        true = relation(self._made[a.key].clock, self._made[b.key].clock)
        return None if stored == true else Wrong(a, b, stored, true)
