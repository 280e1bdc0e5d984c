"""Sentences: a conversation, clause by clause, and what became of a copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from model.conversations.clauses import Clause, ClauseWord
from model.conversations.consumers import NO_SILENCE, Silence
from model.conversations.conversation import Counts
from model.conversations.messages import FailureWord, Message
from model.conversations.outcomes import is_in_hand
from model.happened import ConversationEvent
from model.sound import join_names
from model.wording import Sentence
from model.words import Via, number_of, verb


def other_fate_of(head: ConversationEvent) -> str:
    """The other possible fate of a copy that waits."""
    if head.expiration is not None:
        return Sentence.mortal_fate.format(limit=head.expiration)
    return Sentence.waiting_fate


_MANY_FAILED: Mapping[FailureWord, Sentence] = {
    "died": Sentence.many_died,
    "error_queue": Sentence.many_in_error_queue,
    "unroutable": Sentence.many_unroutable,
    "came_back": Sentence.many_came_back,
    "gone": Sentence.many_gone,
}
_ROOT_ALONE = {
    Via.links: Sentence.unnamed_root,
    Via.conversation: Sentence.unshared_root,
    Via.any: Sentence.fruitless_root,
}


def clauses_of(
    root: ConversationEvent,
    messages: Sequence[Message],
    counts: Counts,
    ended_at: int,
    *,
    via: Via = Via.links,
    unnamed: Sequence[str] = (),
    silence: Silence = NO_SILENCE,
    recent: Sequence[str] = (),
    truncated: bool = False,
    is_whole: bool = True,
) -> tuple[Clause, ...]:
    """The clauses of a conversation's sentence.

    ``unnamed`` and ``recent`` are names of participants that may carry it on, as in ``silence``.
    Unless it ``is_whole``, events of it may be missing.
    """
    effects, type_ = counts.messages - 1, root.message_type
    copies = [copy for message in messages for copy in message.copies]
    deliveries = [delivery for copy in copies for delivery in copy.deliveries]
    holders = [delivery.record.name for delivery in deliveries if is_in_hand(delivery)]
    goes_on = counts.waiting > 0 or bool(holders)
    time = "so far" if goes_on else f"in {duration_words(ended_at - root.recorded_at)}"
    effects_text = number_of(effects, "more message")
    if truncated:
        effects_text = f"at least {effects_text}" if effects else "more than is shown"
    is_alone = not effects and not truncated
    led_to = Sentence.may_have_led_to if via is Via.any else Sentence.led_to
    first = _ROOT_ALONE[via] if is_alone else led_to
    text = first.format(type=type_, effects=effects_text, time=time)
    clauses = [Clause("alone" if is_alone else "led_to", text)]

    def add(
        about: ClauseWord,
        sentence: Sentence,
        count: int | None = None,
        queue: str | None = None,
        names: Sequence[str] = (),
        remedy: str | None = None,
    ) -> None:
        text = sentence.format(
            queue=queue, names=names and join_names(names), **_forms(count or len(names))
        )
        queues = () if queue is None else (queue,)
        clauses.append(Clause(about, text, count, queues, tuple(names), remedy=remedy))

    failures = Counter((f.kind, f.queue) for f in (message.failure for message in messages) if f)
    for (kind, queue), times in failures.most_common(3):
        add(kind, _MANY_FAILED[kind], times, queue)
    back = Counter(copy.queue for copy in copies if copy.waits_since and copy.returns)
    if counts.waiting > back.total():
        add("waiting", Sentence.many_waiting, counts.waiting - back.total())
    for queue, times in back.most_common(3):
        add("back", Sentence.many_back, times, queue)
    for mover, times in Counter(d.mover for d in deliveries if d.mover).most_common(3):
        add("left", Sentence.many_left, times, names=[mover])
    if holders:
        add("held", Sentence.many_held, len(holders), names=[*dict.fromkeys(holders)])
    # Keys decide more than links do.
    has_keys = via is Via.links and any(message.record.keys for message in messages)
    doubts: tuple[tuple[ClauseWord, Sentence, Sequence[str], str | None], ...] = (
        ("unnamed", Sentence.unnamed, unnamed, Sentence.naming),
        ("silent", Sentence.silent, silence.silent, Sentence.grouping if has_keys else None),
        ("pending", Sentence.pending, silence.pending, None),
        ("halves", Sentence.halves_here, silence.halves, Sentence.one_name),
        ("recent", Sentence.recent, recent, Sentence.later),
    )
    for about, sentence, names, remedy in doubts:
        if names:
            add(about, sentence, names=names, remedy=remedy)
    if not is_whole:
        add("gap", Sentence.in_gap)
    return tuple(clauses)


def _forms(count: int) -> dict[str, str]:
    """The words that depend on a number."""
    return {
        "are": verb(count, "is", "are"),
        "were": verb(count, "was", "were"),
        "have": verb(count, "has", "have"),
        "receive": verb(count, "receives", "receive"),
        "them": verb(count, "it", "them"),
        "they": verb(count, "it was", "they were"),
    }


def duration_words(microseconds: int) -> str:
    """A duration for people."""
    if microseconds < 1_000:
        return "under 1 ms"
    if microseconds < 1_000_000:
        return f"{microseconds // 1000} ms"
    seconds = microseconds / 1_000_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
