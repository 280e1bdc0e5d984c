"""When an answer is not sound, and what it says then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.tracker import Policy
from model.gaps import Gap
from model.sound import (
    FINE,
    AssumedParticipant,
    Certainty,
    Client,
    Doubt,
    Evidence,
    Late,
    Misfit,
    MissedLinks,
    OpenedConnection,
    Soundness,
    SplitParticipant,
    doubts_of,
    misfit_of,
    strangers_of,
)
from model.times import Microseconds
from model.wording import Sentence


def assumed(*numbers: int) -> list[AssumedParticipant]:
    return [AssumedParticipant(number, f"shop@127.0.0.1 #{number}", 10, 20) for number in numbers]


def sentences(participants: list[AssumedParticipant], misfit: Misfit | None = None) -> list[str]:
    return [str(doubt) for doubt in doubts_of(participants, misfit)]


def test_the_fine_policies_are_those_that_the_tracker_takes_for_such() -> None:
    assert {policy for policy in Policy if policy.is_finer_than_clients} == set(FINE)


def test_nothing_seen_is_no_doubt() -> None:
    assert doubts_of([], None) == ()


@pytest.mark.parametrize(
    ("a", "b", "within"),
    [(1, 9, False), (1, 10, True), (12, 13, True), (13, 12, True), (20, 99, True), (21, 99, False)],
)
def test_an_assumed_participant_counts_where_its_span_overlaps(
    a: int, b: int, within: bool
) -> None:
    assert assumed(1)[0].is_within(a, b) is within


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((5,), "1 participant may be part of another program: no lasting name, "),
        ((5, 6), "(shop@127.0.0.1 #5 and shop@127.0.0.1 #6). Give all connections "),
        (
            (5, 6, 7, 8, 9),
            "(shop@127.0.0.1 #5, shop@127.0.0.1 #6, shop@127.0.0.1 #7 and 2 more). ",
        ),
    ],
)
def test_assumed_participants_are_named_up_to_three(numbers: tuple[int, ...], said: str) -> None:
    [doubt] = sentences(assumed(*numbers))
    assert doubt.startswith(f"{len(numbers)} participant")
    assert said in doubt


def test_a_policy_that_does_not_fit_is_named_with_the_one_that_does() -> None:
    assert sentences([], Misfit("/", "channel", 40, 12)) == [
        "participants are channels, and 12 of 40 publishes are by channels that received nothing,"
        " though their clients receive on others."
        " To see it, run rabbitmq-itc restamp / --participant client"
    ]


def test_one_publish_apart_is_enough() -> None:
    clients = [
        Client("/", "channel", "shop", "10.0.0.7", "", publishes=9, alone=1, receives=1),
        Client("/", "channel", "shop", "10.0.0.8", "", publishes=7, alone=7, receives=0),
    ]
    assert misfit_of(clients) == Misfit("/", "channel", 16, 1)
    assert len(doubts_of([], misfit_of(clients))) == 1
    assert doubts_of([], misfit_of(clients[1:])) == ()
    assert misfit_of([]) is None


@pytest.mark.parametrize("policy", ["client", "host", "user"])
@pytest.mark.parametrize(
    ("publishes", "alone", "receives", "apart"),
    [
        (100, 100, 1, 100),  # whoever receives never publishes
        (100, 93, 1, 93),
        (100, 90, 1, 0),
        (100, 50, 1, 0),
        (100, 100, 0, 0),  # nobody has received anything yet
        (49, 49, 1, 0),  # too few to say
    ],
)
def test_where_hardly_anybody_who_publishes_receives_no_policy_is_sure(
    policy: str, publishes: int, alone: int, receives: int, apart: int
) -> None:
    clients = [
        Client("/", policy, "shop", "10.0.0.7", "", publishes, alone, 0),
        Client("/", policy, "shop", "10.0.0.8", "", 0, 0, receives),
    ]
    misfit = misfit_of(clients)
    assert misfit == (Misfit("/", policy, publishes, apart) if apart else None)
    said = sentences([], misfit)
    assert len(said) == bool(apart)
    assert all(one.startswith(f"{apart} of 100 publishes are by participants") for one in said)


def named(who: str, *, publishes: int, receives: int, place: str = "127.0.0.1") -> Client:
    user, client = who.split()
    alone = 0 if receives else publishes
    return Client("/", "client", user, place, client, publishes, alone, receives)


def test_two_names_of_which_one_only_receives_and_one_only_publishes_may_be_one_program() -> None:
    reading, writing = (
        named("shop in", publishes=0, receives=1),
        named("shop out", publishes=9, receives=0),
    )
    misfit = misfit_of([named("shop web", publishes=9, receives=1), reading, writing])
    [said] = sentences([], misfit)
    assert said.startswith("'in' only receives and 'out' only publishes, and one is no program's")
    assert said.endswith("rabbitmq-itc restamp / --participant host")
    for other in (
        named("shop out", publishes=9, receives=1),
        named("other out", publishes=9, receives=0),
        named("shop out", publishes=9, receives=0, place="127.0.0.2"),
        named("shop out", publishes=0, receives=1),
    ):
        assert misfit_of([reading, other]) is None


def test_the_command_can_be_pasted_whatever_the_virtual_host_is_called() -> None:
    [doubt] = doubts_of([], Misfit("a b; rm", "connection", 1, 1))
    assert doubt.remedy == "To see it, run rabbitmq-itc restamp 'a b; rm' --participant client"


def test_both_kinds_of_doubt_are_said() -> None:
    assert len(doubts_of(assumed(1), Misfit("/", "channel", 2, 1))) == 2


def test_an_answer_is_sound_without_doubts_whatever_was_quiet() -> None:
    certain = Certainty([], Soundness(quiet=3))
    assert (certain.sound, certain.doubts, certain.quiet) == (True, [], 3)
    doubtful = Certainty([], Soundness((Doubt("so", "do"),)))
    assert (doubtful.sound, doubtful.doubts, doubtful.quiet) == (False, ["so. do"], 0)


def test_caveats_say_all_that_restricts_an_answer_once() -> None:
    time = Microseconds(1_700_000_000_000_000)
    lost = Gap(1, 1, 2, time, time, "tracing was off")
    chosen = Gap(2, 1, None, time, None, "only the queue a is taken", declared=True)
    unreadable = replace(chosen, quarantined=1)
    soundness = Soundness((Doubt("so", "Do"),), quiet=1_000)
    assert Certainty([lost, chosen, chosen, unreadable], soundness).caveats == [
        "Not complete: messages may be missing in 2 gaps of this span",
        "Partial by choice: only the queue a is taken, since 2023-11-14 22:13:20 UTC",
        "Not sound: so. Do",
        "Not followed: at least 1,000 events of quiet traffic in this span",
    ]
    assert Certainty([], Soundness()).caveats == []


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (Evidence(), "no message was published in answer to another yet"),
        (Evidence(4, 4), "all 4 publishes that may have a cause name it"),
        (
            Evidence(4, 1, spanned=3),
            "1 of 4 publishes that may have a cause name it, and spans tell 3 more",
        ),
    ],
)
def test_where_all_causes_are_told_nothing_is_advised(evidence: Evidence, said: str) -> None:
    assert evidence.sentence == said
    assert Evidence(4, 1, spanned=1).sentence.endswith(f" more. {Sentence.naming_remedy}")


@pytest.mark.parametrize(
    ("links", "said"),
    [(1, "1 link was found only"), (7, "7 links were"), (1_000, "1000 links or more were")],
)
def test_links_that_clocks_do_not_have_are_a_doubt(links: int, said: str) -> None:
    [doubt] = doubts_of([], None, late=Late("my shop", links))
    assert str(doubt).startswith(said)
    assert "rabbitmq-itc restamp 'my shop'" in str(doubt)
    assert doubts_of([], None, late=Late("/", 0)) == ()


def missing(*numbers: int, policy: str = "channel", known: int = 20) -> list[SplitParticipant]:
    return [
        SplitParticipant("/", policy, number, f"shop@10.0.0.7 #{number}", 10, 20, known, 30)
        for number in numbers
    ]


def test_what_the_policy_missed_is_said_with_rules_counts_and_the_better_policy() -> None:
    missed = [MissedLinks("celery-parent", 20), MissedLinks("reply", 40)]
    [doubt] = doubts_of([], None, missing(4, 5), missed)
    assert doubt.statement == (
        "participants are channels: of 100 causes that shop@10.0.0.7 #4 and shop@10.0.0.7 #5 name"
        " by reply and celery-parent, 60 had reached another participant of the same program"
    )
    assert doubt.remedy == "To see it, run rabbitmq-itc restamp / --participant client"


@pytest.mark.parametrize(
    ("policy", "better"), [("channel", "client"), ("connection", "client"), ("client", "host")]
)
def test_the_better_policy_takes_together_what_this_one_takes_apart(
    policy: str, better: str
) -> None:
    for missed in ([MissedLinks("reply", 1)], []):  # the links may be gone by now
        [doubt] = doubts_of([], None, missing(1, policy=policy), missed)
        assert doubt.remedy == f"To see it, run rabbitmq-itc restamp / --participant {better}"


@pytest.mark.parametrize(
    ("evidence", "coverage", "fit"),
    [
        (Evidence(), None, None),
        (Evidence(reactions=4), 0.0, None),
        (Evidence(4, 3, known=3, missed=1), 0.75, 0.75),
        (Evidence(4, 4, hidden=4), 1.0, None),
        (Evidence(4, 4, known=1, hidden=3), 1.0, 1.0),
        (Evidence(4, 1, known=1, spanned=3), 0.25, 1.0),
    ],
)
def test_coverage_and_fit_are_shares_and_hidden_ways_are_no_fault_of_the_policy(
    evidence: Evidence, coverage: float | None, fit: float | None
) -> None:
    assert (evidence.coverage, evidence.fit) == (coverage, fit)
    assert evidence.coverage_by_spans == (None if coverage is None else evidence.spanned / 4)


@pytest.mark.parametrize(
    ("reading", "writing", "is_doubt"),
    [
        ("notify", "front", False),
        ("mail-service", "shop-service", False),
        ("order-mail", "loyalty", False),
        ("orders-mail", "order-intake", True),
        ("OrderMail", "orders_intake", True),
        ("listener", "front", True),
        ("notify", "publisher", True),
        ("in", "out", True),
    ],
)
def test_names_without_a_word_in_common_are_two_programs_unless_one_is_a_role(
    reading: str, writing: str, is_doubt: bool
) -> None:
    clients = [
        named(f"shop {reading}", publishes=0, receives=1),
        named(f"shop {writing}", publishes=9, receives=0),
    ]
    assert (misfit_of(clients) is not None) is is_doubt


def test_each_pair_of_one_that_reads_and_one_that_writes_is_looked_at() -> None:
    clients = [
        named("shop mail", publishes=0, receives=1),
        named("shop stock-read", publishes=0, receives=1),
        named("shop audit", publishes=0, receives=1),
        named("shop front", publishes=9, receives=0),
        named("shop stock-writer", publishes=9, receives=0),
    ]
    misfit = misfit_of(clients)
    assert misfit is not None
    assert (misfit.halves, misfit.sign) == (("stock-read", "stock-writer"), Sentence.common_word)


def opened(client: int, port: int, process: str = "", at: int = 0) -> OpenedConnection:
    return OpenedConnection(client, f"127.0.0.1:{port} -> 127.0.0.1:5672", process, at)


@pytest.mark.parametrize(
    ("reading", "writing", "sign"),
    [
        (opened(1, 4000, "71"), opened(2, 5000, "71"), Sentence.one_process),
        (opened(1, 4000, "71"), opened(2, 5000, "72"), None),
        (opened(1, 4000, "1"), opened(2, 5000, "1"), None),  # the first in each container
        (opened(1, 4000), opened(2, 5000), None),
        (opened(1, 4000), opened(2, 4002, at=7_000), Sentence.neighbours),
        (opened(1, 4016, at=7_000), opened(2, 4000), Sentence.neighbours),
        (opened(1, 4000, "71"), opened(2, 4002, "72", at=7_000), None),
        (opened(1, 4000), opened(2, 4018, at=7_000), None),  # others opened theirs between
        (opened(1, 4000), opened(2, 4002, at=30_000), None),  # started one after the other
        (opened(1, 4000), OpenedConnection(2, ":0 -> /run/socket:0", "", 0), None),
        (opened(3, 4000, "71"), opened(2, 4002, "71"), None),  # another's
    ],
)
def test_connections_of_one_process_or_side_by_side_speak_for_one_program(
    reading: OpenedConnection, writing: OpenedConnection, sign: Sentence | None
) -> None:
    clients = [
        named("shop notify", publishes=0, receives=1)._replace(number=1),
        named("shop front", publishes=60, receives=0)._replace(number=2),
    ]
    clients.append(named("shop billing", publishes=9, receives=9)._replace(number=4))
    elsewhere = named("shop audit", publishes=0, receives=1, place="127.0.0.2")._replace(number=5)
    assert strangers_of([*clients, elsewhere]) == {1, 2, 4}
    assert misfit_of(clients) is None
    others = [opened(2, 9_000), opened(4, 4_100, at=2_000_000)]
    misfit = misfit_of(clients, [*others, reading, writing])
    assert (misfit and misfit.sign) == sign
    # Where others open theirs at the same time, all may have been started then.
    misfit = misfit_of(clients, [opened(4, 4_100, at=900_000), *others, reading, writing])
    assert (misfit and misfit.sign) == (None if sign is Sentence.neighbours else sign)
    misfit = misfit_of(clients, [*others, reading, writing])
    said = sentences([], misfit)
    assert [
        one.startswith(f"'notify' only receives and 'front' only publishes, {sign}: they may")
        for one in said
    ] == [True] * bool(sign)


def test_of_names_that_share_a_part_no_connection_is_asked_for() -> None:
    reading, writing = (
        named("shop orders-in", publishes=0, receives=1)._replace(number=1),
        named("shop order-out", publishes=9, receives=0)._replace(number=2),
    )
    assert strangers_of([reading, writing]) == strangers_of([]) == set()
    assert strangers_of([reading._replace(policy="host"), writing._replace(policy="host")]) == set()


@pytest.mark.parametrize(
    ("source", "is_doubt"),
    [("front", False), ("order-intake", True), ("emitter", True), ("", True)],
)
def test_nearly_all_publishes_by_such_as_never_receive_are_a_doubt_unless_names_differ(
    source: str, is_doubt: bool
) -> None:
    clients = [
        Client("/", "client", "web", "10.0.0.7", source, publishes=90, alone=90, receives=0),
        Client("/", "client", "shop", "10.0.0.8", "orders", publishes=5, alone=0, receives=1),
        Client("/", "client", "shop", "10.0.0.9", "mail", publishes=0, alone=0, receives=1),
    ]
    assert misfit_of(clients) == (Misfit("/", "client", 95, 90) if is_doubt else None)
