"""Keys among pairs of places: judged by their figures, held against each other, made rules.

That many publishes have a value which their participant was handed before says little: so do
tenants, states and the time of day. A key means one message, or the few of one conversation; it
does not fit as well further back; its values begin once; and it agrees with links that messages
carry, and with pairs that are better. What is left is covered with few rules. Nothing here does
I/O.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from model.in_hand import AloneInHand
from model.reports.correlations import RuleKind
from spark_jobs.reports.flattening import PROPERTY
from spark_jobs.reports.matching import Hits, PlacePairs
from spark_jobs.reports.survey import KeyRefusal, Place

Json: TypeAlias = dict[str, Any]

# A pair with fewer hits, or fewer values, is no evidence.
LEAST_HITS = 10
LEAST_VALUES = 5
# The share of hits that may be there further back as well.
MOST_CHANCE = 0.1
# Of which share of hits it has to be known whether they are by chance.
LEAST_MEASURED = 0.25
# Messages that a hit may mean, on average: of a conversation a few.
MOST_MEANT = 4.0
# How often a value is made up anew, on average.
MOST_BEGUN = 1.5
# The same of values so short that they may be equal by accident: numbers that several count up.
MOST_BEGUN_SHORT = 1.1
# The share that must agree with links, or with better pairs, and from how many on it counts.
LEAST_AGREEMENT = 0.9
LEAST_COMPARED = 10
# What the evidence of numbers that count up has to be.
COUNTER_AGREEMENT = 0.99
# A rule has to add this share of what another could still explain.
LEAST_ADDED = 0.02
# Which share of hits must be replies.
LEAST_REPLIES = 0.9
# A value that comes back in this share of messages is handed on: it names no single message.
HANDED_ON = 0.5
# Pairs are as good as each other where they share this.
AS_GOOD = 0.95
MOST_PROPOSALS = 20


class PlacePair(NamedTuple):
    """A pair of places, with its figures."""

    parent: Place
    child: Place
    hits: int
    unique: int
    candidates: int
    measured: int
    chance: int
    begun: int
    values: int
    replies: int

    @property
    def ambiguity(self) -> float:
        """Messages that a hit may mean, on average."""
        return self.candidates / self.hits

    @property
    def by_chance(self) -> float | None:
        """The share of hits that have one further back, too; None if too little lies there.

        In a short period it does for the last hits alone, which say nothing of the others.
        """
        is_enough = self.measured >= max(LEAST_COMPARED, LEAST_MEASURED * self.hits)
        return self.chance / self.measured if is_enough else None

    @property
    def worth(self) -> tuple[bool, float, bool, int, str, str]:
        """The order of worth: what is better sorts later."""
        is_long = self.parent.is_long and self.child.is_long
        good = self.hits / self.ambiguity * (1 - (self.by_chance or 0.0))
        texts = (self.parent.text, self.child.text)
        return (is_long, good, texts[0] == texts[1], -sum(map(len, texts)), *texts)


@dataclass
class Proposal:
    """Pairs that make a rule, or several that mean the same: the best first."""

    kind: RuleKind
    pairs: list[PlacePair]
    agreement: float | None
    linked: int
    added: int
    also: list[PlacePair] = field(default_factory=list)

    @property
    def best(self) -> PlacePair:
        """The pair whose figures are shown."""
        return self.pairs[0]

    @property
    def hits(self) -> int:
        """Publishes that it explains, at least."""
        return max(pair.hits for pair in self.pairs)

    def rules(self) -> list[Json]:
        """The rules, as they are set."""
        best = self.best
        name = "found-" + _slug(best.child.text)
        if self.kind == "conversation":
            texts = dict.fromkeys(
                place.text for pair in self.pairs for place in (pair.child, pair.parent)
            )
            if len(texts) == 1:
                return [{"name": name, "kind": self.kind, "child": best.child.text}]
            return [
                {"name": "found-" + _slug(text), "kind": self.kind, "child": text, "space": name}
                for text in texts
            ]
        rule: Json = {"name": name, "kind": self.kind}
        if self.kind == "reply":
            rule["child"] = [f"{PROPERTY}/routing_key", best.child.text]
            rule["parent"] = [f"{PROPERTY}/reply_to", best.parent.text]
            return [{**rule, "sure": False}]
        return [{**rule, "child": best.child.text, "parent": best.parent.text, "sure": False}]


class PairRefusal(NamedTuple):
    """A pair of places that many publishes share, and that is no key."""

    pair: PlacePair
    refusal: KeyRefusal
    share: float | None = None  # of what agrees, where that is why


class Proposals(NamedTuple):
    """The proposals, the best first, and what is not proposed."""

    proposals: list[Proposal]
    refused: list[PairRefusal]


def _slug(text: str) -> str:
    part, _, pointer = text.removeprefix("$message.").partition("#/")
    name = re.sub("[^A-Za-z0-9]+", "-", f"{part}-{pointer}").strip("-").lower()
    return name[:50].rstrip("-")


def pairs_of(places: Sequence[Place], figures: PlacePairs) -> list[PlacePair]:
    """The pairs with enough evidence, from their figures in all parts."""
    keys = np.stack([figures.parent, figures.child])
    both, which = np.unique(keys, axis=1, return_inverse=True)
    sums = np.zeros((len(figures) - 2, both.shape[1]), dtype=np.int64)
    for number, column in enumerate(figures[2:]):
        np.add.at(sums[number], which.ravel(), column)
    rows = np.concatenate([both, sums]).T.tolist()
    made = (PlacePair(places[parent], places[child], *rest) for parent, child, *rest in rows)
    return [pair for pair in made if pair.hits >= LEAST_HITS]


def meant_by(places: Sequence[Place], hits: Hits) -> dict[tuple[str, str], dict[int, set[int]]]:
    """Of each pair, by its texts, the messages that publishes may mean."""
    found: dict[tuple[str, str], dict[int, set[int]]] = {}
    columns = (hits.parent, hits.child, hits.event, hits.message)
    for parent, child, event, message in zip(*(c.tolist() for c in columns), strict=True):
        pair = (places[parent].text, places[child].text)
        found.setdefault(pair, {}).setdefault(event, set()).add(message)
    return found


class PairJudge:
    """Judges the pairs of one period, from the best to the worst."""

    def __init__(
        self,
        pairs: Sequence[PlacePair],
        meant: Mapping[tuple[str, str], Mapping[int, set[int]]],
        linked: Mapping[int, set[int]],
    ) -> None:
        """Take pairs, the messages that some publishes may mean, and those that they link to."""
        self._pairs = sorted(pairs, key=lambda pair: pair.worth, reverse=True)
        self._meant = meant
        self._linked = linked
        self._refused: list[PairRefusal] = []

    def judged(self) -> Proposals:
        """The proposals, and what is refused."""
        kept: list[PlacePair] = []
        for pair in self._pairs:
            refused = self._look(pair, kept)
            if refused is None:
                kept.append(pair)
            else:
                self._refused.append(refused)
        kinds = {True: [], False: []}  # type: dict[bool, list[PlacePair]]
        for pair in kept:
            kinds[self._kind(pair) == "conversation"].append(pair)
        proposals = [*self._covered(kinds[False]), *self._covered(kinds[True])]
        proposals.sort(key=lambda each: -each.hits * (1 if each.best.worth[0] else 0.5))
        worst = sorted(self._refused, key=lambda each: -each.pair.hits)
        return Proposals(proposals[:MOST_PROPOSALS], worst)

    def _of(self, pair: PlacePair) -> Mapping[int, set[int]]:
        return self._meant.get((pair.parent.text, pair.child.text), {})

    def _look(self, pair: PlacePair, better: Sequence[PlacePair]) -> PairRefusal | None:
        refusal = _by_itself(pair)
        if refusal is not None:
            return PairRefusal(pair, refusal)
        of_links = agreement(self._of(pair), self._linked)[0]
        if of_links is not None and of_links < LEAST_AGREEMENT:
            return PairRefusal(pair, KeyRefusal.unlinked, of_links)
        shares = [of_links]
        for other in better:
            share, _ = agreement(self._of(pair), self._of(other))
            if share is not None and share < LEAST_AGREEMENT:
                return PairRefusal(pair, KeyRefusal.disagrees, share)
            if not other.child.is_counted:
                shares.append(share)
        known = [share for share in shares if share is not None]
        if pair.child.is_counted and (not known or min(known) < COUNTER_AGREEMENT):
            return PairRefusal(pair, KeyRefusal.counter, min(known, default=None))
        return None

    def _kind(self, pair: PlacePair) -> RuleKind:
        """Reply or parent where one message is meant, and conversation where a value goes on."""
        if pair.replies >= LEAST_REPLIES * pair.hits:
            return "reply"
        parent, child = pair.parent.text, pair.child.text
        if parent == child:
            return "conversation"
        mine, both = self._of(pair), self._meant.get((parent, parent), {})
        # Whoever names a message has an id of its own where that has its.
        of_its_own = len(_same(mine, both)) < HANDED_ON * len(mine)
        # What a child says its children do not say again; a message that is published again does.
        again = self._meant.get((child, child), {})
        goes_on = len(again) - len(_same(again, both)) >= HANDED_ON * len(mine)
        # And it is not the other way round just as well.
        is_mutual = len(self._meant.get((child, parent), {})) >= HANDED_ON * len(mine)
        return "parent" if of_its_own and not goes_on and not is_mutual else "conversation"

    def _covered(self, pairs: Sequence[PlacePair]) -> Iterator[Proposal]:
        """Few rules that explain what all of these do: each adds something."""
        covered: dict[int, set[int]] = {}
        taken: list[Proposal] = []
        for pair in pairs:
            mine = self._of(pair)
            new = mine.keys() - covered.keys()
            if len(new) >= max(1.0, LEAST_ADDED * len(mine)) and self._adds(pair, taken, len(new)):
                for event in new:
                    covered[event] = set(mine[event])
            else:
                _note_equal(pair, mine, taken, self._of)
        yield from taken

    def _adds(self, pair: PlacePair, taken: list[Proposal], new: int) -> bool:
        """Take a pair: as a proposal, or with one whose conversations it goes on with."""
        kind = self._kind(pair)
        if kind == "conversation":
            for proposal in taken:
                texts = {p.text for each in proposal.pairs for p in (each.parent, each.child)}
                if {pair.parent.text, pair.child.text} & texts:
                    proposal.pairs.append(pair)
                    proposal.added += new
                    return True
            if pair.parent.text != pair.child.text and pair.hits < LEAST_HITS:
                return False
        share, linked = agreement(self._of(pair), self._linked)
        taken.append(Proposal(kind, [pair], share, linked, new))
        return True


def agreement(
    meant: Mapping[int, set[int]], other: Mapping[int, set[int]]
) -> tuple[float | None, int]:
    """In which share of the publishes of both they mean the same; None if these are too few."""
    small, large = (meant, other) if len(meant) < len(other) else (other, meant)
    both = [event for event in small if event in large]
    if len(both) < LEAST_COMPARED:
        return None, len(both)
    return sum(not small[event].isdisjoint(large[event]) for event in both) / len(both), len(both)


def _same(meant: Mapping[int, set[int]], other: Mapping[int, set[int]]) -> list[int]:
    """Publishes by which both mean the same."""
    return [event for event, those in meant.items() if not those.isdisjoint(other.get(event, ()))]


def _by_itself(pair: PlacePair) -> KeyRefusal | None:
    """The reason against a pair, whatever others say."""
    if pair.values < LEAST_VALUES:
        return KeyRefusal.repeats
    if (pair.by_chance or 0.0) >= MOST_CHANCE:
        return KeyRefusal.chance
    if pair.ambiguity > MOST_MEANT:
        return KeyRefusal.ambiguous
    most_begun = MOST_BEGUN if pair.worth[0] else MOST_BEGUN_SHORT
    if pair.begun > most_begun * pair.hits:
        return KeyRefusal.many_origins
    return None


def _note_equal(
    pair: PlacePair, mine: Mapping[int, set[int]], taken: Sequence[Proposal], of: Any
) -> None:
    """Say of the proposal that explains the same that this pair would have done as well."""
    for proposal in taken:
        its = of(proposal.best)
        both = its.keys() & mine.keys()
        if len(both) >= AS_GOOD * max(len(its), len(mine)):
            proposal.also.append(pair)
            return


LEAST_LINKED = 20
"""Publishes of which it must be known what led to them, to say how often it was in hand."""


class HandFigures(NamedTuple):
    """A participant's publishes of which one message was in hand.

    Of ``linked`` it is known what led to them, and for a share, the ``agreement``, it was that.
    """

    participant: int
    publishes: int
    linked: int
    agreement: float
    examples: list[tuple[int, int]]  # publishes and deliveries


def in_hand(found: Iterable[AloneInHand], told: Mapping[int, int], most: int) -> list[HandFigures]:
    """Participants of which enough is known, with up to ``most`` examples.

    ``told`` says of publishes the one message that led to them, by links or keys.
    """
    of: defaultdict[int, list[AloneInHand]] = defaultdict(list)
    for each in found:
        of[each.participant].append(each)
    figures = []
    for participant, those in sorted(of.items()):
        right = [each.message == told[each.publish] for each in those if each.publish in told]
        if len(right) >= LEAST_LINKED:
            rest = [each for each in those if each.publish not in told] or those
            chosen = rest[:: max(1, len(rest) // most)][:most]
            examples = [(each.publish, each.delivery) for each in chosen]
            share = sum(right) / len(right)
            figures.append(HandFigures(participant, len(those), len(right), share, examples))
    return figures
