"""Sentences of outcome, doubt and certainty: a table, from which page, CLI and API have them.

Each is a template with at most 20 words; a name or a number in braces is one of them. Answers have
the sentences ready, so that nobody who shows an answer makes one of their own.
"""

from __future__ import annotations

import enum


class Sentence(enum.StrEnum):
    """A sentence, or a clause of a list; ``format`` puts in names and numbers."""

    # Certainty: of an answer's span.
    incomplete = "Not complete: messages may be missing in {gaps} of this span"
    partial = "Partial by choice: {reason}, since {time}"
    unsound = "Not sound: {doubt}"
    quiet = "Not followed: {events} of quiet traffic in this span"

    # Doubts, and what to do about each.
    halves = (
        "{receiving!r} only receives and {publishing!r} only publishes, {sign}: they may be one"
        " program"
    )
    one_place = "as one user at a shared place"
    common_word = "and their names have a word in common"
    role_name = "and one is no program's name"
    one_process = "and both connections give one process id"
    neighbours = "and they connected at once from neighbouring ports"
    halves_remedy = (
        "If so, give both connections one name, or run rabbitmq-itc restamp {vhost} --participant"
        " host"
    )
    coarse = (
        "{apart} of {publishes} publishes {are} by participants that received nothing: programs may"
        " have two users or places"
    )
    coarse_remedy = (
        "rabbitmq-itc restamp {vhost} --participant user takes a user's places together; not needed"
        " if these publishers never receive"
    )
    fine = (
        "participants are {policy}s, and {apart} of {publishes} publishes {are} by {policy}s that"
        " received nothing, though their clients receive on others"
    )
    split_program = (
        "participants are {policy}s: of {causes} causes that {names} name{rules}, {missed} had"
        " reached another participant of the same program"
    )
    policy_remedy = "To see it, run rabbitmq-itc restamp {vhost} --participant {policy}"
    assumed = (
        "{participants} may be part of another program: no lasting name, at a place that programs"
        " share ({names})"
    )
    assumed_remedy = "Give all connections of a program one name, and always the same"
    late = "{links} found only after the events were stamped: the clocks lack what they lead to"
    late_remedy = "rabbitmq-itc restamp {vhost} puts them into the clocks"
    unseen_publish = "the publish of delivery {id} from queue {queue!r} was not seen"
    unseen_cause = "what else may have led to delivery {id} from queue {queue!r} is not known"
    unseen_many = "the publishes of too many deliveries between them were not seen"

    # Verdicts on two events, and on what came since.
    before = "event {a} happened before event {b}, and may have influenced it"
    after = "event {a} happened after event {b}, and may have been influenced by it"
    equal = "event {a} is event {b}"
    concurrent = "events {a} and {b} are concurrent: neither can have influenced the other"
    perhaps_concurrent = (
        "events {a} and {b} are concurrent as far as is known, but a path may be unrecorded"
    )
    caused = "event {a} caused event {b}, {path}"
    was_caused = "event {a} was caused by event {b}, {path}"
    not_evident = "event {a} may have caused event {b}, but {nothing} says so"
    not_evidently_caused = "event {a} may have been caused by event {b}, but {nothing} says so"
    one_of_equal = "Event {event} is a delivery of one of {candidates} equal messages"
    missing_between = "messages may be missing between them"
    missing = "messages may be missing"
    parts_of_one = "some participants may be parts of one program"
    touched = (
        "of {events} since, {floor}{caused:,} {were} caused by {them}, {ceiling}{may_have:,} more"
        " may have been"
    )
    untouched = "{rest:,} cannot have been"
    touched_unknown = (
        "and for {unknown:,} it is unknown, because the publish of a delivery in their past was not"
        " seen"
    )
    touched_as_known = "and no known way leads to the other {rest:,}; but {reasons}"

    # Outcomes of conversations.
    led_to = "{type} led to {effects} {time}"
    may_have_led_to = "{type} may have influenced {effects} {time}"
    unnamed_root = "{type}: no other message names it as its cause"
    unshared_root = "{type}: no other message names it as its cause or shares its keys"
    fruitless_root = "{type}: no other message can have come of it"
    many_in_error_queue = "went to an error queue"
    many_unroutable = "could not be routed"
    many_came_back = "came back again and again"
    many_gone = "{were} lost: nobody was handed {them}"
    many_died = "died in {queue}"
    many_waiting = "{were} not handed over yet"
    many_back = "{were} back in {queue}, and not handed over again"
    many_left = "left by {names}"
    many_held = "{are} in the hands of {names}"
    unnamed = "{names} {have} published since, perhaps for it"
    naming = "to know, have messages carry their cause's id or a key"
    silent = "{names} {have} published since, but only for other messages"
    grouping = "as messages have keys, group them by conversation to see more"
    pending = "{names} {have} published nothing since {they} handed a message here, but still may"
    halves_here = "{names} only {receive}, and may publish by another connection"
    one_name = "one name for both would tell"
    recent = "{names} published for it just now, and may go on"
    later = "ask again in a while"
    in_gap = "Some of it may be missing: the record has a gap then"
    all_settled = "Of every delivery it is known how it ended"
    key_at_rest = "No message with its key is known to wait, or to be in hand"
    links_at_rest = (
        "No message is known to wait, or to be in hand, and each receiver has named another cause"
        " since"
    )
    no_record = "A message was handed over or rejected, and what came of it is not recorded"
    remaining = "Normally follows: {steps}"
    remaining_step = "{type} after {after} ({event})"
    overdue_step = "{type} after {after} ({event}), overdue since {time}"

    # Failures of a message.
    rejected = "{type} rejected{by} in queue {queue}"
    died = "{type} died in {queue}: {reason}{holder}"
    error_queue = "{type} was sent to an error queue from {queue}{holder}"
    unroutable = "{type} reached no queue"
    came_back = "{type} came back to {queue} again and again{holder}"
    gone = "{type} in {queue} {remark}"
    went_on = "it went to queue {queues}"
    put_back = "put back as {event}"

    # Copies that nobody is known to have been handed.
    equal_copy = "was handed over {time}, or an equal message was"
    unread_copy = "left its queue {time}: a delivery from there could not be read"
    absent_copy = "was gone {time}: purged, expired, pushed out, or refused"
    left_copy = (
        "left its queue {time}: purged, dropped, handed over in a gap, moved by a local shovel,"
        " or dead-lettered elsewhere"
    )
    left_again = "was back in its queue, and left it {time}: purged, expired, or dropped"
    deleted_copy = "was deleted with its queue {time}{doubt}"
    mortal_fate = "has expired (after {limit} ms), or was dropped"
    waiting_fate = "was dropped, or expired by its queue's own time"
    returned_fate = "expired, or was dropped"
    waiting_copy = "not handed over: it waits, or {fate}"
    returned_copy = "back in its queue, not handed over again: it waits, or {fate}"
    moved_copy = "waits, or was moved and handed over from {queues}"
    direct_reply = "went to its caller untraced, or to nobody"

    # Whereabouts of a message, and of its copies.
    nowhere = "it was routed to no queue"
    direct_fate = "a direct reply: the broker does not trace whether anybody was given it"
    no_fate = "routed to no queue: nobody was given it"
    handed_over = "handed over for {count} of {queues}"
    perhaps_handed_over = "for {count} more it or an equal message was"
    untraced_reply = "for {count} more it was, untraced, if its caller still listened"
    acknowledged = "acknowledged for {count} of {queues}"
    holder_then = "{name} held {queue}'s when this was last traced"
    holder_now = "{name} has held {queue}'s for {time}"
    copy_fate = "its copy in {queue} {remark}"
    copy_left = "left {queue} by {mover}: {reason}"
    fate_elsewhere = "what became of it then is not traced here"
    holds_copy = "{name} holds the copy from {queue}"
    held_copy = "{name} held the copy from {queue} when last traced"
    rejected_for_good = "{name} rejected it, and {queue} has no dead letter exchange"
    rejected_copy = "{name} rejected it from {queue}: dropped, or a dead letter that waits"
    gave_back = "{name} gave it back; {reason}"
    lost_channel = "{name} lost its channel with it in hand; {reason}"
    unsettled = "no record says how its consumer settled it"
    waits_in_gap = "it waits in {queue}, or was handed over in a gap or a moment ago"
    broker_silent = "the broker does not say whether it still waits in {queue}"
    queue_gone = "{queue} is not there any more, and its messages with it"
    just_arrived = "it went into {queue} a moment ago"
    left_or_dead = "it left {queue}: purged, or a dead letter that waits"
    queue_empty = "{queue} is empty, and nobody was handed it then: {removal}"
    may_have_expired = "its time to live in {queue} is over: it may have expired"
    queue_shrunk = (
        "it waits there, or was purged or pushed out: {queue} has {ready} messages, and {expected}"
        " went in and not out"
    )
    unless_lost = "it waits in {queue}, or expired there or was pushed out"
    waits = "it waits in {queue}"

    # Causes that messages name.
    no_reactions = "no message was published in answer to another yet"
    all_named = "all {reactions:,} publishes that may have a cause name it"
    some_named = "{named:,} of {reactions:,} publishes that may have a cause name it{spans}"
    naming_remedy = (
        "Have the others carry the id of what they answer, or a key of their conversation, or set a"
        " rule"
    )
