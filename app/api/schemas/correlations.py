"""Reports on correlations: rules that a period's messages speak for."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from app.api.schemas.common import Gap, Model, Time, WhoActed
from model.sound import MOST_QUIET


class CorrelationFacts(Model):
    """A report on correlations without its lists."""

    id: str
    report: Literal["correlations"]
    vhost: str
    since: Time
    until: Time
    made_at: Time
    events: int = Field(description="Events of the period, those of quiet traffic left out.")
    looked_at: int = Field(description="Those of them that were compared.")
    looked_at_all: bool = Field(
        description="Whether all were; else stretches of them that lie evenly."
    )
    reactions: int = Field(
        description="Publishes that were compared and may have a cause: their participant had "
        "been handed something."
    )
    left_out: dict[str, int] = Field(
        description="What was not looked into, by reason, among the events that were looked at "
        "first: bodies that are not JSON, not whole or too large, fields and values beyond bounds."
    )
    complete: bool
    gaps: list[Gap]
    sound: bool
    doubts: list[str]
    quiet: int = Field(
        description=f"Events of quiet traffic in the period, counted up to {MOST_QUIET}."
    )


class Correlated(Model):
    """A place in deliveries and one in publishes, with its figures."""

    parent: str = Field(description="Where deliveries have the value, as an expression.")
    child: str = Field(description="Where later publishes of the same participant have it.")
    publishes: int = Field(description="Publishes that have a value from there.")
    support: float = Field(description="Their share of `reactions`.")
    ambiguity: float = Field(description="Messages that such a publish may mean, on average.")
    chance: float | None = Field(
        description="The share that has the value from further back, too; `null` where nothing "
        "lies there."
    )
    begun: float = Field(description="How often a value was made up anew, on average.")
    values: int = Field(description="Distinct values.")


class Places(Model):
    """A pair of places."""

    parent: str
    child: str


class Example(Model):
    """A publish, the delivery that it means, and what both say."""

    publish: int
    delivery: int
    value: str | None


class ProposedRule(Correlated):
    """Rules to adopt, with the figures of the best pair of places."""

    number: int
    kind: Literal["parent", "reply", "conversation"]
    rules: list[dict[str, Any]] = Field(
        description="As `PUT /itc_db/links/{vhost}/{name}` takes each; several where messages of "
        "one conversation have its key in several places."
    )
    agreement: float | None = Field(
        description="The share that links which messages carry agree with; `null` without enough."
    )
    linked: int = Field(description="How many of the publishes that were kept carry a link.")
    also: list[Places] = Field(description="Others that would have done as well.")
    examples: list[Example]


class RefusedPair(Correlated):
    """A pair of places that is no key."""

    why: str
    agreement: float | None = Field(description="The share that agrees, where that is why.")


class RefusedPlace(Model):
    """A place that holds no keys."""

    place: str
    why: str


class OneProgram(Model):
    """Two participants that are one program, as the values of their messages say."""

    receiver: WhoActed
    publisher: WhoActed
    publishes: int = Field(description="Publishes of the one that have values of the other.")
    share: float = Field(description="Their share of those whose values anybody was handed.")
    policy: str | None = Field(description="The policy by which they are one.")
    advice: str


class InTurn(Model):
    """A participant that takes one message at a time: its publishes answer deliveries in turn."""

    participant: WhoActed
    publishes: int
    linked: int = Field(description="Publishes that carry a link to a delivery of their own.")
    agreement: float = Field(description="The share of these for which that is so.")


class CorrelationReport(CorrelationFacts):
    """A report: proposals, the best first, and what was refused."""

    proposals: list[ProposedRule]
    refused: list[RefusedPair]
    places: list[RefusedPlace]
    programs: list[OneProgram]
    in_turn: list[InTurn]
