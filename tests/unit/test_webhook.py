"""What the webhook is sent, how it is signed, and what becomes of what it does not take."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import itertools
from collections.abc import Awaitable, Callable, Sequence

import httpx2
import msgspec
import pytest

from app.secret_url import SecretUrl
from app.stored.assertions import Notification, Violation, ViolationKind, WebhookState
from app.watch.webhook import AT_ONCE, LONGEST_PAUSE, Webhook, pause, secret_in

SECOND = 1_000_000
URL = SecretUrl("https://who:s3cret@hooks.example.org/a/token?key=also")
Answer = Callable[[httpx2.Request], Awaitable[httpx2.Response]]


def violation(number: int, **changes: object) -> Violation:
    one = Violation(
        id=number,
        trace_id=1,
        vhost="/",
        assertion="invoice-in-time",
        text="{}",
        event=number + 100,
        last_id=200,
        root=90,
        kind=ViolationKind.overdue,
        type="order.new",
        recorded_at=5 * SECOND,
        found_at=35 * SECOND,
        sentence="it led to no invoice within 30 s",
        delivery=WebhookState.due,
        attempts=0,
        delivered_at=None,
        error=None,
    )
    return msgspec.structs.replace(one, **changes)


class Waiting:
    """Violations that wait to be told, as the store keeps them."""

    def __init__(self, *due: Violation) -> None:
        self.due = {each.id: each for each in due}
        self.next_at = dict.fromkeys(self.due, 0)
        self.others: dict[int, tuple[int, int]] = {}  # of summaries: how many, and the last

    async def claim(self, moment: int, deadline: int, limit: int) -> Sequence[Notification]:
        ids = [key for key, at in sorted(self.next_at.items(), key=lambda each: each[1])]
        mine = [key for key in ids if self.next_at[key] <= moment and self.is_due(key)][:limit]
        self.next_at |= dict.fromkeys(mine, deadline)
        return [Notification(self.due[key], *self.others.get(key, (1, key))) for key in mine]

    async def note_notification(
        self,
        telling: Notification,
        *,
        moment: int,
        error: str | None = None,
        next_at: int | None = None,
    ) -> None:
        violation_id = telling.first.id
        one = self.due[violation_id]
        state = WebhookState.delivered if error is None else WebhookState.due
        if error is not None and next_at is None:
            state = WebhookState.given_up
        self.due[violation_id] = msgspec.structs.replace(
            one, delivery=state, attempts=one.attempts + 1, error=error
        )
        if next_at is not None:
            self.next_at[violation_id] = next_at

    async def deliveries(self) -> dict[WebhookState, int]:
        return {}

    def is_due(self, key: int) -> bool:
        return self.due[key].delivery is WebhookState.due


class Clock:
    def __init__(self) -> None:
        self.at = 40 * SECOND

    def __call__(self) -> int:
        return self.at


def webhook(
    waiting: Waiting, answer: Answer, *, secret: bytes | None = None, clock: Clock | None = None
) -> Webhook:
    return Webhook(
        waiting,
        URL,
        "urn:rabbitmq-itc:here",
        seconds=0.05,
        give_up_seconds=60,
        secret=secret,
        clock=clock or Clock(),
        transport=httpx2.MockTransport(answer),
    )


def answering(status: int, seen: list[httpx2.Request]) -> Answer:
    async def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(status)

    return answer


async def test_a_violation_is_sent_as_a_cloud_event() -> None:
    seen: list[httpx2.Request] = []
    waiting = Waiting(violation(7))
    await webhook(waiting, answering(204, seen)).look()
    (request,) = seen
    assert (request.method, request.headers["content-type"]) == (
        "POST",
        "application/cloudevents+json",
    )
    assert msgspec.json.decode(request.content) == {
        "specversion": "1.0",
        "id": "violation-7",
        "source": "urn:rabbitmq-itc:here",
        "type": "rabbitmq-itc.assertion.violated",
        "subject": "invoice-in-time",
        "time": "1970-01-01T00:00:35.000000Z",
        "datacontenttype": "application/json",
        "data": {
            "id": 7,
            "vhost": "/",
            "assertion": "invoice-in-time",
            "kind": "overdue",
            "event": 107,
            "root": 90,
            "type": "order.new",
            "at": "1970-01-01T00:00:05.000000Z",
            "found_at": "1970-01-01T00:00:35.000000Z",
            "sentence": "it led to no invoice within 30 s",
        },
    }
    assert waiting.due[7].delivery is WebhookState.delivered
    assert "webhook-signature" not in request.headers


async def test_a_summary_says_how_many_more_there_are() -> None:
    seen: list[httpx2.Request] = []
    waiting = Waiting(violation(7, found_at=95 * SECOND, summary=1))
    waiting.others[7] = (412, 418)
    clock = Clock()
    clock.at = 120 * SECOND
    refusing = webhook(waiting, answering(503, seen), clock=clock)
    await refusing.look()
    clock.at += SECOND
    await refusing.look()
    assert seen[0].content == seen[1].content
    event = msgspec.json.decode(seen[0].content)
    assert event["id"] == "violations-7-418"
    assert event["type"] == "rabbitmq-itc.assertion.violated.more"
    assert event["subject"] == "invoice-in-time"
    assert event["data"] == {
        "vhost": "/",
        "assertion": "invoice-in-time",
        "kind": "overdue",
        "count": 412,
        "first": 7,
        "last": 418,
        "minute": "1970-01-01T00:01:00.000000Z",
        "sentence": "412 more in this minute",
    }


async def test_an_answer_that_comes_byte_by_byte_is_left_after_its_time() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            for byte in itertools.cycle(b"HTTP/1.1 200 OK\r\nx: "[:20]):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.001)
        writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    waiting = Waiting(violation(7))
    url = SecretUrl(f"http://127.0.0.1:{port}/")
    dripped = Webhook(waiting, url, "here", seconds=0.2, give_up_seconds=60, clock=Clock())
    async with server, asyncio.timeout(30):
        await dripped.look()
        await dripped.stop()
    assert waiting.due[7].delivery is WebhookState.due
    assert waiting.due[7].attempts == 1


async def test_it_is_signed_over_its_id_its_time_and_its_body() -> None:
    seen: list[httpx2.Request] = []
    await webhook(Waiting(violation(7)), answering(200, seen), secret=b"key").look()
    (request,) = seen
    said = b"violation-7.40." + request.content
    mark = base64.b64encode(hmac.new(b"key", said, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-id"] == "violation-7"
    assert request.headers["webhook-timestamp"] == "40"
    assert request.headers["webhook-signature"] == f"v1,{mark}"


@pytest.mark.parametrize("status", [302, 400, 410, 500, 503])
async def test_what_is_not_taken_is_the_same_event_when_it_is_sent_again(status: int) -> None:
    seen: list[httpx2.Request] = []
    waiting, clock = Waiting(violation(7)), Clock()
    refusing = webhook(waiting, answering(status, seen), clock=clock)
    await refusing.look()
    await refusing.look()
    assert len(seen) == 1, "not before the pause is over"
    clock.at += SECOND
    await refusing.look()
    assert len(seen) == 2
    assert seen[0].content == seen[1].content
    assert (waiting.due[7].delivery, waiting.due[7].attempts) == (WebhookState.due, 2)
    assert waiting.due[7].error == f"hooks.example.org answered with {status}"


@pytest.mark.parametrize("found_at", [35 * SECOND, 10**16])  # by a clock that was ahead, too
async def test_it_is_given_up_after_a_time_and_that_stays_known(found_at: int) -> None:
    waiting, clock = Waiting(violation(7, found_at=found_at)), Clock()
    refusing = webhook(waiting, answering(500, []), clock=clock)
    while waiting.is_due(7):
        assert clock.at < 200 * SECOND
        await refusing.look()
        clock.at += SECOND
    assert waiting.due[7].delivery is WebhookState.given_up
    assert clock.at >= (35 + 60) * SECOND
    assert await refusing.look() is False


async def test_one_that_hangs_is_left_after_its_time_and_no_more_than_some_at_once() -> None:
    under_way = most = 0

    async def hang(request: httpx2.Request) -> httpx2.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            await asyncio.Event().wait()
        finally:
            under_way -= 1
        raise AssertionError

    waiting = Waiting(*map(violation, range(1, 10)))
    hanging = webhook(waiting, hang)
    while await hanging.look():
        pass
    assert (most, under_way) == (AT_ONCE, 0)
    assert {each.error for each in waiting.due.values()} == {
        "hooks.example.org did not answer within 0.05 s"
    }


async def test_no_secret_of_the_address_is_in_an_error() -> None:
    async def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError(f"no way to {request.url}", request=request)

    waiting = Waiting(violation(7))
    await webhook(waiting, refuse).look()
    assert waiting.due[7].error == "hooks.example.org cannot be reached: ConnectError"


async def test_the_address_s_user_and_password_are_sent() -> None:
    seen: list[httpx2.Request] = []
    await webhook(Waiting(violation(7)), answering(200, seen)).look()
    expected = base64.b64encode(b"who:s3cret").decode()
    assert seen[0].headers["authorization"] == f"Basic {expected}"
    assert "s3cret" not in str(URL)


async def test_what_is_found_is_told_by_the_task_until_it_ends() -> None:
    seen: list[httpx2.Request] = []
    waiting = Waiting()
    told = asyncio.Event()
    task = webhook(waiting, answering(200, seen))
    known = waiting.note_notification

    async def tell(*args: object, **kwargs: object) -> None:
        await known(*args, **kwargs)  # type: ignore[arg-type]  as it came
        told.set()

    waiting.note_notification = tell  # type: ignore[method-assign]
    task.start()
    waiting.due[3], waiting.next_at[3] = violation(3), 0
    task.wake()
    async with asyncio.timeout(10):
        await told.wait()
    await task.stop()
    assert len(seen) == 1


def test_pauses_double_up_to_a_bound() -> None:
    assert [pause(each) for each in range(4)] == [1, 2, 4, 8]
    assert pause(10_000) == LONGEST_PAUSE


def test_a_secret_is_what_the_file_holds_or_base64_behind_its_mark() -> None:
    assert secret_in(b" s3cret\n") == b"s3cret"
    assert secret_in(b"whsec_" + base64.b64encode(b"\x00key")) == b"\x00key"
    for wrong in (b"", b"\n", b"whsec_", b"whsec_?"):
        with pytest.raises(ValueError, match=r".+"):
            secret_in(wrong)
