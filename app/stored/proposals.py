"""Proposals of rules for which a trace's messages speak.

A message that a participant had in hand is proposed as well, where links or keys confirm it; it
makes no rule. Proposals are found beside capture (`app.watch.looking`) by the functions of reports
on correlations; the last ones are kept.
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
from model.sound import join_names, share
from model.times import Microseconds

# Publishes of a trace before its first look.
FIRST_LOOK = 300
# No look where this share of reactions names a cause.
LEAST_COVERAGE = 0.9
LEAST_REACTIONS = 20
# The share of reactions that a proposal has to join: fewer may be equal by accident.
LEAST_JOINED = 0.1
# The same for numbers, if too few are known to say how often they are equal by accident.
LEAST_BY_NUMBERS = 0.5
# The least share of cases in which the message in hand is the one that links or keys name.
LEAST_CONFIRMED = 0.95
# Participants whose messages in hand are proposed: those who published most; and examples.
MOST_PARTICIPANTS, MOST_EXAMPLES = 100, 10

_PLACES = {"header": "header {}", "payload": "{} in the body", "property": "{}"}
# A smaller figure counts as none.
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
        """The user who alone has a tenth of the joined publishes, where others react, too; else
        `null`.
        """
        carrying = [user.user for user in self.users if user.share >= LEAST_JOINED]
        return carrying[0] if len(carrying) == 1 and self.users[1:] else None


class ProposalPage(msgspec.Struct, frozen=True):
    """Proposals for a virtual host's messages that are not adopted, the best first."""

    vhost: str
    looked_at: Annotated[Microseconds | None, "When it was looked for last; `null` for never."]
    coverage: Annotated[
        float | None,
        "The share of publishes that may have a cause of which messages or spans tell it.",
    ]
    sentence: Annotated[str, "How many have a cause that is known, and what the others need."]
    items: list[RuleProposal]


class LikelyBasis(msgspec.Struct, frozen=True):
    """The ground of an answer with `via=likely`: proposals that are not adopted."""

    proposals: Annotated[list[str], "Their ids, the best first."]
    sentence: Annotated[str, "What they say, and how often it was right where links could tell."]
    first: Annotated[int, "The first of the events whose messages were read by it."]
    last: Annotated[int, "The last of them."]


class TraceCoverage(msgspec.Struct, frozen=True):
    """A trace's publishes, by the causes that they name; and the last look's findings.

    Of the ``reactions``, which may have a cause, ``named`` have a known one. ``looked_publishes``
    and ``looked_programs`` are as of the last look.
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
        """The share of reactions with a known cause; None without any."""
        return share(self.named, self.reactions - self.named)

    @property
    def is_due(self) -> bool:
        """Tell whether few causes are known, and enough publishes came since the last look."""
        if self.publishes < FIRST_LOOK or self.reactions < LEAST_REACTIONS:
            return False
        if (self.coverage or 0.0) >= LEAST_COVERAGE:
            return False
        fresh = self.publishes - self.looked_publishes
        has_changed = self.programs != self.looked_programs and fresh >= FIRST_LOOK
        return has_changed or fresh >= self.looked_publishes or self.publishes < -fresh

    def open_proposals(self, rules: Iterable[Rule]) -> list[RuleProposal]:
        """The proposals that are not adopted: not all their rules are among these."""
        adopted = {_content(rule) for rule in rules}
        return [
            proposal
            for proposal in self.found
            if not proposal.rules
            or not adopted.issuperset(_content(Rule.from_json(rule)) for rule in proposal.rules)
        ]


def _content(rule: Rule) -> object:
    return rule.kind, rule.child, rule.parent  # people may have set it by another name


def proposals_in(report: Mapping[str, Any]) -> list[RuleProposal]:
    """The proposals of a report on correlations: direct causes, together, before shared keys.

    A key that joins more than they do goes with them: if a named message was published twice,
    nobody knows which one is meant, and the key still joins it.
    """
    reactions = report["reactions"]
    entries = [entry for entry in report["proposals"] if _joins_enough(entry, reactions)]
    direct = [entry for entry in entries if entry["kind"] != "conversation"]
    by_keys = [entry for entry in entries if entry["kind"] == "conversation"]
    if direct and by_keys and by_keys[0]["publishes"] > _count_joins(direct):
        direct.append(by_keys.pop(0))
    bundles = [direct] * bool(direct) + [[entry] for entry in by_keys]
    names: Counter[str] = Counter()
    rules = [_proposal(bundle, reactions, names) for bundle in bundles]
    hands = [hand for hand in report.get("in_hand", ()) if hand["agreement"] >= LEAST_CONFIRMED]
    hands = sorted(hands, key=itemgetter("publishes"), reverse=True)[:MOST_PARTICIPANTS]
    return [*rules, _in_hand(hands, reactions)] if hands else rules


def _in_hand(hands: Sequence[Mapping[str, Any]], reactions: int) -> RuleProposal:
    """The proposal of messages in hand, with the figures of the worst participant."""
    numbers = [hand["participant"]["number"] for hand in hands]
    linked, agreement = (
        sum(hand["linked"] for hand in hands),
        min(hand["agreement"] for hand in hands),
    )
    names = [hand["participant"]["name"] for hand in hands]
    return RuleProposal(
        id=digest_of([{"in_hand": numbers}]),
        kind="in_hand",
        says=f"the only message that {join_names(names)} had in hand may have led to a publish",
        joins=sum(hand["publishes"] for hand in hands),
        of=reactions,
        certainty=f"links or keys agree in {agreement:.0%} of {linked:,}",
        agreement=agreement,
        linked=linked,
        rules=[],
        examples=msgspec.convert(
            [hand["examples"][0] for hand in hands[:MOST_EXAMPLES]], list[Example]
        ),
        participants=numbers,
    )


def _count_joins(bundle: Sequence[Mapping[str, Any]]) -> int:
    """The publishes that rules join, at least: by direct causes, or by a key."""
    direct = sum(entry["publishes"] for entry in bundle if entry["kind"] != "conversation")
    return int(max(direct, *(entry["publishes"] for entry in bundle)))


def _joins_enough(entry: Mapping[str, Any], reactions: int) -> bool:
    """Tell whether it joins enough of all publishes, or of one user's."""
    bar = _bar(entry)
    return entry["publishes"] >= bar * reactions or any(
        user["support"] >= bar and user["reactions"] >= LEAST_REACTIONS
        for user in entry.get("users", ())
    )


def _bar(entry: Mapping[str, Any]) -> float:
    """The share of reactions that a proposal has to join."""
    values = [example["value"] or "" for example in entry["examples"]]
    is_counted = bool(values) and all(map(str.isdecimal, values))
    return LEAST_BY_NUMBERS if is_counted and entry["chance"] is None else LEAST_JOINED


def _proposal(
    bundle: Sequence[Mapping[str, Any]], reactions: int, names: Counter[str]
) -> RuleProposal:
    """Rules that are adopted together, with the worst one's figures.

    Their names are made to differ from the ``names`` of others.
    """

    def figures(name: str) -> list[float]:
        return [entry[name] for entry in bundle if entry[name] is not None]

    rules = [_with_unique_name(rule, names) for entry in bundle for rule in entry["rules"]]
    agreement, linked = min(figures("agreement"), default=None), sum(figures("linked"))
    remarks = [_ambiguity(max(figures("ambiguity"))), _chance(max(figures("chance"), default=None))]
    if agreement is not None:
        remarks.append(f"links agree in {agreement:.0%} of {linked:,}")
    examples = [example for entry in bundle for example in entry["examples"]]
    worst = max(
        bundle, key=lambda entry: max((e["share"] for e in entry.get("users", ())), default=0)
    )
    return RuleProposal(
        id=digest_of(rules),
        kind=bundle[0]["kind"],
        says=" and ".join(_sentence(entry["kind"], entry["rules"]) for entry in bundle),
        joins=min(_count_joins(bundle), reactions),
        of=reactions,
        certainty=", ".join(remarks),
        agreement=agreement,
        linked=int(linked),
        rules=rules,
        examples=msgspec.convert(examples, list[Example]),
        users=msgspec.convert(worst.get("users", ()), list[UserShare]),
    )


def _ambiguity(messages: float) -> str:
    is_single = messages - 1 < _NEARLY
    return "unambiguous" if is_single else f"{messages:.2f} messages may be meant each"


def _chance(share: float | None) -> str:
    if share is None:
        return "nothing further back to compare with"
    return "no coincidences" if share < _NEARLY else f"{share:.1%} coincidences"


def _with_unique_name(rule: Mapping[str, Any], names: Counter[str]) -> dict[str, Any]:
    name = rule["name"]
    names[name] += 1
    return {**rule, "name": name if names[name] == 1 else f"{name}-{names[name]}"}


def digest_of(rules: Iterable[Mapping[str, Any]]) -> str:
    return sha256(msgspec.json.encode([*rules], order="sorted")).hexdigest()[:12]


def _sentence(kind: RuleKind, rules: Sequence[Mapping[str, Any]]) -> str:
    children = [_in_words(rule["child"]) for rule in rules]
    if kind == "conversation":
        return f"{' and '.join(children)} {'tie' if children[1:] else 'ties'} messages together"
    parent = _in_words(rules[0]["parent"])
    verb = "answers a request's" if kind == "reply" else "names"
    return f"{children[0]} {verb} {parent}"


def _in_words(places: str | Sequence[str]) -> str:
    """A field in words; of a reply's two fields, the last."""
    text = places if isinstance(places, str) else places[-1]
    source, _, pointer = text.removeprefix("$message.").partition("#/")
    return _PLACES[source].format(pointer.replace("~1", "/").replace("~0", "~"))
