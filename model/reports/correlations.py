"""Reports on correlations: rules that a period's messages speak for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from model.reports.facts import ReportFacts
from model.who import Who

RuleKind: TypeAlias = Literal["parent", "reply", "conversation"]


@dataclass(frozen=True, kw_only=True)
class CorrelationFacts(ReportFacts):
    """A report on correlations without its lists."""

    report: Literal["correlations"]
    events: Annotated[int, "Events of the period, those of quiet traffic left out."]
    looked_at: Annotated[int, "Those of them that were compared."]
    looked_at_all: Annotated[bool, "Whether all were; else stretches of them that lie evenly."]
    reactions: Annotated[
        int,
        "Publishes that were compared and may have a cause: their participant had been handed "
        "something.",
    ]
    left_out: Annotated[
        dict[str, int],
        "What was not looked into, by reason, among the events that were looked at first: bodies "
        "that are not JSON, not whole or too large, fields and values beyond bounds.",
    ]


@dataclass(frozen=True, kw_only=True)
class Correlated:
    """A place in deliveries and one in publishes, with its figures."""

    parent: Annotated[str, "Where deliveries have the value, as an expression."]
    child: Annotated[str, "Where later publishes of the same participant have it."]
    publishes: Annotated[int, "Publishes that have a value from there."]
    support: Annotated[float, "Their share of `reactions`."]
    ambiguity: Annotated[float, "Messages that such a publish may mean, on average."]
    chance: Annotated[
        float | None,
        "The share that has the value from further back, too; `null` where nothing lies there.",
    ]
    begun: Annotated[float, "How often a value was made up anew, on average."]
    values: Annotated[int, "Distinct values."]


@dataclass(frozen=True)
class FieldPair:
    """A pair of places."""

    parent: str
    child: str


@dataclass(frozen=True)
class Example:
    """A publish, the delivery that it means, and what both say."""

    publish: int
    delivery: int
    value: str | None


@dataclass(frozen=True)
class UserShare:
    """The part that one user's messages have in a proposal."""

    user: str
    share: Annotated[float, "This user's of the publishes that it joins, as a share."]
    support: Annotated[float, "The share that it joins of this user's `reactions`."]
    reactions: Annotated[int, "This user's publishes that may have a cause."]


@dataclass(frozen=True, kw_only=True)
class ProposedRule(Correlated):
    """Rules to adopt, with the figures of the best pair of places."""

    number: int
    kind: RuleKind
    rules: Annotated[
        list[dict[str, Any]],
        "As `PUT /itc_db/links/{vhost}/{name}` takes each; several where messages of one "
        "conversation have its key in several places.",
    ]
    agreement: Annotated[
        float | None,
        "The share that links which messages carry agree with; `null` without enough.",
    ]
    linked: Annotated[int, "How many of the publishes that were kept carry a link."]
    also: Annotated[list[FieldPair], "Others that would have done as well."]
    users: Annotated[list[UserShare], "Whose messages carry it: the ten with the greatest part."]
    examples: list[Example]


@dataclass(frozen=True, kw_only=True)
class RefusedPair(Correlated):
    """A pair of places that is no key."""

    why: str
    agreement: Annotated[float | None, "The share that agrees, where that is why."]


@dataclass(frozen=True)
class RefusedField:
    """A place that holds no keys."""

    place: str
    why: str


@dataclass(frozen=True)
class OneProgram:
    """Two participants that are one program, as the values of their messages say."""

    receiver: Who
    publisher: Who
    publishes: Annotated[int, "Publishes of the one that have values of the other."]
    share: Annotated[float, "Their share of those whose values anybody was handed."]
    policy: Annotated[str | None, "The policy by which they are one."]
    advice: str


@dataclass(frozen=True)
class InHand:
    """A participant that often has exactly one message in hand when it publishes."""

    participant: Who
    publishes: Annotated[int, "Its publishes for which that was so."]
    linked: Annotated[int, "Those of them of which links or keys tell what led to them."]
    agreement: Annotated[float, "The share of these for which it was the message in hand."]
    examples: list[Example]


@dataclass(frozen=True, kw_only=True)
class CorrelationReport(CorrelationFacts):
    """A report: proposals, the best first, and rejected ones."""

    proposals: list[ProposedRule]
    refused: list[RefusedPair]
    places: list[RefusedField]
    programs: list[OneProgram]
    in_hand: list[InHand]
