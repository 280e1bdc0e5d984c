"""What the clock's property tests draw: trees, stamps, and runs with their true histories."""

from dataclasses import dataclass

from hypothesis import strategies as st

from itc import IdPool, Stamp, seed

PATHS = st.text("01", max_size=6)
ID_TREES = st.recursive(st.sampled_from([0, 1]), lambda part: st.tuples(part, part), max_leaves=10)
EVENT_TREES = st.recursive(
    st.integers(0, 3) | st.sampled_from([255, 256, 70_000, 2**64, 10**30]),
    lambda part: st.tuples(st.integers(0, 2), part, part),
    max_leaves=10,
)
STAMPS = st.builds(Stamp.from_trees, ID_TREES, EVENT_TREES)
# Numbers that the runs below take as indices, however long the list.
CHOICES = st.tuples(
    st.sampled_from(["event", "event", "message", "message", "fork", "join"]),
    st.integers(0, 1000),
    st.integers(0, 1000),
)


@dataclass(frozen=True)
class Known:
    """A stamp, and the numbers of all events that truly precede it, and its own."""

    stamp: Stamp
    history: frozenset[int]


def run(choices):
    """Play a run from the seed; all stamps that ever were, and those alive at the end."""
    alive = [Known(seed(), frozenset())]
    ever = list(alive)
    for number, (what, one, two) in enumerate(choices):
        own = alive.pop(one % len(alive))
        if what == "fork":
            new = [Known(half, own.history) for half in own.stamp.fork()]
        elif what == "event" or not alive:
            new = [Known(own.stamp.event(), own.history | {number})]
        elif what == "message":
            other = alive[two % len(alive)]
            joined = own.stamp.join(other.stamp.peek())
            new = [Known(joined.event(), own.history | other.history | {number})]
        else:
            other = alive.pop(two % len(alive))
            new = [Known(own.stamp.join(other.stamp), own.history | other.history)]
        alive += new
        ever += new
    return ever, alive


RUNS = st.lists(CHOICES, min_size=5, max_size=30).map(run)


@dataclass(frozen=True)
class Dot:
    """An event as the tracker stores it, with its true history."""

    stamp: Stamp
    interval: str
    height: int
    history: frozenset[int]


@dataclass
class Actor:
    interval: str
    stamp: Stamp
    history: frozenset[int]


def tracked_run(choices, participants=3):
    """Play a run as the tracker does, ids from the pool and back; returns the events still stored.

    When a participant ends, its events are removed first, as retention does.
    """
    pool = IdPool()

    def come():
        interval, base = pool.take()
        return Actor(interval, Stamp.of_interval(interval, base), frozenset())

    actors = [come() for _ in range(participants)]
    stored: dict[int, Dot] = {}
    owners: dict[int, Actor] = {}
    for number, (what, one, two) in enumerate(choices):
        actor = actors[one % len(actors)]
        if what == "fork":
            actors.append(come())
            continue
        if what == "join" and len(actors) > 1:
            actors.remove(actor)
            stored = {key: dot for key, dot in stored.items() if owners[key] is not actor}
            pool.give_back(actor.interval, actor.stamp.height_at(actor.interval))
            continue
        if what == "message" and stored:
            cause = [*stored.values()][two % len(stored)]
            actor.stamp = actor.stamp.join(cause.stamp.peek())
            actor.history |= cause.history
        actor.stamp = actor.stamp.event()
        actor.history |= {number}
        height = actor.stamp.height_at(actor.interval)
        stored[number] = Dot(actor.stamp, actor.interval, height, actor.history)
        owners[number] = actor
    return stored


TRACKED_RUNS = st.lists(CHOICES, min_size=10, max_size=50).map(tracked_run)
