"""Reports that are learnt: expectations, variants, and what differs between two periods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from model.reports.facts import ReportFacts
from model.sound import Certainty
from model.times import Duration, Microseconds
from model.variants import Flow
from model.words import BondWord

Strangeness: TypeAlias = Literal[
    "missing", "unexpected", "many", "order", "slow", "waited", "failed", "variant"
]
"""Why a conversation is out of the ordinary."""
FeatureKind: TypeAlias = Literal[
    "participant", "place", "header", "exchange", "size", "message", "time"
]
"""What conversations may have in common."""
State: TypeAlias = Literal["appeared", "vanished", "changed", "same", "unclear"]
"""How what is compared differs."""


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """The numbers of conversations that were judged, and that were left out, and why."""

    conversations: Annotated[int, "Judged: of one of the variants."]
    young: Annotated[int, "More of them may be still to come."]
    unknown: Annotated[int, "They span a gap, or a publish of theirs is not stored."]
    cut: Annotated[int, "Too large to be looked at whole."]


@dataclass(frozen=True, kw_only=True)
class ExpectationsFacts(ReportFacts, LeftOut):
    """A report on a period's lessons, without its lists."""

    report: Literal["expectations"]
    via: BondWord
    wait: Annotated[float, "Seconds after the period in which effects were looked for."]
    share: Annotated[float, "In what share of its cases what is proposed held."]
    cases: Annotated[int, "Of fewer cases nothing is claimed."]
    rare: Annotated[float, "Below which share something is rare."]
    variants_count: int
    outliers_count: Annotated[int, "How many conversations are out of the ordinary."]
    counted_all: Annotated[bool, "Whether all types and variants had room."]


@dataclass(frozen=True)
class TimesTaken:
    """Times in seconds, within 1 %."""

    p50: Duration
    p99: Duration
    p999: Duration
    slow_from: Annotated[Duration | None, "`null` where too few tell."]


@dataclass(frozen=True)
class Multiplicity:
    """The number of cases with this many effects; 8 stands for more, too."""

    count: int
    times: int


@dataclass(frozen=True, kw_only=True)
class LearntEffect:
    """A type to which messages of another led directly."""

    type: str
    cases: Annotated[int, "Messages that are old enough to tell."]
    led: Annotated[int, "How many of these led to it."]
    share: float
    young: Annotated[int, "Messages that are not."]
    many: list[Multiplicity]
    within: TimesTaken


@dataclass(frozen=True)
class LearntOrder:
    """A type that nearly always was before."""

    type: str
    cases: int
    held: int


@dataclass(frozen=True, kw_only=True)
class LearntType:
    """The messages of a type: their effects, and their causes."""

    type: str
    messages: int
    waited: Annotated[TimesTaken | None, "Until each copy was first handed over."]
    leads_to: list[LearntEffect]
    after: list[LearntOrder]


@dataclass(frozen=True)
class Lasted:
    """From the first to the last event, in seconds."""

    p50: Duration
    p99: Duration


@dataclass(frozen=True, kw_only=True)
class LearntVariant:
    """Conversations in which the same types led to the same."""

    variant: str
    type: str
    count: int
    share: Annotated[float, "Among the conversations that began with the type."]
    rare: Annotated[bool | None, "`null` where nothing can be said."]
    examples: list[int]
    lasted: Lasted
    flow: Flow | None


@dataclass(frozen=True, kw_only=True)
class OutlierReason:
    """A reason why a conversation is out of the ordinary."""

    kind: Strangeness
    type: str
    other: Annotated[
        str | None, "The effect, what should have been before, the failure or the variant."
    ]
    event: Annotated[int, "The message of which it is told."]
    seconds: Duration | None
    count: int | None


@dataclass(frozen=True, kw_only=True)
class Outlier:
    """A conversation out of the ordinary."""

    event: Annotated[int, "Its first event."]
    at: Microseconds
    type: str
    variant: str
    reasons: list[OutlierReason]


@dataclass(frozen=True, kw_only=True)
class InCommon:
    """A feature that some conversations have, and others have not."""

    kind: FeatureKind
    type: Annotated[str | None, "Of a message of this type."]
    value: str
    having: int
    of: int
    others_having: int
    of_others: int
    score: Annotated[float, "The difference of the shares."]
    chance: Annotated[float, "How likely this is by chance alone, at most."]


@dataclass(frozen=True, kw_only=True)
class OutlierGroup:
    """Conversations that are out of the ordinary for one reason."""

    kind: Strangeness
    type: str
    other: str | None
    count: int
    examples: list[int]
    in_common: Sequence[InCommon]


@dataclass(frozen=True, kw_only=True)
class ProposedAssertion:
    """An assertion that held, and that may be adopted."""

    assertion: dict[str, str]
    yaml: str
    share: float
    cases: int
    held: int


@dataclass(frozen=True, kw_only=True)
class ExpectationsReport(ExpectationsFacts):
    """Effects of a period's messages, and conversations that are out of the ordinary."""

    types: list[LearntType]
    variants: list[LearntVariant]
    outliers: Annotated[list[Outlier], "The newest."]
    groups: list[OutlierGroup]
    proposals: list[ProposedAssertion]


@dataclass(frozen=True, kw_only=True)
class ComparedSide(Certainty, LeftOut):
    """One of two periods."""


@dataclass(frozen=True, kw_only=True)
class ComparisonFacts(ReportFacts):
    """A comparison without its lists."""

    report: Literal["comparison"]
    before_since: Microseconds
    before_until: Microseconds
    via: BondWord
    wait: float
    cases: int
    changes: Annotated[int, "How much appeared, vanished or changed."]
    before: ComparedSide
    after: ComparedSide
    counted_all: bool


@dataclass(frozen=True)
class SideShare:
    """A number of cases, and of all."""

    cases: int
    count: int

    @property
    def share(self) -> float | None:
        """`count` of `cases`; `null` without any."""
        return round(self.count / self.cases, 6) if self.cases else None


@dataclass(frozen=True, kw_only=True)
class ComparedShare:
    """A share before and after."""

    state: State
    before: SideShare
    after: SideShare


@dataclass(frozen=True)
class ComparedTime:
    """A time before and after, in seconds."""

    state: State
    before: Duration | None
    after: Duration | None


@dataclass(frozen=True, kw_only=True)
class ComparedType(ComparedShare):
    """A type's share of all messages."""

    type: str


@dataclass(frozen=True, kw_only=True)
class ComparedEffect:
    """Messages of a type, and an effect of theirs."""

    type: str
    effect: str
    share: ComparedShare
    p50: ComparedTime
    p99: ComparedTime


@dataclass(frozen=True)
class ComparedExamples:
    """First events of conversations."""

    before: list[int]
    after: list[int]


@dataclass(frozen=True, kw_only=True)
class ComparedVariant(ComparedShare):
    """A variant's share of the conversations that began with a type."""

    variant: str
    type: str
    examples: ComparedExamples
    flow: Flow | None


@dataclass(frozen=True, kw_only=True)
class ComparisonReport(ComparisonFacts):
    """A report on the differences between two periods."""

    types: list[ComparedType]
    effects: list[ComparedEffect]
    variants: list[ComparedVariant]
