"""What tokens permit to read, and what brokers say of their identity providers."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from app.api.signin.tokens import token_rights, token_subject
from app.broker.provider import OAuthSettings, read_settings

VHOSTS = ("/", "shop", "shop two")


def token(**claims: Any) -> bytes:
    body = urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=")
    return b"eyJhbGciOiJSUzI1NiJ9." + body + b".c2lnbmF0dXJl"


def readable(scope: object, /, **claims: Any) -> dict[str, str] | None:
    claims = {"aud": "rabbitmq", "scope": scope} | claims
    rights = token_rights(token(**claims), {"monitoring"}, VHOSTS)
    return None if rights.unknown else dict(rights.patterns or ())


@pytest.mark.parametrize(
    ("scope", "patterns"),
    [
        ("rabbitmq.read:*/*", dict.fromkeys(VHOSTS, ".*")),
        ("rabbitmq.read:%2F/orders", {"/": "^(?:orders)$"}),
        ("rabbitmq.read:sh*/a.b* rabbitmq.read:shop/c/key", {"shop": r"^(?:a\.b.*|c)$",
                                                             "shop two": r"^(?:a\.b.*)$"}),
        ("rabbitmq.write:*/* rabbitmq.read:shop other.read:*/*", {}),
    ],
)  # fmt: skip
def test_scopes_say_what_may_be_read(scope: str, patterns: dict[str, str]) -> None:
    whole = f"openid rabbitmq.tag:monitoring {scope}"
    assert readable(whole) == readable(whole.split()) == patterns


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["rabbitmq", "other"]},  # which of them the broker is
        {"aud": None},
        {"scope": 1},
        {"scope": "rabbitmq.read:*/*"},  # the broker has found a tag elsewhere
        {"scope": "rabbitmq.tag:administrator rabbitmq.read:*/*"},
    ],
)
def test_where_the_broker_may_read_a_token_otherwise_nothing_is_shown(claims: Any) -> None:
    assert readable("rabbitmq.tag:monitoring rabbitmq.read:*/*", **claims) is None
    assert token_rights(b"opaque", {"monitoring"}, VHOSTS).unknown


def test_the_brokers_own_name_decides_which_scopes_count() -> None:
    scope = "one.tag:monitoring two.tag:monitoring two.read:*/* one.read:shop/a"
    both = token(aud=["one", "two"], scope=scope, sub="ann")
    assert dict(token_rights(both, {"monitoring"}, VHOSTS, {"one"}).patterns or ()) == {
        "shop": "^(?:a)$"
    }
    assert (token_subject(both), token_subject(b"opaque")) == ("ann", None)


OF_3_10 = '{"enable_uaa":true,"uaa_client_id":"ui","uaa_location":"http://idp:1/"}'
OF_4_0 = json.dumps(
    {
        "oauth_enabled": True,
        "oauth_resource_servers": {
            "rabbitmq": {"id": "rabbitmq", "oauth_provider_url": "http://idp:1"}
        },
        "oauth_client_id": "ui",
        "oauth_scopes": "openid a",
    }
)
OF_4_3 = (
    f"import {{set_oauth_settings}} from './helper.js';set_oauth_settings({OF_4_0});window.x = x;"
)
DISCOVERY = "http://idp:1/.well-known/openid-configuration"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (OF_3_10, OAuthSettings("ui", DISCOVERY, "openid profile")),
        (OF_4_0, OAuthSettings("ui", DISCOVERY, "openid a", frozenset({"rabbitmq"}))),
        (OF_4_3, OAuthSettings("ui", DISCOVERY, "openid a", frozenset({"rabbitmq"}))),
        ('{"enable_uaa":false,"uaa_client_id":"","uaa_location":""}', None),
        ('{"oauth_enabled":false}', None),
        ('{"oauth_enabled":true}', None),
        ("<html>", None),
    ],
)
def test_brokers_tell_their_provider_in_three_ways(
    text: str, settings: OAuthSettings | None
) -> None:
    assert read_settings(text) == settings
