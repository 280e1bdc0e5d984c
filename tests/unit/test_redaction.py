"""Rules of redaction, and what they leave of messages."""

from __future__ import annotations

import gzip
import json
from typing import Any

import cbor2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tracker import Channel, Deliver, Publish, Unreadable
from app.tracker.digest import digest
from app.tracker.fingerprint import fingerprint
from app.tracker.links import Rule, Rules
from app.tracker.links.expressions import Expression, Source
from app.tracker.records import LARGE
from app.tracker.redaction import Redaction, RedactionError, Redactor, check_redactions

SECRET = "4111111111111111"
CHANNEL = Channel("rabbit@one", "10.0.0.1:5000 -> 10.0.0.2:5672", 1, "alice")
KEY = "a key of some length"


def rule(*places: str, keep: str = "digest", name: str = "card") -> Redaction:
    return Redaction.from_json({"name": name, "places": [*places], "keep": keep})


def publish(body: Any = b"", headers: dict[str, Any] | None = None, **properties: Any) -> Publish:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    table = properties | ({} if headers is None else {"headers": headers})
    return Publish(CHANNEL, "orders", ("new",), ("queue",), table, content)


def redact(message: Publish, *rules: Redaction, key: str = KEY) -> Publish:
    changed = Redactor(rules, key).redact(message)
    assert isinstance(changed, Publish)
    return changed


def mark_of(value: Any) -> str:
    changed = redact(publish({"card": value}), rule("$message.payload#/card"))
    mark: str = json.loads(changed.body)["card"]
    return mark


@pytest.mark.parametrize(
    ("body", "place", "left"),
    [
        ({"card": SECRET, "id": 1}, "/card", {"card": mark_of(SECRET), "id": 1}),
        ({"card": int(SECRET)}, "/card", {"card": mark_of(SECRET)}),
        ({"a": {"b": [{"c": SECRET}]}}, "/a/b/-1/c", {"a": {"b": [{"c": mark_of(SECRET)}]}}),
        ({"lines": [{"c": SECRET}, {}]}, "/lines/*/c", {"lines": [{"c": mark_of(SECRET)}, {}]}),
        ({"card": [SECRET, None]}, "/card", {"card": [mark_of(SECRET), None]}),
        ({"text": json.dumps({"c": SECRET})}, "/text/c", {"text": f'{{"c":"{mark_of(SECRET)}"}}'}),
        ({"text": '{"c": ' + SECRET}, "/text/c", {"text": mark_of('{"c": ' + SECRET)}),
        ({"*": 1, "c": SECRET}, "/*", {"*": mark_of(1), "c": mark_of(SECRET)}),
    ],
)
def test_equal_values_get_equal_digests_wherever_they_are(body: Any, place: str, left: Any) -> None:
    changed = redact(publish(body), rule(f"$message.payload#{place}"))

    assert json.loads(changed.body) == left
    assert changed.redactions == ("card",)
    assert SECRET.encode() not in msgspec.msgpack.encode(changed)


def test_headers_and_properties_are_replaced_or_left_out() -> None:
    message = publish(
        headers={"x": SECRET, "b": {"base64": "NDExMTExMTExMTExMTExMQ=="}, "other": 1},
        message_id=SECRET,
    )
    places = ("$message.header#/x", "$message.header#/b", "$message.property#/message_id")

    digests = redact(message, rule(*places)).properties
    assert digests == {
        "headers": {"x": mark_of(SECRET), "b": mark_of(SECRET), "other": 1},
        "message_id": mark_of(SECRET),
    }
    nothing = redact(message, rule(*places, keep="nothing"), key="").properties
    assert nothing == {"headers": {"other": 1}}
    assert message.properties["message_id"] == SECRET  # it is the caller's


@pytest.mark.parametrize(
    ("body", "properties"),
    [
        (gzip.compress(json.dumps({"card": SECRET}).encode()), {"content_encoding": "gzip"}),
        (msgspec.msgpack.encode({"card": SECRET}), {"content_type": "application/msgpack"}),
        (cbor2.dumps({"card": SECRET}), {"content_type": "application/cbor"}),
        (json.dumps({"card": SECRET}).encode("utf-16"), {}),
        (f'{{"card": "{SECRET}", "card": "x"}}'.encode(), {}),
        (f'{{"a": {{"card": "{SECRET}"}}, "a": 1, "card": 2}}'.encode(), {}),
    ],
)
def test_bodies_in_every_encoding_are_read_and_become_json(
    body: bytes, properties: dict[str, Any]
) -> None:
    changed = redact(publish(body, **properties), rule("$message.payload#/card"))

    assert json.loads(changed.body)["card"].startswith("redacted:")
    assert SECRET.encode() not in changed.body
    assert changed.properties in ({}, {"content_type": "application/json"})


HIDDEN = f'{{"card": "{SECRET}", "card": null}}'
PACKED = {"x": {"card": SECRET}}


@pytest.mark.parametrize(
    ("body", "properties"),
    [
        (HIDDEN.encode("utf-16-le"), {}),
        (f'{{"é": "{SECRET}", "é": null}}'.encode("latin-1"), {}),
        (f'{{"a": ["{SECRET}"], "a": null}}'.encode(), {}),
        (json.dumps({"text": HIDDEN}).encode(), {}),
        (json.dumps({"text": "\ufeff" + json.dumps({"card": SECRET})}).encode(), {}),
        (b"\x82\xa1x" + msgspec.msgpack.encode(PACKED) + b"\xa1x\0", {"content_type": "msgpack"}),
        (b"\xa2ax" + cbor2.dumps(PACKED) + b"ax\0", {"content_type": "cbor"}),
        (cbor2.dumps({}) + cbor2.dumps(PACKED), {"content_type": "cbor"}),
        (gzip.compress(b"{}") + HIDDEN.encode(), {}),
    ],
)
def test_nothing_stays_where_another_reader_would_look(
    body: bytes, properties: dict[str, Any]
) -> None:
    places = ("/card", "/text/card", "/x/x/card", "/é", "/a/0")
    for place in places:
        assert redact(publish(b"[1]"), rule(f"$message.payload#{place}")).body == b"[1]"
    changed = redact(
        publish(body, **properties), rule(*(f"$message.payload#{place}" for place in places))
    )
    assert SECRET.encode() not in changed.body.replace(b"\0", b"")
    json.loads(changed.body)


@pytest.mark.parametrize(
    ("body", "encoding", "reason"),
    [
        (SECRET.encode(), None, "body not JSON: left out"),
        (b"{" + SECRET.encode(), None, "body not JSON: left out"),
        (b"[" * 600 + SECRET.encode() + b"]" * 600, None, "body nested too deep: left out"),
        (b'{"a": "' + SECRET.encode() * 20_000 + b'"}', None, "body too large: left out"),
        (SECRET.encode(), "gzip", "body not decompressed: left out"),
        (SECRET.encode(), "br", "body in an unknown encoding: left out"),
        (b'{"a": NaN, "b": "\\ud800%d"}' % int(SECRET), None, "body not JSON: left out"),
    ],
)
def test_a_body_that_no_rule_can_be_read_in_is_left_out_whole(
    body: bytes, encoding: str | None, reason: str
) -> None:
    message = publish(body, **({} if encoding is None else {"content_encoding": encoding}))
    by_digest = redact(message, rule("$message.payload#/card"))
    by_nothing = redact(message, rule("$message.payload#/card", keep="nothing"), key="")

    assert by_digest.redactions == by_nothing.redactions == (reason,)
    assert by_digest.body.startswith(b"redacted:")
    assert by_nothing.body == b""


def test_what_no_rule_names_stays_as_it_is() -> None:
    message = publish(b'{"id":  1}', {"a": 1})
    assert redact(message, rule("$message.payload#/card", "$message.header#/x")) is message
    assert redact(publish(SECRET.encode()), rule("$message.header#/x")).body == SECRET.encode()
    assert Redactor((), KEY).redact(message) is message


def test_a_large_body_has_the_digest_of_what_is_left() -> None:
    message = publish({"card": SECRET, "fill": "x" * LARGE})
    message = msgspec.structs.replace(message, sha256=b"of the whole")
    changed = redact(message, rule("$message.payload#/card"))
    assert len(changed.sha256) == 32
    assert redact(message, rule("$message.payload#/fill")).sha256 == b""


def test_publish_and_delivery_still_match_and_links_by_digests_hold() -> None:
    rules = rule("$message.payload#/card", "$message.header#/caused_by")
    sent = publish({"card": SECRET}, {"CC": ["x"]})
    received = Deliver(
        CHANNEL, "orders", ("new",), "queue", False, {"headers": {"CC": ["x"]}}, sent.body
    )
    left = Redactor([rules], KEY).redact(received)
    assert isinstance(left, Deliver)
    assert fingerprint(redact(sent, rules))[:16] == fingerprint(left)[:16]

    named_by = {"child": "$message.header#/caused_by", "parent": "$message.payload#/card"}
    links = Rules([Rule.from_json({"name": "by-card", "kind": "parent", **named_by})])
    effect = redact(publish({}, {"caused_by": SECRET}), rules)
    [(_, key)] = links.read(effect).causes
    assert key in links.read(redact(sent, rules)).ids


def test_a_message_that_was_stored_by_other_rules_is_recognised() -> None:
    old, new = rule("$message.payload#/card"), rule("$message.payload#/id", name="id")
    message = publish({"card": SECRET, "id": 1})
    redactor = Redactor([new], KEY, former=[[old], []])
    past = digest(redact(message, old))

    assert redactor.recognise(message, {past}) == past
    assert redactor.recognise(message, {digest(message)}) == digest(message)
    assert redactor.recognise(message, ()) == digest(redact(message, new))


def test_headers_that_a_client_made_up_stop_nothing() -> None:
    odd = {"base64": "no base64"}
    nested: Any = SECRET
    for _ in range(5_000):
        nested = [nested]
    for value in (odd, {"base64": 1}, [odd, {}], float("nan"), nested):
        left = redact(publish(b"{}", {"x": value}), rule("$message.header#/x"))
        assert SECRET not in repr(left.properties)
        assert left.redactions in (("card",), ("message: left out",))


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just(SECRET),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "*", "0", "base64"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(
    tree=st.dictionaries(st.sampled_from(["a", "b"]), TREES),
    tokens=st.lists(st.sampled_from(["a", "b", "*", "0", "-1"]), min_size=1, max_size=4),
    keep=st.sampled_from(["digest", "nothing"]),
)
def test_whatever_a_body_holds_nothing_stays_at_the_place(
    tree: Any, tokens: list[str], keep: str
) -> None:
    place = rule(f"$message.payload#/{'/'.join(tokens)}", keep=keep)
    left = redact(publish(json.dumps(tree).encode()), place)
    again = redact(left, place)
    found = Expression(Source.payload, tuple(tokens)).find(json.loads(left.body or b"{}"))
    assert found in (None, "", [], {}) or SECRET not in json.dumps(found)
    assert fingerprint(again) == fingerprint(left), "what was replaced stays so"


def test_of_an_unreadable_message_only_the_reason_stays() -> None:
    message = Unreadable("bad", "publish.x", f'{{"x":"{SECRET}"}}', SECRET.encode(), 16, 1)
    left = Redactor([rule("$message.header#/x")], KEY).redact(message)
    assert isinstance(left, Unreadable)
    assert (left.headers, left.body, left.body_bytes) == ("{}", b"", 16)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": "?"}, "a rule's name is of 1 to 64 letters"),
        ({"name": "a"}, "rule 'a': places: write places such as"),
        ({"name": "a", "places": []}, "places: name 1 to 64 places"),
        ({"name": "a", "places": "$message.body#/a"}, "'body' is no part of a message"),
        ({"name": "a", "places": "$message.property#/exchange"}, "is needed as it is"),
        ({"name": "a", "places": "$message.property#/content_type"}, "is needed as it is"),
        ({"name": "a", "places": "$message.header#/x-death/0/reason"}, "is needed as it is"),
        ({"name": "a", "places": "$message.header#/*"}, "is needed as it is"),
        ({"name": "a", "places": "$message.header#/a", "keep": "all"}, "'all' is none of digest"),
        ({"name": "a", "places": "$message.header#/a", "as": 1}, "as: there is no such field"),
    ],
)
def test_an_invalid_rule_is_refused_with_the_reason(fields: Any, reason: str) -> None:
    with pytest.raises(RedactionError, match=reason.replace("?", r"\?")):
        Redaction.from_json(fields)


def test_a_digest_needs_a_key_and_rules_are_bounded() -> None:
    with pytest.raises(RedactionError, match="ITC_REDACTION_KEY is not set"):
        check_redactions([rule("$message.header#/x")], has_key=False)
    check_redactions([rule("$message.header#/x", keep="nothing")], has_key=False)
    many = [rule("$message.header#/x", name=f"r{number}") for number in range(51)]
    with pytest.raises(RedactionError, match="at most 50 rules"):
        check_redactions(many, has_key=True)
    sweeping = rule(*(f"$message.payload#/{number}/*" for number in range(9)))
    with pytest.raises(RedactionError, match="at most 8 places"):
        check_redactions([sweeping], has_key=True)
