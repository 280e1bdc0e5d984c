"""What is read of the event exchange's messages: recorded ones, and ones that lie."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies

from app.broker.announced import (
    LONGEST_PROPERTY,
    MOST_PROPERTIES,
    announcement,
    connection_of,
    properties_of,
)
from app.stored.capture import ClosedConnection, NewConnection

NODE = "itc-a5d38c6e@localhost"
CAPABILITIES = (
    '{<<"capabilities">>,table,[{<<"authentication_failure_close">>,bool,true},'
    '{<<"basic.nack">>,bool,true},{<<"connection.blocked">>,bool,true}]}'
)


def created(*properties: str, **more: Any) -> dict[str, Any]:
    """The headers of a `connection.created`, as 3.10.8 sends them, less what nobody reads."""
    return {
        "user_who_performed_action": "guest",
        "node": NODE,
        "connected_at": 1795316507347,
        "client_properties": [CAPABILITIES, *properties],
        "vhost": "/",
        "user": "guest",
        "protocol": "{0,9,1}",
        "name": "127.0.0.1:42372 -> 127.0.0.1:44025",
        "pid": f"<{NODE}.1795316495.917.0>",
        "type": "network",
        "timestamp_in_ms": 1795316507350,
    } | more


def opened(headers: dict[str, Any]) -> NewConnection:
    found = announcement("connection.created", headers)
    assert isinstance(found, NewConnection)
    return found


def test_a_connection_is_announced_with_its_names() -> None:
    found = opened(
        created(
            '{<<"big">>,long,1099511627776}',
            '{<<"connection_name">>,longstr,<<"orders-0">>}',
            '{<<"fl">>,float,1.5}',
            '{<<"none">>,void,undefined}',
            '{<<"process_id">>,short,4711}',
            '{<<"product">>,longstr,<<"aiormq">>}',
            user_provided_name="orders-0",
        )
    )
    assert found == NewConnection(
        node=NODE,
        name="127.0.0.1:42372 -> 127.0.0.1:44025",
        vhost="/",
        user="guest",
        opened_at=1795316507347_000,
        pid=f"<{NODE}.1795316495.917.0>",
        client="orders",
        process="4711",
    )


def test_its_end_is_announced() -> None:
    headers: dict[str, Any] = {
        "client_properties": [CAPABILITIES],
        "node": NODE,
        "pid": f"<{NODE}.1795316495.917.0>",
        "name": "127.0.0.1:42372 -> 127.0.0.1:44025",
        "timestamp_in_ms": 1795316508443,
    }
    assert announcement("connection.closed", headers) == ClosedConnection(
        NODE, headers["name"], headers["pid"], 1795316508443_000
    )


def test_a_client_of_mqtt_is_named_by_its_id() -> None:
    """The first as 3.10.8 sends it, the second as 4.3.6 does."""
    old = created(client_properties=[], variable_map='#{<<"client_id">> => <<"sensor-7">>}')
    new = created(client_properties=['{client_id,longstr,<<"sensor-7">>}'])
    assert properties_of(old) == properties_of(new) == {"client_id": "sensor-7"}
    assert opened(old).client == "sensor-7"


def test_a_container_of_amqp_1_0_is_named_by_its_id() -> None:
    assert opened(created(container_id="billing")).client == "billing"


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ('<<"orders-0">>', "orders-0"),
        ("<<195,188,109,108,195,164,117,116>>", "ümläut"),
        ('<<"ümläut"/utf8>>', "ümläut"),
        ("<<0,32,27,91,51,49,109>>", "\\x00 \x1b[31m"),
        ("<<255,254>>", "\\xff\\xfe"),
        (r'<<"say \"x\" \\ \n \x{20AC}\101">>', 'say "x" \\ \n €A'),
        (r'<<"\x{D800}\x{FFFFFF}">>', "\\ud800\ufffd"),
        ('<<"a long"\n   " one">>', "a long one"),
        ('"a list"', "a list"),
        ("-5", "-5"),
    ],
)
def test_a_property_is_read_however_erlang_writes_it(term: str, text: str) -> None:
    found = properties_of(created(f'{{<<"connection_name">>,longstr,{term}}}'))
    assert found == {"connection_name": text}


@pytest.mark.parametrize(
    "lie",
    [
        '{<<"x">>,table,[{<<"connection_name">>,longstr,<<"billing">>}]}',
        r'{<<"x">>,longstr,<<"\">>},{<<\"connection_name\">>,longstr,<<\"billing">>}',
        '{<<"connection_name">>,table,[{<<"connection_name">>,longstr,<<"billing">>}]}',
        '{<<"connection_name">>,longstr,<<"billing">>',
        '{<<"connection_name">>,longstr,<<"' + "b" * LONGEST_PROPERTY + '">>}',
        '{<<"connection_name">>,longstr,<<>>}',
        '{<<"connection_name">>,array,[{longstr,<<"billing">>}]}',
        '{<<"connection_name">>,bool,true}',
        '{<<"connection_name">>,double,1.5}',
    ],
)
def test_nothing_inside_another_value_passes_for_a_property(lie: str) -> None:
    found = opened(created(lie))
    assert (found.client, properties_of(created(lie))) == (None, {})


def test_only_so_many_properties_are_read() -> None:
    many = ['{<<"x">>,longstr,<<"y">>}'] * MOST_PROPERTIES
    assert properties_of(created(*many, '{<<"connection_name">>,longstr,<<"late">>}')) == {}


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        *((key, None) for key in ("node", "name")),
        *(("connected_at", wrong) for wrong in ("1", -1, 2**63, True, 1.5)),
        ("name", 5),
        ("x-death", [{"queue": "mine"}]),
    ],
)
def test_what_is_no_announcement_of_the_broker_is_none(key: str, wrong: object) -> None:
    assert announcement("connection.created", created() | {key: wrong}) is None


def test_other_events_are_none() -> None:
    assert announcement("channel.created", created()) is None
    assert announcement("itc.trace.connections", created()) is None
    assert announcement("connection.closed", created(pid="")) is None


def test_the_management_api_says_the_same_less_the_process() -> None:
    answer = {
        "client_properties": {
            "capabilities": {"basic.nack": True},
            "connection_name": "orders-0",
            "process_id": 4711,
            "product": "aiormq",
        },
        "connected_at": 1795316507347,
        "name": "127.0.0.1:42372 -> 127.0.0.1:44025",
        "node": NODE,
        "user": "guest",
        "user_provided_name": "orders-0",
        "vhost": "/",
    }
    terms = ['{<<"connection_name">>,longstr,<<"orders-0">>}', '{<<"process_id">>,short,4711}']
    announced = opened(created(*terms, user_provided_name="orders-0", pid=""))
    assert connection_of(answer) == announced


texts = strategies.text(
    strategies.characters(exclude_categories=()) | strategies.sampled_from('{}<>",\\[]')
)
values = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | texts,
    lambda inner: strategies.lists(inner) | strategies.dictionaries(texts, inner),
    max_leaves=8,
)


@given(
    strategies.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("client_properties", "variable_map", "user_provided_name", "pid", "vhost"), values
        ),
    )
)
def test_whatever_is_said_what_is_read_can_be_stored(said: dict[str, Any]) -> None:
    for found in (opened(created() | said), connection_of(created() | said)):
        assert found is not None
        for text in (
            found.vhost,
            found.pid or "",
            found.client or "",
            *properties_of(created() | said).values(),
        ):
            assert "\0" not in text
            text.encode()


@given(texts)
def test_a_term_that_is_anything_is_read_or_left(term: str) -> None:
    opened(created(term, f'{{<<"connection_name">>,longstr,{term}}}'))
