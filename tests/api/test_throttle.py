"""What a guess costs, whom it slows, and what a right password forgives."""

from __future__ import annotations

import pytest

from app.api.problems import SlowDownError
from app.api.signin.throttle import ADDRESS_FACTOR, LONGEST_WAIT, SignInThrottle, network_of
from tests.api.fakes import Clock

FAILURES = 3
HERE, ELSEWHERE = "10.0.0.1", "10.0.0.2"


@pytest.fixture
def throttle(clock: Clock) -> SignInThrottle:
    return SignInThrottle(FAILURES, clock)


def guess_names(throttle: SignInThrottle, count: int, address: str = HERE) -> None:
    for number in range(count):
        throttle.admit(f"name{number}", address)


def wait_of(throttle: SignInThrottle, user: str, address: str = HERE) -> float:
    """How long a user has to wait now; 0 where its attempt is let through."""
    try:
        throttle.take_back(throttle.admit(user, address))
    except SlowDownError as refused:
        return refused.retry_after
    return 0


def test_a_right_password_does_not_lift_the_wait_that_guesses_at_others_caused(
    throttle: SignInThrottle, clock: Clock
) -> None:
    guess_names(throttle, FAILURES * ADDRESS_FACTOR - 2)
    own = throttle.admit("mallory", HERE)  # under way while the last free guess is sent
    throttle.admit("victim", HERE)
    throttle.forgive(own)

    assert wait_of(throttle, "victim") == 1
    clock.now += 1
    for wait in (1, 2, 4, 8):  # signing in between guesses gains nothing
        throttle.forgive(throttle.admit("mallory", HERE))
        throttle.admit("victim", HERE)
        assert wait_of(throttle, "mallory") >= wait
        assert wait_of(throttle, "another") >= wait
        clock.now += LONGEST_WAIT


def test_a_right_password_forgives_what_the_same_user_mistyped_there(
    throttle: SignInThrottle, clock: Clock
) -> None:
    for _ in range(FAILURES):
        mistyped = throttle.admit("ops", HERE)
    clock.now += 1
    throttle.forgive(throttle.admit("ops", HERE))
    assert mistyped.network == HERE

    guess_names(throttle, FAILURES * ADDRESS_FACTOR - 1)
    assert wait_of(throttle, "ops") == 0
    guess_names(throttle, 1)
    assert wait_of(throttle, "ops") == 1


def test_a_right_password_forgives_nothing_at_another_address(throttle: SignInThrottle) -> None:
    for _ in range(FAILURES):
        throttle.admit("ops", ELSEWHERE)
    throttle.forgive(throttle.admit("ops", HERE))

    assert wait_of(throttle, "ops", ELSEWHERE) == 1
    assert wait_of(throttle, "ops", HERE) == 0


def test_an_attempt_that_nobody_answered_leaves_no_trace(throttle: SignInThrottle) -> None:
    for _ in range(1_000):
        throttle.take_back(throttle.admit("ops", HERE))

    assert wait_of(throttle, "ops") == 0


def test_an_attempt_that_nobody_answered_forgives_no_other(
    throttle: SignInThrottle, clock: Clock
) -> None:
    for _ in range(FAILURES):
        throttle.admit("ops", HERE)
    clock.now += 1
    throttle.take_back(throttle.admit("ops", HERE))
    throttle.admit("ops", HERE)

    assert wait_of(throttle, "ops") == 2


def test_failures_are_forgotten_after_a_quiet_while(throttle: SignInThrottle, clock: Clock) -> None:
    for _ in range(FAILURES):
        throttle.admit("ops", HERE)
    clock.now += 901
    for _ in range(FAILURES - 1):
        throttle.admit("ops", HERE)

    assert wait_of(throttle, "ops") == 0


def test_no_more_is_held_than_the_capacity(clock: Clock) -> None:
    throttle = SignInThrottle(FAILURES, clock, capacity=10)
    for number in range(1_000):
        throttle.admit(f"user{number}", f"10.0.{number // 256}.{number % 256}")

    assert len(throttle._users._entries) == len(throttle._networks._entries) == 10


def test_a_flood_of_names_does_not_wash_away_the_wait_of_its_address(clock: Clock) -> None:
    throttle = SignInThrottle(FAILURES, clock, capacity=10)
    for number in range(100):
        if not wait_of(throttle, "victim"):
            throttle.admit(f"name{number}", HERE)

    assert wait_of(throttle, "victim") == 1


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("behind 127.0.0.1", "behind 127.0.0.1"),
        ("", ""),
    ],
)
def test_an_attacker_has_an_address_or_a_network_of_64_bits(address: str, network: str) -> None:
    assert network_of(address) == network
