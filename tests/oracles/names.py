"""What a message says, by asking every probe in Python, whatever it is that triggers them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from app.tracker import Publish
from app.tracker.links import Names, Rules
from app.tracker.links.probes import (
    CALLED,
    CAUSES,
    CONVERSATIONS,
    FOUND_BY,
    IDS,
    MOST_IDS,
    MOST_KEYS,
    triggers_of,
)
from app.tracker.records import Record
from app.tracker.values import readable


def names_in(rules: Rules, record: Record) -> tuple[Names, Counter[str]]:
    """The names, each field's but the causes in any order; and what was refused."""
    rules.refused = Counter()
    is_publish = type(record) is Publish
    triggers = rules._of_publishes if is_publish else rules._of_deliveries
    record = readable(rules._plain(record, triggers))
    message = rules.look_into(record)
    found: list[list[Any]] = [[], [], [], [], []]
    for probe in rules._probes.values():
        uses = [use for use in probe.uses if use[0] != CAUSES or is_publish]
        is_of_body = not triggers_of(probe)
        if (
            not uses
            or (is_of_body and not record.body)
            or (probe.looks_into_bodies and not rules.read_bodies)
        ):
            continue
        for key in probe.answer(message):
            for use, number in uses:
                found[use].append((number, key) if use == CAUSES else key)
    bounds = {IDS: MOST_IDS, CONVERSATIONS: MOST_KEYS, FOUND_BY: MOST_KEYS, CALLED: MOST_KEYS}
    for use, most in bounds.items():
        found[use] = [*dict.fromkeys(found[use])]
        if len(found[use]) > most:
            found[use] = [*rules._refuse()]
    found[CAUSES] = [*rules._select_causes(tuple(found[CAUSES]), tuple(found[IDS]))]
    return Names(*map(tuple, found)), rules.refused
