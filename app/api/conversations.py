"""Conversations as ``docs/api.md`` shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.api.causality import certainty
from app.stored.conversations import ConversationPage, FoundConversation, ListedConversation
from model.conversations import Conversation, Copy, Counts, Delivery, Message
from model.gaps import Gap
from model.sound import Soundness
from model.times import iso_time


def conversation_view(
    found: FoundConversation, gaps: Sequence[Gap], soundness: Soundness
) -> dict[str, Any]:
    """A conversation, or a page of it."""
    one = found.conversation
    most, message = one.amplification
    return {
        "event": found.event,
        "root": found.root,
        "other_roots": found.other_roots,
        "vhost": found.vhost,
        "via": found.via.value,
        "type": one.type,
        "outcome": one.outcome.value,
        "sentence": one.sentence,
        "began_at": iso_time(one.began_at),
        "ended_at": iso_time(one.ended_at),
        "seconds": _seconds(one.duration),
        "counts": _counts(one.counts),
        "keys": one.keys,
        "participants": [{"number": number, "name": name} for number, name in one.participants],
        "messages": [_message(each, found) for each in one.messages],
        "critical_path": one.critical_path,
        "amplification": {"most": most, "event": message},
        "loops": [loop._asdict() for loop in one.loops],
        "truncated": one.truncated,
        "next": found.next,
        **certainty(gaps, soundness),
    }


def conversations_view(page: ConversationPage) -> dict[str, Any]:
    """A page of conversations."""
    return {
        "items": [_listed(each) for each in page.items],
        "truncated": page.truncated,
        "next": page.next,
        "looked_at": page.looked_at,
        "since": None if page.since is None else iso_time(page.since),
    }


def _listed(listed: ListedConversation) -> dict[str, Any]:
    one = listed.conversation
    return {
        "root": one.root,
        "vhost": listed.vhost,
        "type": one.type,
        "began_at": iso_time(one.began_at),
        "seconds": _seconds(one.duration),
        "outcome": one.outcome.value,
        "counts": _counts(one.counts),
        "keys": [*one.keys],
        "participants": [*dict.fromkeys(name for _, name in one.participants)],
        "sentence": one.sentence,
        "truncated": one.truncated,
    }


def _message(message: Message, found: FoundConversation) -> dict[str, Any]:
    one, it, cause, failure = found.conversation, message.it, message.cause, message.failure
    how = None
    if cause is not None:
        how = {"rule": cause.rule, "kind": cause.kind}
    elif message.is_elsewhere:
        how = {"rule": None, "kind": found.via.value}
    return {
        "event": it.id,
        "unseen": message.unseen,
        "type": it.message_type,
        "exchange": it.exchange,
        "routing_key": it.routing_keys[0] if it.routing_keys else "",
        "participant": None if message.unseen else it.participant,
        "at": iso_time(it.at),
        "cause": None if cause is None else cause.event,
        "how": how,
        "causes": [*dict.fromkeys(each.event for each in message.causes)],
        "offset": _seconds(it.at - one.began_at),
        "outcome": message.outcome.value,
        "failure": None if failure is None else failure._asdict(),
        "slack": _seconds(message.slack),
        "critical": message.critical,
        "copies": [_copy(each, one) for each in message.copies],
    }


def _copy(copy: Copy, one: Conversation) -> dict[str, Any]:
    return {
        "queue": copy.queue,
        "state": copy.state,
        "dead_lettered_to": copy.dead_lettered_to,
        "remark": copy.remark,
        "deliveries": [_delivery(each, one) for each in copy.deliveries],
    }


def _delivery(delivery: Delivery, one: Conversation) -> dict[str, Any]:
    it = delivery.it
    return {
        "event": it.id,
        "participant": it.participant,
        "at": iso_time(it.at),
        "offset": _seconds(it.at - one.began_at),
        "match": it.match.name,
        "redelivered": it.redelivered,
        "queue": it.queue,
        "queued": _seconds(delivery.queued),
        "handled": None if delivery.handled is None else _seconds(delivery.handled),
        "handled_until": delivery.handled_until,
        "slack": _seconds(delivery.slack),
        "critical": delivery.critical,
        "leads_to": delivery.leads_to,
    }


def _counts(counts: Counts) -> dict[str, int]:
    return counts._asdict()


def _seconds(microseconds: int) -> float:
    return microseconds / 1e6
