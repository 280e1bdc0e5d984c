"""What the service says about causes: relations and fates, in a word and in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.api.answers import Heavy
from app.errors import BadRequestError
from app.stored.deliveries import Fate
from itc import Relation, compare
from model.event import Event, Large
from model.gaps import Gap

CLOCK_ALONE: Large = frozenset({"clock"})

_SENTENCES = {
    Relation.before: "event {a} happened before event {b}, and may have influenced it",
    Relation.after: "event {a} happened after event {b}, and may have been influenced by it",
    Relation.equal: "event {a} is event {b}",
    Relation.concurrent: "events {a} and {b} are concurrent: neither can have influenced the other",
}
_CAVEAT = "; but messages may be missing between them, so there may be a path that was not recorded"


def comparison(a: Event, b: Event, gaps: Sequence[Gap]) -> dict[str, Any]:
    """How two events are related; raises `BadRequestError` for two virtual hosts."""
    if a.trace_id != b.trace_id:
        raise BadRequestError(
            "these events are of two virtual hosts, whose clocks cannot be compared"
        )
    relation = compare(a.stamp, b.stamp)
    sentence = _SENTENCES[relation].format(a=a.id, b=b.id)
    if gaps and relation is Relation.concurrent:
        sentence += _CAVEAT
    return {
        "a": a.id,
        "b": b.id,
        "vhost": a.vhost,
        "relation": relation.value,
        "sentence": sentence,
        "complete": not gaps,
        "gaps": [gap.to_json() for gap in gaps],
    }


def deliveries_view(fate: Fate, heavy: Heavy) -> dict[str, Any]:
    """A publish's fate, queue by queue."""
    return {
        "event": fate.publish.id,
        "routed_queues": fate.routed_queues,
        "handed_over": fate.handed_over,
        "sentence": _fate_sentence(fate),
        "queues": [
            {
                "queue": queue.queue,
                "state": queue.state.value,
                "deliveries": heavy.views(queue.deliveries),
                "dead_letters": heavy.views(queue.dead_letters),
                "dead_lettered_to": queue.dead_lettered_to,
            }
            for queue in fate.queues
        ],
    }


def _fate_sentence(fate: Fate) -> str:
    if not fate.queues:
        return "routed to no queue: nobody was given it"
    noun = "queue" if fate.routed_queues == 1 else "queues"
    return f"handed over for {fate.handed_over} of {fate.routed_queues} {noun}"
