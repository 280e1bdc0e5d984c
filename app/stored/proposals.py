"""Rules that nobody has asked for, and that a trace's messages speak for: proposals.

What participants had in hand is proposed as well, where links or keys confirm it; it makes no rule.
They are found beside capture (`app.watch.looking`) by the functions that reports on correlations
use, and kept as they were found last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from operator import itemgetter
from typing import Annotated, Any, Literal

import msgspec

from app.tracker.links import Rule
from model.described import INNER
from model.reports.correlations import Example, RuleKind, UserShare
from model.sound import listed, share
from model.times import Microseconds

FIRST_LOOK = 300
"""Publishes of a trace before it is looked at for the first time."""

LEAST_COVERAGE = 0.9
"""The share of reactions that name a cause from which on nothing is looked for."""

LEAST_REACTIONS = 20

LEAST_JOINED = 0.1
"""The share of reactions that a proposal has to join: fewer may be numbers equal by accident."""

LEAST_BY_NUMBERS = 0.5
"""The same of numbers where too little has come to know how often they are equal by accident."""

LEAST_CONFIRMED = 0.95
"""How often what a participant had in hand has to be what links or keys tell."""

MOST_PARTICIPANTS, MOST_EXAMPLES = 100, 10
"""Of what was in hand: whose is proposed, of those who published most, and what is shown of it."""

_PLACES = {"header": "header {}", "payload": "{} in the body", "property": "{}"}
# From here on a figure is not one but nothing.
_NEARLY = 0.005


class RuleProposal(msgspec.Struct, frozen=True, kw_only=True):
    """Rules to adopt, and how well they fit; without any of what participants had in hand."""

    id: Annotated[str, "A digest of the rules: the same as long as they are."]
    kind: RuleKind | Literal["in_hand"]
    says: Annotated[str, "What ties messages together, in words."]
    joins: Annotated[int, "Publishes that the rules join to what led to them."]
    of: Annotated[int, "Publishes that were looked at and may have a cause."]
    certainty: Annotated[str, "How well the rules fit, in words."]
    agreement: Annotated[
        float | None, "The share that links which messages carry agree with; `null` without enough."
    ]
    linked: Annotated[int, "How many of the publishes that were kept carry a link."]
    rules: Annotated[
        list[dict[str, Any]], "As `PUT /itc_db/links/{vhost}/{name}` takes each of them."
    ]
    examples: list[Example]
    participants: Annotated[
        list[int],
        "Those who often publish with exactly one message in hand, which may have led there; at "
        "most 100. It cannot be adopted.",
    ] = []
    users: Annotated[list[UserShare], "Whose messages carry it, as of its worst rule."] = []

    @property
    def alone(self) -> str | None:
        """The user who alone has a tenth of what it joins, where others react, too; else `null`."""
        carrying = [each.user for each in self.users if each.share >= LEAST_JOINED]
        return carrying[0] if len(carrying) == 1 and self.users[1:] else None


class ProposalPage(msgspec.Struct, frozen=True):
    """What would tie a virtual host's messages together, the best first, and is not adopted."""

    vhost: str
    looked_at: Annotated[Microseconds | None, "When it was looked for last; `null` for never."]
    coverage: Annotated[
        float | None,
        "The share of publishes that may have a cause of which messages or spans tell it.",
    ]
    items: list[RuleProposal]


class LikelyBasis(msgspec.Struct, frozen=True):
    """The ground of an answer with `via=likely`: proposals that are not adopted."""

    proposals: Annotated[list[str], "Their ids, the best first."]
    sentence: Annotated[str, "What they say, and how often it was right where links could tell."]
    first: Annotated[int, "The first of the events whose messages were read by it."]
    last: Annotated[int, "The last of them."]


class TraceCoverage(msgspec.Struct, frozen=True):
    """A trace's messages, by what they tell of their causes; and what was found, if it was looked.

    ``publishes`` of ``programs``, of which ``reactions`` may have a cause, and of ``named`` it is
    known. ``looked_publishes`` and ``looked_programs`` are what there was at the last look.
    """

    trace_id: int
    vhost: str
    publishes: int
    reactions: int
    named: int
    programs: int
    looked_at: Microseconds | None = None
    looked_publishes: int = 0
    looked_programs: int = 0
    found: Annotated[Sequence[RuleProposal], INNER] = ()

    @property
    def coverage(self) -> float | None:
        """The share of reactions of which the cause is known; None without any."""
        return share(self.named, self.reactions - self.named)

    @property
    def is_due(self) -> bool:
        """Tell whether it is time to look: little is known, and enough has come since."""
        if self.publishes < FIRST_LOOK or self.reactions < LEAST_REACTIONS:
            return False
        if (self.coverage or 0.0) >= LEAST_COVERAGE:
            return False
        since = self.publishes - self.looked_publishes
        has_changed = self.programs != self.looked_programs and since >= FIRST_LOOK
        return has_changed or since >= self.looked_publishes or self.publishes < -since

    def waiting(self, rules: Iterable[Rule]) -> list[RuleProposal]:
        """What was found and is not adopted: not all of its rules are among these."""
        there = {_meaning(rule) for rule in rules}
        return [
            each
            for each in self.found
            if not each.rules
            or not there.issuperset(_meaning(Rule.from_json(rule)) for rule in each.rules)
        ]


def _meaning(rule: Rule) -> object:
    """A rule but for its name: people may have set it by another."""
    return rule.kind, rule.child, rule.parent


def proposals_in(report: Mapping[str, Any]) -> list[RuleProposal]:
    """The proposals of a report on correlations: direct causes, together, before shared keys.

    A key that ties more together than they do goes with them: of what names a message that was
    published twice nobody knows which is meant, and the key still joins it.
    """
    reactions = report["reactions"]
    found = [one for one in report["proposals"] if _joins_enough(one, reactions)]
    direct = [one for one in found if one["kind"] != "conversation"]
    shared = [one for one in found if one["kind"] == "conversation"]
    if direct and shared and shared[0]["publishes"] > _joined(direct):
        direct.append(shared.pop(0))
    bundles = [direct] * bool(direct) + [[one] for one in shared]
    names: Counter[str] = Counter()
    rules = [_proposal(bundle, reactions, names) for bundle in bundles]
    hands = [one for one in report.get("in_hand", ()) if one["agreement"] >= LEAST_CONFIRMED]
    hands = sorted(hands, key=itemgetter("publishes"), reverse=True)[:MOST_PARTICIPANTS]
    return [*rules, _in_hand(hands, reactions)] if hands else rules


def _in_hand(hands: Sequence[Mapping[str, Any]], reactions: int) -> RuleProposal:
    """What was in hand; its figures are those of the participant for which it is right least."""
    whose = [one["participant"]["number"] for one in hands]
    linked, agreement = sum(one["linked"] for one in hands), min(one["agreement"] for one in hands)
    names = [one["participant"]["name"] for one in hands]
    return RuleProposal(
        id=digest_of([{"in_hand": whose}]),
        kind="in_hand",
        says=f"the only message that {listed(names)} had in hand may have led to a publish",
        joins=sum(one["publishes"] for one in hands),
        of=reactions,
        certainty=f"links or keys agree in {agreement:.0%} of {linked:,}",
        agreement=agreement,
        linked=linked,
        rules=[],
        examples=msgspec.convert(
            [one["examples"][0] for one in hands[:MOST_EXAMPLES]], list[Example]
        ),
        participants=whose,
    )


def _joined(bundle: Sequence[Mapping[str, Any]]) -> int:
    """The publishes that rules join, at least: by direct causes, or by a key."""
    direct: int = sum(each["publishes"] for each in bundle if each["kind"] != "conversation")
    each_alone: list[int] = [each["publishes"] for each in bundle]
    return max(direct, *each_alone)


def _joins_enough(found: Mapping[str, Any], reactions: int) -> bool:
    """Tell whether it joins enough of all publishes, or of one user's, whatever others send."""
    least = _least(found)
    return found["publishes"] >= least * reactions or any(
        each["support"] >= least and each["reactions"] >= LEAST_REACTIONS
        for each in found.get("users", ())
    )


def _least(found: Mapping[str, Any]) -> float:
    """The share of reactions that a proposal has to join."""
    values = [each["value"] or "" for each in found["examples"]]
    is_counted = bool(values) and all(map(str.isdecimal, values))
    return LEAST_BY_NUMBERS if is_counted and found["chance"] is None else LEAST_JOINED


def _proposal(
    bundle: Sequence[Mapping[str, Any]], reactions: int, names: Counter[str]
) -> RuleProposal:
    """What is adopted at once; its figures are those of the worst of its rules.

    Their names are made to differ from the ``names`` of others.
    """

    def known(name: str) -> list[float]:
        return [each[name] for each in bundle if each[name] is not None]

    rules = [_named(rule, names) for each in bundle for rule in each["rules"]]
    agreement, linked = min(known("agreement"), default=None), sum(known("linked"))
    said = [_ambiguity(max(known("ambiguity"))), _chance(max(known("chance"), default=None))]
    if agreement is not None:
        said.append(f"links agree in {agreement:.0%} of {linked:,}")
    examples = [example for each in bundle for example in each["examples"]]
    worst = max(
        bundle, key=lambda each: max((e["share"] for e in each.get("users", ())), default=0)
    )
    return RuleProposal(
        id=digest_of(rules),
        kind=bundle[0]["kind"],
        says=" and ".join(_said(each["kind"], each["rules"]) for each in bundle),
        joins=min(_joined(bundle), reactions),
        of=reactions,
        certainty=", ".join(said),
        agreement=agreement,
        linked=int(linked),
        rules=rules,
        examples=msgspec.convert(examples, list[Example]),
        users=msgspec.convert(worst.get("users", ()), list[UserShare]),
    )


def _ambiguity(messages: float) -> str:
    few = messages - 1 < _NEARLY
    return "unambiguous" if few else f"{messages:.2f} messages may be meant each"


def _chance(share: float | None) -> str:
    if share is None:
        return "nothing further back to compare with"
    return "no coincidences" if share < _NEARLY else f"{share:.1%} coincidences"


def _named(rule: Mapping[str, Any], names: Counter[str]) -> dict[str, Any]:
    name = rule["name"]
    names[name] += 1
    return {**rule, "name": name if names[name] == 1 else f"{name}-{names[name]}"}


def digest_of(rules: Iterable[Mapping[str, Any]]) -> str:
    return sha256(msgspec.json.encode([*rules], order="sorted")).hexdigest()[:12]


def _said(kind: RuleKind, rules: Sequence[Mapping[str, Any]]) -> str:
    children = [_in_words(rule["child"]) for rule in rules]
    if kind == "conversation":
        return f"{' and '.join(children)} {'tie' if children[1:] else 'ties'} messages together"
    parent = _in_words(rules[0]["parent"])
    verb = "answers a request's" if kind == "reply" else "names"
    return f"{children[0]} {verb} {parent}"


def _in_words(places: str | Sequence[str]) -> str:
    """The place of a value, as people say it; of a reply's two places the last says which."""
    text = places if isinstance(places, str) else places[-1]
    source, _, pointer = text.removeprefix("$message.").partition("#/")
    return _PLACES[source].format(pointer.replace("~1", "/").replace("~0", "~"))
