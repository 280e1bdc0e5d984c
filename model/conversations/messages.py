"""A message: its publish, its copies, their deliveries, and what became of each."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, TypeAlias, cast

from model.conversations.clauses import Clause, ClauseWord
from model.conversations.deliveries import Delivery, How, HowWord
from model.deaths import Loss
from model.described import INNER
from model.happened import Cause, ConversationEvent
from model.sound import join_names
from model.times import Duration, Microseconds
from model.wording import Sentence
from model.words import BACK, Match, Via

CopyWord: TypeAlias = Literal["handed_over", "waiting", "dead_lettered", "gone"]
FailureWord: TypeAlias = Literal["died", "error_queue", "unroutable", "came_back", "gone"]


class Outcome(enum.StrEnum):
    """The outcome of a message, or of all of a conversation, as far as is known.

    A message is ``open`` while somebody has it in hand, and ``waiting`` also where it is back in
    its queue. It is ``unknown`` where it or an equal one was handed over, and where it was
    rejected, or may have been as others of its queue: it may be a dead letter that waits.
    A conversation is ``open`` where a consumer of its messages has not settled one, has published
    for one just now, has published since without naming a cause or beginning another, or usually
    publishes for what it is handed, or has only begun to receive, and has not published since: the
    conversation may go on. It is ``unknown`` where a consumer names nothing that came of a message
    and has published outside the conversation since: one that waits for several messages may name
    another of them.
    """

    done = "done"
    open = "open"
    unknown = "unknown"
    waiting = "waiting"
    failed = "failed"


class MessageFailure(NamedTuple):
    """The way in which a message failed."""

    kind: FailureWord
    queue: str | None = None
    reason: str | None = None
    exception: str | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """The fate of the copy that a queue got."""

    queue: str
    state: Annotated[
        CopyWord,
        "`handed_over` also where it or an equal message was, which `remark` says; `waiting` also "
        "where it came back to its queue, and was not handed over again.",
    ]
    dead_lettered_to: tuple[str, ...]
    deliveries: tuple[Delivery, ...]
    remark: Annotated[str | None, "What became of it where nobody is known to have it."] = None
    loss: Annotated[Loss | None, INNER] = None
    waits_since: Annotated[
        Microseconds | None, "Of one that waits: when it was published, or came back."
    ] = None
    other_fate: Annotated[str | None, "Of one that waits: what else may have become of it."] = None

    @property
    def returns(self) -> int:
        """The times that it came back to its queue, as far as is known."""
        return sum(delivery.settlement in BACK for delivery in self.deliveries)


@dataclass(frozen=True, slots=True)
class Message:
    """A publish, and what became of it.

    The first of ``led_by`` counts. ``outer_cause`` is set where the cause is not among the events
    that were read.
    """

    record: Annotated[ConversationEvent, INNER]
    led_by: Annotated[tuple[Cause, ...], INNER]
    offset: Annotated[Duration, "Seconds since the conversation began."]
    outcome: Outcome
    failure: MessageFailure | None
    slack: Annotated[Duration, "By how many seconds it could have come later."]
    critical: Annotated[bool, "Whether it is on the critical path."]
    copies: tuple[Copy, ...]
    unseen: Annotated[
        bool,
        "Whether its publish is not stored, or of another conversation: then `event` is its "
        "delivery's.",
    ] = False
    outer_cause: Annotated[Via | None, INNER] = None
    put_back: Annotated[
        int | None, "Of one that died: the publish that put it back into the queue where it died."
    ] = None

    @property
    def event(self) -> int:
        """Its publish."""
        return self.record.id

    @property
    def type(self) -> str:
        """The message's type, by name."""
        return self.record.message_type

    @property
    def exchange(self) -> str:
        """The exchange that it was published to."""
        return self.record.exchange

    @property
    def routing_key(self) -> str:
        """The first, where it has several."""
        return self.record.routing_keys[0] if self.record.routing_keys else ""

    @property
    def participant(self) -> int | None:
        """The publisher; `null` where that is unseen."""
        return None if self.unseen else self.record.participant

    @property
    def at(self) -> Microseconds:
        """The time at which it was published."""
        return self.record.recorded_at

    @property
    def cause(self) -> int | None:
        """The event that led to it."""
        return self.led_by[0].event if self.led_by else None

    @property
    def how(self) -> How | None:
        """`null` where nothing led to it."""
        if self.led_by:
            return How(self.led_by[0].rule, cast("HowWord", self.led_by[0].kind))
        return (
            None if self.outer_cause is None else How(None, cast("HowWord", self.outer_cause.value))
        )

    @property
    def causes(self) -> list[int]:
        """All that it names, or what else led to it."""
        return [*dict.fromkeys(cause.event for cause in self.led_by)]

    @property
    def failure_clauses(self) -> list[Clause]:
        """The way in which it failed, and where it went from there; none where it did not."""
        if (failure := self.failure) is None:
            return []
        copy = next((copy for copy in self.copies if copy.queue == failure.queue), None)
        deliveries, onward = (copy.deliveries, copy.dead_lettered_to) if copy else ((), ())
        freed = {act.cause for d in deliveries for act in d.acts if act.kind != "overflow"}
        freeing = [d for d in deliveries if d.event in freed and d.queue == failure.queue]
        alive = [d for d in deliveries if d.match is not Match.dead_lettered]
        last = next(iter(freeing), alive[-1] if alive else None)
        name, event = (last.record.name, last.event) if last else (None, None)
        is_rejected = (failure.kind, failure.reason) == ("died", "rejected")
        reason = failure.reason or "why is not known"
        text = (Sentence.rejected if is_rejected else _FAILED[failure.kind]).format(
            type=self.type,
            queue=failure.queue or "a queue",
            reason=_DEATHS.get(reason, reason),
            by=f" by {name}" if name else "",
            holder=f", last handed to {name}" if name else "",
            remark=copy.remark if copy else "is gone",
        )
        queues, names = ((e,) if e else () for e in (failure.queue, name))
        about: ClauseWord = "rejected" if is_rejected else failure.kind
        clauses = [Clause(about, text, queues=queues, names=names, event=event)]
        if failure.kind == "died" and onward:
            text = Sentence.went_on.format(queues=join_names(onward))
            clauses.append(Clause("went_on", text, queues=onward))
        if failure.kind == "died" and self.put_back:
            text = Sentence.put_back.format(event=self.put_back)
            clauses.append(Clause("put_back", text, event=self.put_back))
        return clauses

    @property
    def failure_sentence(self) -> str | None:
        """These clauses as a sentence; `null` where it did not fail."""
        return "; ".join(map(str, self.failure_clauses)) or None


_FAILED: Mapping[FailureWord, Sentence] = {
    "died": Sentence.died,
    "error_queue": Sentence.error_queue,
    "unroutable": Sentence.unroutable,
    "came_back": Sentence.came_back,
    "gone": Sentence.gone,
}
_DEATHS = {
    "expired": "its time to live ended",
    "maxlen": "the queue was full",
    "delivery_limit": "it was handed over too often",
}
