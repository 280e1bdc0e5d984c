"""Sign-in: whom the broker lets in, how long that is believed, how guessing is slowed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest

from app.api.problems import SlowDownError
from app.api.signin.auth import BrokerAuthenticator, parse_user
from app.errors import NotAuthenticatedError, NotAuthorisedError, OutageError
from tests.api.conftest import World, connected, make_world, served
from tests.api.fakes import Clock, FakeBroker, basic


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.add("ops", "secret", "monitoring", "/")
    return broker


@pytest.fixture
def authenticator(broker: FakeBroker, clock: Clock) -> BrokerAuthenticator:
    return BrokerAuthenticator(broker, cache_seconds=10, cache_users=3, failures=3, clock=clock)


def header(name: str, password: str) -> bytes:
    return basic(name, password)["authorization"].encode()


RIGHT = header("ops", "secret")
WRONG = header("ops", "guess")


async def test_a_user_is_who_the_broker_says(authenticator: BrokerAuthenticator) -> None:
    user = await authenticator.user(RIGHT, "10.0.0.1")

    assert (user.name, user.tags, user.vhosts) == ("ops", {"monitoring"}, {"/"})
    assert user.may_read
    assert not user.may_write


async def test_the_brokers_answer_is_believed_for_a_while(
    authenticator: BrokerAuthenticator, broker: FakeBroker, clock: Clock
) -> None:
    await asyncio.gather(*(authenticator.user(RIGHT, "10.0.0.1") for _ in range(50)))
    assert broker.questions == 1

    clock.now += 9
    await authenticator.user(RIGHT, "10.0.0.1")
    assert broker.questions == 1

    clock.now += 2
    await authenticator.user(RIGHT, "10.0.0.1")
    assert broker.questions == 2


async def test_a_right_that_was_taken_away_is_gone_when_the_broker_is_asked_again(
    authenticator: BrokerAuthenticator, broker: FakeBroker, clock: Clock
) -> None:
    await authenticator.user(RIGHT, "10.0.0.1")
    del broker.accounts["ops"]
    clock.now += 11

    with pytest.raises(NotAuthenticatedError):
        await authenticator.user(RIGHT, "10.0.0.1")


async def test_no_more_users_are_remembered_than_allowed(
    authenticator: BrokerAuthenticator, broker: FakeBroker
) -> None:
    for number in range(10):
        broker.add(f"user{number}", "secret", "monitoring", "/")
        await authenticator.user(header(f"user{number}", "secret"), "10.0.0.1")
    assert broker.questions == 10

    await authenticator.user(header("user9", "secret"), "10.0.0.1")
    assert broker.questions == 10
    await authenticator.user(header("user0", "secret"), "10.0.0.1")
    assert broker.questions == 11


async def test_a_client_that_goes_away_takes_no_other_along(
    authenticator: BrokerAuthenticator, broker: FakeBroker
) -> None:
    impatient = asyncio.create_task(authenticator.user(RIGHT, "10.0.0.1"))
    patient = asyncio.create_task(authenticator.user(RIGHT, "10.0.0.1"))
    await asyncio.sleep(0)
    impatient.cancel()

    assert (await patient).name == "ops"
    assert broker.questions == 1


async def test_an_outage_is_not_a_failed_sign_in_and_lets_nobody_in(
    authenticator: BrokerAuthenticator, broker: FakeBroker
) -> None:
    broker.down = True
    for _ in range(20):
        with pytest.raises(OutageError):
            await authenticator.user(RIGHT, "10.0.0.1")
    broker.down = False

    assert (await authenticator.user(RIGHT, "10.0.0.1")).name == "ops"


async def test_guesses_have_to_wait_longer_and_longer(
    authenticator: BrokerAuthenticator, broker: FakeBroker, clock: Clock
) -> None:
    for _ in range(3):
        with pytest.raises(NotAuthenticatedError):
            await authenticator.user(WRONG, "10.0.0.1")
    for wait in (1, 2, 4, 8, 16, 32, 60, 60):
        with pytest.raises(SlowDownError) as refused:
            await authenticator.user(WRONG, "10.0.0.1")
        assert refused.value.retry_after == wait
        clock.now += wait
        with pytest.raises(NotAuthenticatedError):
            await authenticator.user(WRONG, "10.0.0.1")
    assert broker.questions == 11


async def test_guesses_sent_at_once_count_as_well(
    authenticator: BrokerAuthenticator, broker: FakeBroker
) -> None:
    guesses = [authenticator.user(header("ops", f"guess{n}"), "10.0.0.1") for n in range(100)]
    outcomes = await asyncio.gather(*guesses, return_exceptions=True)

    assert broker.questions == 3
    assert sum(isinstance(outcome, SlowDownError) for outcome in outcomes) == 97


async def test_guesses_from_elsewhere_do_not_lock_the_user_out(
    authenticator: BrokerAuthenticator,
) -> None:
    for _ in range(10):
        with pytest.raises((NotAuthenticatedError, SlowDownError)):
            await authenticator.user(WRONG, "203.0.113.9")

    assert (await authenticator.user(RIGHT, "10.0.0.1")).name == "ops"


async def test_guessing_many_names_from_one_network_is_slowed(
    authenticator: BrokerAuthenticator, broker: FakeBroker
) -> None:
    outcomes = [
        await asyncio.gather(
            authenticator.user(header(f"user{n}", "guess"), f"2001:db8::{n:x}"),
            return_exceptions=True,
        )
        for n in range(60)
    ]

    assert broker.questions == 30
    assert isinstance(outcomes[-1][0], SlowDownError)


async def test_whoever_has_signed_in_before_does_not_wait_for_the_guesses_of_others(
    authenticator: BrokerAuthenticator, broker: FakeBroker, clock: Clock
) -> None:
    await authenticator.user(RIGHT, "10.0.0.1")
    clock.now += 11  # so that the broker is asked again
    for number in range(60):
        with pytest.raises((NotAuthenticatedError, SlowDownError)):
            await authenticator.user(header(f"user{number}", "guess"), "10.0.0.1")
    with pytest.raises(SlowDownError):
        await authenticator.user(header("new", "guess"), "10.0.0.1")

    assert (await authenticator.user(RIGHT, "10.0.0.1")).name == "ops"


async def test_a_password_that_was_changed_is_a_guess_from_then_on(
    authenticator: BrokerAuthenticator, broker: FakeBroker, clock: Clock
) -> None:
    await authenticator.user(RIGHT, "10.0.0.1")
    broker.accounts["ops"].password = "another"
    clock.now += 11
    for _ in range(1 + 3):
        with pytest.raises(NotAuthenticatedError):
            await authenticator.user(RIGHT, "10.0.0.1")
    with pytest.raises(SlowDownError):
        await authenticator.user(RIGHT, "10.0.0.1")


async def test_a_virtual_host_that_was_just_made_is_seen_at_once(
    authenticator: BrokerAuthenticator, broker: FakeBroker
) -> None:
    assert not (await authenticator.user(RIGHT, "10.0.0.1")).sees("new")
    broker.add("ops", "secret", "monitoring", "/", "new")

    assert not (await authenticator.user(RIGHT, "10.0.0.1")).sees("new")  # nobody named it
    assert (await authenticator.user(RIGHT, "10.0.0.1", "new")).sees("new")
    assert (await authenticator.user(RIGHT, "10.0.0.1")).sees("new")
    assert broker.questions == 2


async def test_names_of_virtual_hosts_that_are_guessed_at_are_asked_about_once_a_second(
    authenticator: BrokerAuthenticator, broker: FakeBroker, clock: Clock
) -> None:
    await authenticator.user(RIGHT, "10.0.0.1")
    for _ in range(3):
        guesses = [authenticator.user(RIGHT, "10.0.0.1", f"guess{n}") for n in range(100)]
        assert not any(user.sees("guess0") for user in await asyncio.gather(*guesses))
        clock.now += 1

    assert broker.questions == 1 + 3


async def test_what_is_seen_already_is_not_asked_about(
    authenticator: BrokerAuthenticator, broker: FakeBroker
) -> None:
    for _ in range(3):
        await authenticator.user(RIGHT, "10.0.0.1", "/")

    assert broker.questions == 1


async def test_looking_again_while_the_broker_is_away_says_so(
    authenticator: BrokerAuthenticator, broker: FakeBroker
) -> None:
    await authenticator.user(RIGHT, "10.0.0.1")
    broker.down = True
    with pytest.raises(OutageError):
        await authenticator.user(RIGHT, "10.0.0.1", "new")

    assert (await authenticator.user(RIGHT, "10.0.0.1")).name == "ops"  # still believed


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/itc_db/n%2Few/undefined/undefined/undefined"),
        ("GET", "/itc_db/participants?vhost=n/ew"),
    ],
)
async def test_every_way_to_name_a_new_virtual_host_finds_it(
    world: World, method: str, path: str
) -> None:
    async with connected(world.app(), auth=("admin", "secret")) as client:
        assert (await client.get("/itc_db/traces")).status_code == 200  # from now on remembered
        world.traces.vhosts |= {"n/ew"}
        await world.store.traces.create("n/ew", "channel")
        world.broker.add("admin", "secret", "administrator", "/", "shop", "n/ew")
        known = await client.request(method, path)
        unknown = await client.request(method, path.replace("ew", "ever"))

    assert known.status_code in (200, 201)
    assert unknown.status_code == 404


async def test_a_user_without_tags_may_do_nothing(
    authenticator: BrokerAuthenticator, broker: FakeBroker
) -> None:
    broker.add("app", "secret", "", "/")
    for _ in range(10):  # and that is no failed sign-in
        with pytest.raises(NotAuthorisedError):
            await authenticator.user(header("app", "secret"), "10.0.0.1")


@pytest.mark.parametrize(("address", "admitted"), [("127.0.0.1", True), ("10.0.0.1", False)])
async def test_guest_signs_in_from_this_machine_only(
    authenticator: BrokerAuthenticator, broker: FakeBroker, address: str, admitted: bool
) -> None:
    broker.add("guest", "guest", "administrator", "/")
    await authenticator.user(header("guest", "guest"), "127.0.0.1")  # remembered, and yet

    if admitted:
        await authenticator.user(header("guest", "guest"), address)
    else:
        with pytest.raises(NotAuthenticatedError, match="only sign in from this machine"):
            await authenticator.user(header("guest", "guest"), address)


@pytest.mark.parametrize(
    ("settings", "headers", "status"),
    [
        ({}, {}, 200),
        ({}, {"x-forwarded-for": "203.0.113.9"}, 401),
        ({}, {"x-forwarded-for": "127.0.0.1"}, 401),
        ({}, {"forwarded": "for=127.0.0.1"}, 401),
        ({}, {"via": "1.1 proxy"}, 401),
        ({"trusted_proxies": "127.0.0.1"}, {"x-forwarded-for": "203.0.113.9"}, 401),
        # A proxy adds the address it was called from behind what the client had claimed.
        ({"trusted_proxies": "127.0.0.1"}, {"x-forwarded-for": "127.0.0.1, 203.0.113.9"}, 401),
        ({"trusted_proxies": "127.0.0.1"}, {"x-forwarded-for": "::1"}, 200),
        ({"trusted_proxies": "10.0.0.1"}, {"x-forwarded-for": "::1"}, 401),  # no such proxy here
    ],
)
async def test_guest_cannot_come_from_elsewhere_through_a_proxy_on_this_machine(
    tmp_path: Path, settings: dict[str, str], headers: dict[str, str], status: int
) -> None:
    world = make_world(tmp_path, **settings)
    world.broker.add("guest", "guest", "administrator", "/")
    async with (
        served(world.app(), world.settings) as url,
        httpx2.AsyncClient(base_url=url, auth=("guest", "guest")) as client,
    ):
        answer = await client.get("/itc_db/traces", headers=headers)

    assert answer.status_code == status


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"Basic",
        b"Basic ",
        b"Basic !!!",
        b"Basic bm9jb2xvbg==",
        b"Basic \xff",
        b"Bearer ",
        b"Digest username=x",
        b"ops:secret",
        b"Basic /w==",
    ],
)
async def test_an_invalid_sign_in_is_not_passed_on(
    authenticator: BrokerAuthenticator, broker: FakeBroker, value: bytes
) -> None:
    with pytest.raises(NotAuthenticatedError):
        await authenticator.user(value, "10.0.0.1")
    assert broker.questions == 0


async def test_a_token_is_passed_on(authenticator: BrokerAuthenticator, broker: FakeBroker) -> None:
    broker.tokens["abc"] = "ops"

    assert (await authenticator.user(b"Bearer abc", "10.0.0.1")).name == "ops"


def test_a_token_is_not_kept_as_it_is() -> None:
    assert "abc" not in parse_user(b"Bearer abc")


async def test_no_password_is_held(authenticator: BrokerAuthenticator) -> None:
    await authenticator.user(RIGHT, "10.0.0.1")
    with pytest.raises(NotAuthenticatedError):
        await authenticator.user(WRONG, "10.0.0.1")

    parts = {name: part for name, part in vars(authenticator).items() if name != "broker"}
    held = inside(parts)
    assert "ops" in held
    assert "'10.0.0.1'" in held
    for secret in ("secret", "guess", RIGHT.decode(), WRONG.decode()):
        assert secret not in held


def inside(part: object) -> str:
    """All that an object holds, however deep, as text."""
    if isinstance(part, dict):
        return "".join(inside(each) for pair in part.items() for each in pair)
    if isinstance(part, tuple | list | set | frozenset):
        return "".join(inside(each) for each in part)
    if not type(part).__module__.startswith("app."):
        return repr(part)
    names = [*getattr(part, "__slots__", ()), *getattr(part, "__dict__", ())]
    return "".join(inside(getattr(part, name)) for name in names)


async def test_refusals_look_as_the_management_apis_do(world: World) -> None:
    async with connected(world.app()) as client:
        nobody = await client.get("/itc_db/traces")
        wrong = await client.get("/itc_db/traces", headers=basic("admin", "guess"))
        reader = await client.put(
            "/itc_db/shop/undefined/undefined/undefined", headers=basic("watcher", "secret")
        )
        world.broker.down = True
        outage = await client.get("/itc_db/traces", headers=basic("admin", "secret"))

    assert [nobody.status_code, wrong.status_code, reader.status_code] == [401, 401, 401]
    assert {nobody.json()["error"], wrong.json()["error"], reader.json()["error"]} == {
        "not_authorised"
    }
    assert nobody.headers["www-authenticate"] == 'Basic realm="rabbitmq-itc", charset="UTF-8"'
    assert "www-authenticate" not in reader.headers  # the right password with too few rights
    assert (outage.status_code, outage.json()["error"]) == (503, "unavailable")


async def test_a_pages_script_gets_no_password_box(world: World) -> None:
    async with connected(world.app()) as client:
        answer = await client.get("/itc_db/traces", headers={"x-requested-with": "fetch"})

    assert answer.status_code == 401
    assert "basic" not in answer.headers["www-authenticate"].lower()


async def test_too_many_failures_are_answered_with_429_and_a_time(world: World) -> None:
    async with connected(world.app(), headers=basic("admin", "guess")) as client:
        answers = [await client.get("/itc_db/traces") for _ in range(6)]

    assert [answer.status_code for answer in answers] == [401] * 5 + [429]
    assert answers[-1].headers["retry-after"] == "1"


async def test_two_sign_ins_in_one_request_are_refused(world: World) -> None:
    both = [
        ("authorization", basic("watcher", "x")["authorization"]),
        ("authorization", basic("admin", "secret")["authorization"]),
    ]
    async with connected(world.app()) as client:
        assert (await client.get("/itc_db/traces", headers=both)).status_code == 401
