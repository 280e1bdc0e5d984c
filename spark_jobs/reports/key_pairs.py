"""Keys among pairs of paths: judged by their figures, compared with each other, made rules.

Many publishes repeat a value that their participant was handed, which alone says little: tenants,
states and the time of day repeat, too. A key means one message, or the few of one conversation; it
does not fit as well further back; its values begin once; and it agrees with links that messages
carry, and with better pairs. A few rules then cover the pairs that pass. Nothing here does I/O.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from model.in_hand import AloneInHand
from model.reports.correlations import RuleKind
from spark_jobs.reports.message_fields import PROPERTY
from spark_jobs.reports.survey import KeyPath, KeyRefusal
from spark_jobs.reports.value_matches import Hits, PairFigures

Json: TypeAlias = dict[str, Any]

# A pair with fewer hits, or fewer values, is no evidence.
LEAST_HITS = 10
LEAST_VALUES = 5
# The share of hits that may be there further back as well.
MOST_CHANCE = 0.1
# The share of hits for which it must be known whether they are by chance.
LEAST_MEASURED = 0.25
# Messages that a hit may mean, on average: a conversation has a few.
MOST_MEANT = 4.0
# Times that a value is made up anew, on average.
MOST_ORIGINS = 1.5
# The same for short values, equal by accident: numbers that several programs count up.
MOST_ORIGINS_SHORT = 1.1
# The share that must agree with links or with better pairs, and the least number compared.
LEAST_AGREEMENT = 0.9
LEAST_COMPARED = 10
# The same for numbers that count up.
COUNTER_AGREEMENT = 0.99
# The share of handed numbers that count up which others may make up, too.
MOST_RIVALS = 0.02
# A rule has to add this share of what another could still explain.
LEAST_ADDED = 0.02
# The share of a reply's hits that must be replies.
LEAST_REPLIES = 0.9
# A value that comes back in this share of messages is handed on: it names no single message.
HANDED_ON = 0.5
# Pairs that share this part of their publishes are as good as each other.
AS_GOOD = 0.95
MOST_PROPOSALS = 20


class PathPair(NamedTuple):
    """A pair of paths, with its figures."""

    parent: KeyPath
    child: KeyPath
    hits: int
    unique: int
    candidates: int
    measured: int
    chance: int
    origins: int
    values: int
    replies: int
    rivals: int

    @property
    def ambiguity(self) -> float:
        """Messages that a hit may mean, on average."""
        return self.candidates / self.hits

    @property
    def by_chance(self) -> float | None:
        """The share of measured hits that have one further back, too; None if too few are.

        In a short period only the last hits are, which say nothing about the others.
        """
        is_enough = self.measured >= max(LEAST_COMPARED, LEAST_MEASURED * self.hits)
        return self.chance / self.measured if is_enough else None

    @property
    def worth(self) -> tuple[bool, float, bool, int, str, str]:
        """A sort key: better pairs are greater."""
        is_long = self.parent.is_long and self.child.is_long
        good = self.hits / self.ambiguity * (1 - (self.by_chance or 0.0))
        texts = (self.parent.text, self.child.text)
        return (is_long, good, texts[0] == texts[1], -sum(map(len, texts)), *texts)


@dataclass
class Proposal:
    """Pairs that make a rule, or several that mean the same; the best first."""

    kind: RuleKind
    pairs: list[PathPair]
    agreement: float | None
    linked: int
    gain: int
    equivalents: list[PathPair] = field(default_factory=list)

    @property
    def best(self) -> PathPair:
        return self.pairs[0]

    @property
    def hits(self) -> int:
        """The least number of publishes that it explains."""
        return max(pair.hits for pair in self.pairs)

    def rules(self) -> list[Json]:
        best = self.best
        name = "found-" + _slug(best.child.text)
        if self.kind == "conversation":
            texts = dict.fromkeys(
                path.text for pair in self.pairs for path in (pair.child, pair.parent)
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
    """A pair of paths that many publishes share, and that is no key."""

    pair: PathPair
    refusal: KeyRefusal
    share: float | None = None  # that agrees, where the refusal is about agreement


class Proposals(NamedTuple):
    """The proposals, the best first, and the pairs refused."""

    proposals: list[Proposal]
    refused: list[PairRefusal]


def _slug(text: str) -> str:
    part, _, pointer = text.removeprefix("$message.").partition("#/")
    name = re.sub("[^A-Za-z0-9]+", "-", f"{part}-{pointer}").strip("-").lower()
    return name[:50].rstrip("-")


def pairs_of(paths: Sequence[KeyPath], figures: PairFigures) -> list[PathPair]:
    """The pairs with enough evidence, from their figures in all parts."""
    keys = np.stack([figures.parent, figures.child])
    pairs, inverse = np.unique(keys, axis=1, return_inverse=True)
    sums = np.zeros((len(figures) - 2, pairs.shape[1]), dtype=np.int64)
    for number, column in enumerate(figures[2:]):
        np.add.at(sums[number], inverse.ravel(), column)
    rows = np.concatenate([pairs, sums]).T.tolist()
    path_pairs = (PathPair(paths[parent], paths[child], *rest) for parent, child, *rest in rows)
    return [pair for pair in path_pairs if pair.hits >= LEAST_HITS]


def targets_of(paths: Sequence[KeyPath], hits: Hits) -> dict[tuple[str, str], dict[int, set[int]]]:
    """The messages that publishes may mean, by pair (of texts) and publish."""
    targets: dict[tuple[str, str], dict[int, set[int]]] = {}
    columns = (hits.parent, hits.child, hits.event, hits.message)
    for parent, child, event, message in zip(*(c.tolist() for c in columns), strict=True):
        pair = (paths[parent].text, paths[child].text)
        targets.setdefault(pair, {}).setdefault(event, set()).add(message)
    return targets


class PairJudge:
    """Judges the pairs of one period, from the best to the worst."""

    def __init__(
        self,
        pairs: Sequence[PathPair],
        targets: Mapping[tuple[str, str], Mapping[int, set[int]]],
        linked: Mapping[int, set[int]],
    ) -> None:
        self._pairs = sorted(pairs, key=lambda pair: pair.worth, reverse=True)
        self._targets = targets
        self._linked = linked
        self._refused: list[PairRefusal] = []

    def judge(self) -> Proposals:
        accepted: list[PathPair] = []
        for pair in self._pairs:
            refused = self._look(pair, accepted)
            if refused is None:
                accepted.append(pair)
            else:
                self._refused.append(refused)
        kinds = {True: [], False: []}  # type: dict[bool, list[PathPair]]
        for pair in accepted:
            kinds[self._kind(pair) == "conversation"].append(pair)
        proposals = [*self._cover(kinds[False]), *self._cover(kinds[True])]
        proposals.sort(key=lambda proposal: -proposal.hits * (1 if proposal.best.worth[0] else 0.5))
        worst = sorted(self._refused, key=lambda refusal: -refusal.pair.hits)
        return Proposals(proposals[:MOST_PROPOSALS], worst)

    def _targets_of(self, pair: PathPair) -> Mapping[int, set[int]]:
        return self._targets.get((pair.parent.text, pair.child.text), {})

    def _look(self, pair: PathPair, better: Sequence[PathPair]) -> PairRefusal | None:
        refusal = _by_itself(pair)
        if refusal is not None:
            return PairRefusal(pair, refusal)
        of_links = agreement(self._targets_of(pair), self._linked)[0]
        if of_links is not None and of_links < LEAST_AGREEMENT:
            return PairRefusal(pair, KeyRefusal.unlinked, of_links)
        shares = [of_links]
        for rival in better:
            share, _ = agreement(self._targets_of(pair), self._targets_of(rival))
            if share is not None and share < LEAST_AGREEMENT:
                return PairRefusal(pair, KeyRefusal.disagrees, share)
            if not rival.child.is_counted:
                shares.append(share)
        agreements = [share for share in shares if share is not None]
        least = min(agreements, default=None)
        if pair.child.is_counted and (
            _is_own_count(pair) if least is None else least < COUNTER_AGREEMENT
        ):
            return PairRefusal(pair, KeyRefusal.counter, least)
        return None

    def _kind(self, pair: PathPair) -> RuleKind:
        """Reply or parent where a value means one message, conversation where it goes on."""
        if pair.replies >= LEAST_REPLIES * pair.hits:
            return "reply"
        parent, child = pair.parent.text, pair.child.text
        if parent == child:
            return "conversation"
        targets, parent_targets = self._targets_of(pair), self._targets.get((parent, parent), {})
        # A message that names another has its own id at the path where the other has its id.
        of_its_own = len(_equal_events(targets, parent_targets)) < HANDED_ON * len(targets)
        # Children of a child do not repeat its value; a message that is published again does.
        child_targets = self._targets.get((child, child), {})
        goes_on = len(child_targets) - len(
            _equal_events(child_targets, parent_targets)
        ) >= HANDED_ON * len(targets)
        # And it is not the other way round just as well.
        is_mutual = len(self._targets.get((child, parent), {})) >= HANDED_ON * len(targets)
        return "parent" if of_its_own and not goes_on and not is_mutual else "conversation"

    def _cover(self, pairs: Sequence[PathPair]) -> list[Proposal]:
        """A few rules that explain as much as all pairs do: each adds something."""
        explained: set[int] = set()
        proposals: list[Proposal] = []
        for pair in pairs:
            publishes = self._targets_of(pair).keys()
            new = publishes - explained
            is_worth_it = len(new) >= max(1.0, LEAST_ADDED * len(publishes))
            if is_worth_it and self._adds(pair, proposals, len(new)):
                explained |= new
            else:
                self._note_equal(pair, proposals)
        return proposals

    def _note_equal(self, pair: PathPair, proposals: Sequence[Proposal]) -> None:
        """Add a pair to the proposal that explains the same publishes."""
        publishes = self._targets_of(pair).keys()
        for proposal in proposals:
            explained = self._targets_of(proposal.best).keys()
            common = len(explained & publishes)
            if common >= AS_GOOD * max(len(explained), len(publishes)):
                proposal.equivalents.append(pair)
                return

    def _adds(self, pair: PathPair, proposals: list[Proposal], new: int) -> bool:
        """Add a pair: as a proposal, or to one whose conversations it continues."""
        kind = self._kind(pair)
        if kind == "conversation":
            for proposal in proposals:
                texts = {p.text for member in proposal.pairs for p in (member.parent, member.child)}
                if {pair.parent.text, pair.child.text} & texts:
                    proposal.pairs.append(pair)
                    proposal.gain += new
                    return True
            if pair.parent.text != pair.child.text and pair.hits < LEAST_HITS:
                return False
        share, linked = agreement(self._targets_of(pair), self._linked)
        proposals.append(Proposal(kind, [pair], share, linked, new))
        return True


def agreement(
    targets: Mapping[int, set[int]], reference: Mapping[int, set[int]]
) -> tuple[float | None, int]:
    """The share of common publishes that mean the same, and their number; None for too few."""
    small, large = (targets, reference) if len(targets) < len(reference) else (reference, targets)
    common = [event for event in small if event in large]
    if len(common) < LEAST_COMPARED:
        return None, len(common)
    return sum(not small[event].isdisjoint(large[event]) for event in common) / len(common), len(
        common
    )


def _equal_events(targets: Mapping[int, set[int]], reference: Mapping[int, set[int]]) -> list[int]:
    return [
        event
        for event, messages in targets.items()
        if not messages.isdisjoint(reference.get(event, ()))
    ]


def _is_own_count(pair: PathPair) -> bool:
    """Tell whether a count of its publisher's own looks the same: nothing left out, or ahead."""
    return pair.child.is_gapless or pair.rivals > MOST_RIVALS * pair.hits


def _by_itself(pair: PathPair) -> KeyRefusal | None:
    """The reason against a pair by its own figures."""
    if pair.values < LEAST_VALUES:
        return KeyRefusal.repeats
    if (pair.by_chance or 0.0) >= MOST_CHANCE:
        return KeyRefusal.chance
    if pair.ambiguity > MOST_MEANT:
        return KeyRefusal.ambiguous
    most_origins = MOST_ORIGINS if pair.worth[0] else MOST_ORIGINS_SHORT
    if pair.origins > most_origins * pair.hits:
        return KeyRefusal.many_origins
    return None


LEAST_LINKED = 20
"""Publishes with a known cause that are needed to say how often it was in hand."""


class HandFigures(NamedTuple):
    """A participant's publishes while one message was in hand.

    ``linked`` of them have a known cause, which for a share (``agreement``) was that message.
    """

    participant: int
    publishes: int
    linked: int
    agreement: float
    examples: list[tuple[int, int]]  # publishes and deliveries


def hand_figures(
    rows: Iterable[AloneInHand], causes: Mapping[int, int], limit: int
) -> list[HandFigures]:
    """Participants of which enough is known, with up to ``limit`` examples.

    ``causes`` has the one message that led to a publish, by links or keys.
    """
    by_participant: defaultdict[int, list[AloneInHand]] = defaultdict(list)
    for row in rows:
        by_participant[row.participant].append(row)
    figures = []
    for participant, publishes in sorted(by_participant.items()):
        matches = [row.message == causes[row.publish] for row in publishes if row.publish in causes]
        if len(matches) >= LEAST_LINKED:
            rest = [row for row in publishes if row.publish not in causes] or publishes
            sample = rest[:: max(1, len(rest) // limit)][:limit]
            examples = [(row.publish, row.delivery) for row in sample]
            share = sum(matches) / len(matches)
            figures.append(HandFigures(participant, len(publishes), len(matches), share, examples))
    return figures
