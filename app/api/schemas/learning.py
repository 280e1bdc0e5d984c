"""What was learnt from a period: expectations, variants, and what differs between two periods."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from app.api.schemas.common import Gap, Model, Time
from app.api.schemas.reports import ReportFacts
from model.sound import MOST_QUIET

AlongWord = Literal["links", "conversation"]
ReasonWord = Literal[
    "missing", "unexpected", "many", "order", "slow", "waited", "failed", "variant"
]
FeatureWord = Literal["participant", "place", "header", "exchange", "size", "message", "time"]
StateWord = Literal["appeared", "vanished", "changed", "same", "unclear"]


class LeftOut(Model):
    """How many conversations were judged, and how many were left out, and why."""

    conversations: int = Field(description="Judged: of one of the variants.")
    young: int = Field(description="More of them may be still to come.")
    unknown: int = Field(description="They span a gap, or a publish of theirs is not stored.")
    cut: int = Field(description="Too large to be looked at whole.")


class ExpectationsFacts(ReportFacts, LeftOut):
    """A report of what was learnt, without its lists."""

    report: Literal["expectations"]
    via: AlongWord
    wait: float = Field(description="Seconds after the period in which effects were looked for.")
    share: float = Field(description="In what share of its cases what is proposed held.")
    cases: int = Field(description="Of fewer cases nothing is claimed.")
    rare: float = Field(description="Below which share something is rare.")
    variants_count: int
    outliers_count: int = Field(description="How many conversations are out of the ordinary.")
    counted_all: bool = Field(description="Whether all types and variants had room.")


class Taken(Model):
    """Times in seconds, within 1 %."""

    p50: float
    p99: float
    p999: float
    slow_from: float | None = Field(description="`null` where too few tell.")


class Many(Model):
    """How often there were so many; 8 stands for more, too."""

    count: int
    times: int


class LeadsTo(Model):
    """A type to which messages of another led directly."""

    type: str
    cases: int = Field(description="Messages that are old enough to tell.")
    led: int = Field(description="How many of these led to it.")
    share: float
    young: int = Field(description="Messages that are not.")
    many: list[Many]
    within: Taken


class After(Model):
    """A type that nearly always was before."""

    type: str
    cases: int
    held: int


class LearntType(Model):
    """What messages of a type led to, and what was before them."""

    type: str
    messages: int
    waited: Taken | None = Field(description="Until each copy was first handed over.")
    leads_to: list[LeadsTo]
    after: list[After]


class FlowStep(Model):
    """Messages of a type, and what each led to."""

    type: str
    count: int
    failures: list[str]
    waits: bool = Field(description="A copy was not handed over.")
    also_after: list[str] = Field(description="Types of its further causes.")
    steps: list[FlowStep]


class Flow(Model):
    """What describes a variant: a tree of what led to what."""

    messages: int
    steps: list[FlowStep]
    truncated: bool


class Lasted(Model):
    """From the first to the last event, in seconds."""

    p50: float
    p99: float


class LearntVariant(Model):
    """Conversations in which the same types led to the same."""

    variant: str
    type: str
    count: int
    share: float = Field(description="Among the conversations that began with the type.")
    rare: bool | None = Field(description="`null` where nothing can be said.")
    examples: list[int]
    lasted: Lasted
    flow: Flow | None


class Reason(Model):
    """Why a conversation is out of the ordinary."""

    kind: ReasonWord
    type: str
    other: str | None = Field(
        description="The effect, what should have been before, the failure or the variant."
    )
    event: int = Field(description="The message of which it is told.")
    seconds: float | None
    count: int | None


class Outlier(Model):
    """A conversation out of the ordinary."""

    event: int = Field(description="Its first event.")
    at: Time
    type: str
    variant: str
    reasons: list[Reason]


class InCommon(Model):
    """What some conversations have, and others have not."""

    kind: FeatureWord
    type: str | None = Field(description="Of a message of this type.")
    value: str
    having: int
    of: int
    others_having: int
    of_others: int
    score: float = Field(description="The difference of the shares.")
    chance: float = Field(description="How likely this is by chance alone, at most.")


class OutlierGroup(Model):
    """Conversations that are out of the ordinary for one reason."""

    kind: ReasonWord
    type: str
    other: str | None
    count: int
    examples: list[int]
    in_common: list[InCommon]


class Proposal(Model):
    """What held, as an assertion that may be adopted."""

    assertion: dict[str, str]
    yaml: str
    share: float
    cases: int
    held: int


class ExpectationsReport(ExpectationsFacts):
    """What a period's messages led to, and which conversations are out of the ordinary."""

    types: list[LearntType]
    variants: list[LearntVariant]
    outliers: list[Outlier] = Field(description="The newest.")
    groups: list[OutlierGroup]
    proposals: list[Proposal]


class ComparedSide(LeftOut):
    """One of two periods."""

    complete: bool
    gaps: list[Gap]
    sound: bool
    doubts: list[str]
    quiet: int = Field(
        description=f"Events of quiet traffic in the period, counted up to {MOST_QUIET}."
    )


class ComparisonFacts(ReportFacts):
    """A comparison without its lists."""

    report: Literal["comparison"]
    before_since: Time
    before_until: Time
    via: AlongWord
    wait: float
    cases: int
    changes: int = Field(description="How much appeared, vanished or changed.")
    before: ComparedSide
    after: ComparedSide
    counted_all: bool


class SideShare(Model):
    """Of how many cases how many."""

    cases: int
    count: int
    share: float | None


class ComparedShare(Model):
    """A share before and after."""

    state: StateWord
    before: SideShare
    after: SideShare


class ComparedTime(Model):
    """A time before and after, in seconds."""

    state: StateWord
    before: float | None
    after: float | None


class ComparedType(ComparedShare):
    """Of all messages those of a type."""

    type: str


class ComparedEffect(Model):
    """Messages of a type, and an effect of theirs."""

    type: str
    effect: str
    share: ComparedShare
    p50: ComparedTime
    p99: ComparedTime


class ComparedExamples(Model):
    """First events of conversations."""

    before: list[int]
    after: list[int]


class ComparedVariant(ComparedShare):
    """Of the conversations that began with a type those of a variant."""

    variant: str
    type: str
    examples: ComparedExamples
    flow: Flow | None


class ComparisonReport(ComparisonFacts):
    """What differs between two periods."""

    types: list[ComparedType]
    effects: list[ComparedEffect]
    variants: list[ComparedVariant]
