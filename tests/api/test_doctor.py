"""The doctor: what is well, what is not, and what to do about it."""

from __future__ import annotations

import asyncio
import shlex
import socket
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from app.broker.management import ManagementApi, Permissions
from app.doctor import Diagnosis, Grade, examine, lacking_rights, rights_to
from app.settings import Settings
from app.store import Store, migrate
from app.stored.capture import Batch
from app.stored.proposals import TraceCoverage, proposals_in
from app.traces.losses.audit import AuditState, Ledger, Tally
from app.tracker import Checkpoint, Policy
from tests.api.story import ORDER, UNSOUND, Teller
from tests.contract.outbox import NUDGE, order, tell, tracker_by
from tools.servers import Broker, without_settings


def settings_for(rabbit: Broker, folder: Path, **more: object) -> Settings:
    given = {"amqp_url": rabbit.amqp_url(), "management_url": rabbit.management_url} | more
    return Settings(_env_file=None, data_dir=folder, **given)


@pytest.fixture
def capturing(rabbit: Broker) -> Iterator[dict[str, str]]:
    """Settings of an account for AMQP alone, without any rights yet; an administrator's beside."""
    rabbit.add_user("capturer", "hush")
    signed = f"://{quote(rabbit.user)}:{quote(rabbit.password)}@"
    yield {
        "amqp_url": rabbit.amqp_url("/", "capturer", "hush"),
        "management_url": rabbit.management_url.replace("://", signed),
    }
    rabbit.delete_user("capturer")


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def away(nobody: str, folder: Path) -> Settings:
    """Settings of a broker that is away."""
    amqp, management = f"amqp://itc:hush@{nobody}", f"http://itc:hush@{nobody}"
    return Settings(_env_file=None, amqp_url=amqp, management_url=management, data_dir=folder)


COST = "programs at one address cannot be told apart during their first seconds"
LONGEST_SENTENCE = 25  # words


async def findings(settings: Settings) -> dict[str, Diagnosis]:
    """The doctor's findings by subject, each in sentences that can be read aloud."""
    diagnoses = [diagnosis async for diagnosis in examine(settings)]
    for diagnosis in diagnoses:
        for sentence in f"{diagnosis.found}; {diagnosis.advice}".replace(". ", "; ").split("; "):
            assert len(sentence.split()) <= LONGEST_SENTENCE, sentence
    return {diagnosis.subject: diagnosis for diagnosis in diagnoses}


async def trace(settings: Settings, vhost: str) -> None:
    """What a service leaves in its store when it traces a virtual host."""
    await migrate(settings.database.reveal())
    store = await Store.open(settings.database.reveal())
    made = await store.traces.create(vhost, "channel")
    await store.traces.set_wanted(made.id, True)
    await store.close()


async def test_all_is_well(rabbit: Broker, vhost: str, tmp_path: Path) -> None:
    settings = settings_for(rabbit, tmp_path)
    await trace(settings, vhost)
    rabbit.api("PUT", "vhosts", vhost, json={"tracing": True})
    found = await findings(settings)

    assert {subject for subject, finding in found.items() if finding.grade is not Grade.ok} == set()
    assert found["program"].found.startswith(f"rabbitmq-itc {version('rabbitmq-itc')}, Python 3.")
    assert rabbit.api("GET", "overview")["rabbitmq_version"] in found["broker"].found
    assert {"broker", "account", "amqp", "store", f"trace of {vhost}", "java"} <= set(found)
    assert found["connections"].found == "announced in the virtual host /"


async def test_what_a_trace_lacks_is_reported(rabbit: Broker, vhost: str, tmp_path: Path) -> None:
    settings = settings_for(rabbit, tmp_path)
    await trace(settings, vhost)
    off = (await findings(settings))[f"trace of {vhost}"]
    rabbit.permit(rabbit.user, vhost, configure="^other$")
    unable = (await findings(settings))[f"trace of {vhost}"]

    assert off.grade is Grade.wrong
    assert off.found.startswith("tracing is off on ")
    assert off.found.endswith(", so nothing is captured there")
    assert unable.grade is Grade.wrong
    assert unable.found == "no right to configure itc.trace, so nothing is captured"
    patterns = r"'^other$|^itc\.trace$' '.*' '.*'"
    assert unable.advice == f"rabbitmqctl set_permissions -p {vhost} {rabbit.user} {patterns}"


async def test_a_virtual_host_that_is_gone_is_not_taken_for_a_lack_of_rights(
    rabbit: Broker, tmp_path: Path
) -> None:
    settings = settings_for(rabbit, tmp_path)
    await trace(settings, "gone for good")
    found = (await findings(settings))["trace of gone for good"]

    assert found.grade is Grade.wrong
    assert "list_vhosts" in found.advice


async def test_what_the_audit_may_overlook_is_said(
    rabbit: Broker, vhost: str, tmp_path: Path
) -> None:
    settings = settings_for(rabbit, tmp_path)
    await trace(settings, vhost)
    assert f"audit of {vhost}" not in await findings(settings)
    store = await Store.open(settings.database.reveal())
    made = await store.traces.find(vhost)
    assert made is not None
    state = AuditState(
        even_event_id=1,
        even_at=1_000_000,
        at=1_000_000,
        traced=Tally(10, 7),
        missing=Tally(2),
        excess=Tally(0, 3),
        suspected=Tally(1_000),
    )
    checkpoint = Checkpoint(b"", [], [], [], [], [])
    ledger = Ledger(Tally(20, 9), state).dump()
    await store.batches.append(made.id, Batch([], checkpoint, b"", ledger=ledger))
    await store.close()
    found = (await findings(settings))[f"audit of {vhost}"]
    assert found.grade is Grade.ok
    assert "7 of 4 deliveries traced, as of 1970-01-01 00:00:01 UTC" in found.found
    assert "10 of 12 publishes" in found.found
    assert "2 trace messages are missing" in found.found
    assert "1,000 trace messages that have not come yet" in found.found
    assert "this can hide a loss of as many" in found.found


async def test_participants_that_do_not_fit_are_named_with_the_policy_that_does(
    rabbit: Broker, vhost: str, tmp_path: Path
) -> None:
    settings = settings_for(rabbit, tmp_path)
    await trace(settings, vhost)
    fitting = (await findings(settings))[f"participants of {vhost}"]
    store = await Store.open(settings.database.reveal())
    await Teller(store, vhost).tell((*ORDER, *UNSOUND))
    await store.close()
    unfit = (await findings(settings))[f"participants of {vhost}"]

    assert (fitting.grade, fitting.advice) == (Grade.ok, "")
    assert unfit.grade is Grade.better
    assert unfit.found.startswith("participants are channels, and 2 of 4 publishes are by channels")
    assert unfit.advice == f"To see it, run rabbitmq-itc restamp {vhost} --participant client"


async def test_what_messages_name_and_the_policy_misses_names_the_better_one(
    rabbit: Broker, vhost: str, tmp_path: Path
) -> None:
    settings = settings_for(rabbit, tmp_path)
    await trace(settings, vhost)
    silent = (await findings(settings))[f"links of {vhost}"]
    store = await Store.open(settings.database.reveal())
    stored = await store.traces.find(vhost)
    assert stored is not None
    unread = replace(NUDGE[0], body=b"\x1f\x8bno gzip")
    twice = [*order(3)[:2], *order(3)[:2], order(3)[2]]  # two messages with one id
    events = [unread, *NUDGE, *order(1), *order(2), *twice]
    await tell(store, stored.id, tracker_by(Policy.channel), events)
    await store.close()
    found = await findings(settings)
    unfit, links = found[f"participants of {vhost}"], found[f"links of {vhost}"]

    assert (silent.grade, silent.found) == (
        Grade.ok,
        "no message was published in answer to another yet",
    )
    assert unfit.grade is Grade.better
    assert (
        "of 2 causes that shop@10.0.0.7 #2 name by causation_id, 2 had reached another"
        in unfit.found
    )
    assert unfit.advice == f"To see it, run rabbitmq-itc restamp {vhost} --participant client"
    assert links.grade is Grade.ok
    assert links.found == (
        "4 of 5 publishes that may have a cause name it. Have the others carry the id of what"
        " they answer, or a key of their conversation, or set a rule. Of 2 causes that"
        " came by the broker, 0 were in their publisher's past by the policy channel. 2 causes came"
        f" from outside the broker (rabbitmq-itc hidden {vhost}). Ambiguous links, to an id of"
        " several messages: 1. Values that rules could not read: body not decompressed (1)"
    )

    figures = {"publishes": 9, "ambiguity": 1.0, "chance": None, "agreement": None, "linked": 0}
    rule = {"name": "found", "kind": "conversation", "child": "$message.header#/order"}
    each = {**figures, "kind": "conversation", "rules": [rule], "examples": []}
    proposed = proposals_in({"reactions": 10, "proposals": [each]})
    store = await Store.open(settings.database.reveal())
    await store.proposals.put(TraceCoverage(stored.id, vhost, 5, 5, 0, 1), proposed)
    await store.close()
    links = (await findings(settings))[f"links of {vhost}"]
    assert links.grade is Grade.better
    assert "header order ties messages together, for 9 of 10 publishes" in links.found
    assert links.advice == f"rabbitmq-itc proposals adopt {vhost} {proposed[0].id} --past"


async def test_an_account_signs_in_where_it_may_and_need_not_enter_the_default_virtual_host(
    rabbit: Broker, vhost: str, tmp_path: Path, capturing: dict[str, str]
) -> None:
    settings = settings_for(rabbit, tmp_path, **capturing)
    nowhere = (await findings(settings))["amqp"]
    rabbit.permit("capturer", vhost)
    there = (await findings(settings))["amqp"]

    assert nowhere.grade is Grade.wrong
    assert "does not let user capturer into the virtual host" in nowhere.found
    assert "rights in at least one virtual host" in nowhere.advice
    assert (there.grade, there.found) == (
        Grade.ok,
        f"capturer can sign in to virtual host {vhost}",
    )


async def test_a_wrong_password_is_found_without_showing_it(
    rabbit: Broker, vhost: str, tmp_path: Path, capturing: dict[str, str]
) -> None:
    rabbit.permit("capturer", vhost)
    capturing["amqp_url"] = rabbit.amqp_url("/", "capturer", "guessed")
    found = await findings(settings_for(rabbit, tmp_path, **capturing))

    assert found["amqp"].found.startswith("the broker refuses user capturer: check the name")
    assert not any("guessed" in repr(finding) for finding in found.values())


async def test_the_rights_that_count_are_those_of_the_account_that_consumes(
    rabbit: Broker, vhost: str, tmp_path: Path, capturing: dict[str, str]
) -> None:
    settings = settings_for(rabbit, tmp_path, **capturing)
    await trace(settings, vhost)
    nowhere = (await findings(settings))[f"trace of {vhost}"]
    rabbit.permit("capturer", vhost, read="^itc")
    found = (await findings(settings))[f"trace of {vhost}"]

    assert nowhere.found == "no right to enter it, so nothing is captured"
    assert shlex.split(nowhere.advice) == [
        *("rabbitmqctl", "set_permissions", "-p", vhost, "capturer"),
        *(r"^itc\.trace$", r"^itc\.trace$", r"^itc\.trace$|^amq\.rabbitmq\.trace$"),
    ]
    assert (found.grade, found.found) == (
        Grade.wrong,
        "no right to read amq.rabbitmq.trace, so nothing is captured",
    )
    assert found.advice.endswith(r" '.*' '.*' '^itc|^amq\.rabbitmq\.trace$'")


async def test_rights_to_publish_marks_are_reported(
    rabbit: Broker, vhost: str, tmp_path: Path, capturing: dict[str, str]
) -> None:
    settings = settings_for(rabbit, tmp_path, **capturing)
    await trace(settings, vhost)
    rabbit.permit("capturer", vhost, configure=r"^itc\.trace$", write="^itc", read=".*")
    found = (await findings(settings))[f"trace of {vhost}"]
    assert found.found.startswith("no right to configure itc.trace.marks.…, write amq.default")
    rights = r"'^itc\.trace$|^itc\.trace\.marks\.' '^itc|^amq\.default$' '.*'"
    assert found.advice.endswith(rights)


async def test_rights_to_be_told_of_connections_are_reported(
    rabbit: Broker, tmp_path: Path, capturing: dict[str, str]
) -> None:
    settings = settings_for(rabbit, tmp_path, **capturing)
    nowhere = (await findings(settings))["connections"]
    rabbit.permit("capturer", "/", "^itc", "^itc", "^itc")
    there = (await findings(settings))["connections"]

    assert nowhere.found == f"announced in the virtual host /, but no right to enter it: {COST}"
    queue = r"^itc\.trace\.connections$"
    assert shlex.split(nowhere.advice) == [
        *("rabbitmqctl", "set_permissions", "-p", "/", "capturer"),
        *(queue, queue, queue + r"|^amq\.rabbitmq\.event$"),
    ]
    assert there.advice.endswith(r" '^itc' '^itc' '^itc|^amq\.rabbitmq\.event$'")
    assert there.found.endswith(f"but no right to read amq.rabbitmq.event: {COST}")


async def test_a_broker_that_announces_no_connections_is_told_how(
    rabbit: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nowhere(_: ManagementApi) -> None:
        return None

    monkeypatch.setattr(ManagementApi, "event_exchange", nowhere)
    found = (await findings(settings_for(rabbit, tmp_path)))["connections"]

    assert (found.grade, found.found) == (Grade.better, f"not announced: {COST}")
    assert found.advice == "rabbitmq-plugins enable rabbitmq_event_exchange"


@pytest.mark.parametrize(
    ("release", "is_said"), [("4.3.6", False), ("4.4.0-beta.1", True), ("4.10.1", True)]
)
async def test_of_a_newer_broker_it_says_what_is_not_told(
    rabbit: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, is_said: bool
) -> None:
    async def newer(_: ManagementApi) -> str:
        return release

    monkeypatch.setattr(ManagementApi, "version", newer)
    found = (await findings(settings_for(rabbit, tmp_path)))["broker"]

    assert found.grade is Grade.ok
    assert ("of STOMP no settlements are told there" in found.found) == is_said


async def test_an_account_that_is_no_administrator_is_found(rabbit: Broker, tmp_path: Path) -> None:
    rabbit.add_user("watcher", "secret", ["monitoring"])
    try:
        url = rabbit.management_url.replace("://", "://watcher:secret@")
        found = await findings(
            Settings(
                _env_file=None,
                amqp_url=rabbit.amqp_url(),
                management_url=url,
                data_dir=tmp_path,
            )
        )
    finally:
        rabbit.delete_user("watcher")

    assert found["account"].found == (
        "watcher is no administrator (tags: monitoring), and cannot switch tracing on"
    )
    assert found["account"].advice.endswith(
        "rabbitmqctl set_user_tags watcher monitoring administrator"
    )


async def test_each_thing_that_is_away_has_its_own_line_and_no_password(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        found = await findings(
            Settings(
                _env_file=None,
                amqp_url=f"amqp://itc:hush@{nobody}",
                management_url=f"http://itc:hush@{nobody}",
                database_url=f"postgresql://itc:hush@{nobody}/itc",
                data_dir=tmp_path,
            )
        )

    wrong = {subject for subject, finding in found.items() if finding.grade is Grade.wrong}
    assert wrong == {"broker", "amqp", "store"}
    assert not {"account", "connections"} & set(found)  # the broker's line has said why
    for finding in found.values():
        assert "hush" not in finding.found + finding.advice
        assert bool(finding.advice) is (finding.grade is not Grade.ok)


async def test_a_store_without_tables_is_told_from_a_good_one(
    rabbit: Broker, tmp_path: Path
) -> None:
    folder = tmp_path / "not made yet"
    fresh = (await findings(settings_for(rabbit, folder)))["store"]
    found = (await findings(settings_for(rabbit, folder, database_migrate=False)))["store"]

    assert (fresh.grade, fresh.advice) == (Grade.ok, "")
    assert fresh.found.endswith("does not exist yet; the service takes care of that when it starts")
    assert (found.grade, found.advice) == (Grade.wrong, "run rabbitmq-itc migrate")
    assert not folder.exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no database" * 100, "the file is no SQLite database"),
        (None, "the SQLite file is damaged: restore it from a backup"),
    ],
)
async def test_a_store_that_cannot_be_read_is_one_line(
    tmp_path: Path, nobody: str, content: bytes | None, said: str
) -> None:
    settings = away(nobody, tmp_path)
    await migrate(settings.database.reveal())
    file = tmp_path / "itc.db"
    file.write_bytes(file.read_bytes()[:5_000] if content is None else content)
    found = await findings(settings)

    assert said in found["store"].found
    assert "ITC_DATA_DIR" in found["store"].advice
    assert [subject for subject in found if subject.startswith("disk")]


async def test_a_folder_that_may_not_be_read_is_one_line(
    tmp_path: Path, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Path, *args: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "stat", refused)  # root, who may run this, may read everything
    found = await findings(away(nobody, tmp_path))

    for subject in ("store", f"disk of {tmp_path}"):
        assert found[subject].found.endswith(": Permission denied")
        assert "the service's user" in found[subject].advice


async def test_a_check_that_fails_stops_no_other(
    tmp_path: Path, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*_: object) -> None:
        raise RuntimeError("hush")

    monkeypatch.setattr("app.doctor._vhosts_to_try", failing)
    found = await findings(away(nobody, tmp_path))

    assert found["amqp"].found == "the check itself failed: RuntimeError"
    assert "java" in found


async def test_whatever_the_store_raises_after_its_version_is_one_finding(
    tmp_path: Path, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = away(nobody, tmp_path)
    await trace(settings, "orders")
    store = await Store.open(settings.database.reveal())
    made = await store.traces.find("orders")
    assert made is not None
    checkpoint = Checkpoint(b"", [], [], [], [], [])
    await store.batches.append(made.id, Batch([], checkpoint, b"", ledger=b"no ledger"))
    await store.close()
    unread = await findings(settings)

    async def failing(_: object) -> None:
        raise ValueError("hush")

    monkeypatch.setattr("app.store.store.Store.open", failing)
    unopened = await findings(settings)

    assert unread["audit of orders"].found.startswith("the check itself failed: ")
    assert {"participants of orders", "links of orders", "java"} <= set(unread)
    assert unopened["store"].grade is Grade.wrong
    assert unopened["store"].found == "the check itself failed: ValueError"
    assert "java" in unopened


async def test_a_hint_fits_what_is_wrong(
    rabbit: Broker, tmp_path: Path, nobody: str, capturing: dict[str, str]
) -> None:
    gone = await findings(away(nobody, tmp_path))
    url = rabbit.management_url.replace("://", "://capturer:guessed@")
    wrong = await findings(settings_for(rabbit, tmp_path, **capturing | {"management_url": url}))

    for subject in ("broker", "amqp"):
        assert gone[subject].advice.startswith("is RabbitMQ running")
    assert "(rabbitmq-plugins enable rabbitmq_management)" in gone["broker"].advice
    for found in (gone, wrong):
        assert not {"account", "connections"} & set(found)  # the broker's line has said why
    assert wrong["broker"].advice.startswith("check the user and password in ITC_MANAGEMENT_URL")


async def test_nothing_is_logged_between_the_rows(tmp_path: Path, nobody: str) -> None:
    variables = {
        "ITC_AMQP_URL": f"amqp://itc:hush@{nobody}",
        "ITC_MANAGEMENT_URL": f"http://itc:hush@{nobody}",
        "ITC_DATA_DIR": str(tmp_path),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app.cli", "doctor"),
        env={**without_settings(), **variables, "PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()

    assert process.returncode == 1
    for line in out.decode().splitlines():
        assert line.startswith(("ok    ", "WRONG ", "      → ")), line


@pytest.mark.parametrize(
    ("permissions", "missing"),
    [
        (Permissions(".*", ".*", ".*"), []),
        (
            Permissions("", "", ""),
            ["configure itc.trace", "write itc.trace", "read itc.trace", "read amq.rabbitmq.trace"],
        ),
        (Permissions("^itc", "^itc", "^(itc|amq\\.)"), []),
        (Permissions("^itc", "^itc", "^itc"), ["read amq.rabbitmq.trace"]),
        (Permissions("itc", "^x$", ".*"), ["write itc.trace"]),
        (Permissions("(?<oddity", ".*", ".*"), []),
    ],
)
def test_rights_are_read_as_the_broker_reads_them(
    permissions: Permissions, missing: list[str]
) -> None:
    found = lacking_rights(permissions, rights_to("itc.trace"))
    assert [f"{right.verb} {right.label}" for right in found] == missing
