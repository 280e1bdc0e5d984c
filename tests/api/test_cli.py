"""The command line, as a process of its own against a running service."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from app.cli import app
from app.cli.conversations import _delivery_line as delivery_line
from app.cli.events import SHOWN_COLUMNS
from app.cli.events import step_text as said_of_step
from app.cli.exits import CommandError, Exit
from app.cli.output import columns, printable
from app.errors import OutageError
from app.traces.life import TraceState
from app.traces.status import TraceStatus
from model.conversations import assembly
from model.conversations.conversation import Conversation
from model.conversations.messages import Outcome
from model.event import EVENT_FIELDS
from model.wording import Sentence
from tests.api import commands
from tests.api.conftest import World, make_world, served
from tests.api.fakes import trace_status
from tests.api.story import ALONE, AUDITED, INVOICED, ORDERED, SHOP, UNSOUND, publish
from tools.command_tables import command_tables, every_command
from tools.servers import Broker, without_settings

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"
PATIENCE = 60
ACROSS_A_GAP = "Not complete: messages may be missing in 1 gap of this span"


@dataclass
class Ended:
    """A command's end."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Awaitable[Ended]]


def environment(url: str, **more: str) -> dict[str, str]:
    return {
        **without_settings(),
        "ITC_URL": url,
        "ITC_USER": "admin",
        "ITC_PASSWORD": "secret",
        **more,
    }


async def start(*words: object, env: dict[str, str], cwd: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app.cli", *map(str, words)),
        env={**env, "PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


def leftovers(folder: Path) -> list[Path]:
    """What a download writes aside before it renames it."""
    return list(folder.glob(".*.jsonl.*"))


@pytest.fixture
async def url(world: World) -> AsyncIterator[str]:
    """The address of a service with the story in it."""
    async with served(world.app(), world.settings) as url:
        yield url


@pytest.fixture
def run(url: str, tmp_path: Path) -> Command:
    """Runs a command against that service."""

    async def run(*words: object, **variables: str) -> Ended:
        return Ended(
            *await commands.completed(words, environment(url, **variables), tmp_path, PATIENCE)
        )

    return run


async def test_traces_are_started_listed_and_stopped(run: Command) -> None:
    started = await run("trace", "start", "/", "--participant", "user")
    again = await run("trace", "start", "/")
    listed = await run("trace", "list")
    stopped = await run("trace", "stop", "/")
    as_json = await run("trace", "list", "--json")

    assert (started.code, started.out) == (0, "/: started, running\n")
    assert again.out == "/: runs already, running\n"
    assert re.search(r"^/ +running +7 ", listed.out, re.MULTILINE)
    assert " 0 (5?) " in listed.out, "what the audit suspects"
    assert stopped.out == "/: stopped\n"
    assert as_json.json["items"][0]["state"] == "stopped"


@pytest.mark.parametrize(
    ("state", "code", "said"),
    [
        (TraceState.waiting, Exit.unavailable, "/: started, and waits: for its rights\n"),
        (TraceState.failed, Exit.failure, "/: started, and failed: a bug\n"),
        (TraceState.running, Exit.ok, "/: started, running\n"),
    ],
)
async def test_a_start_waits_until_the_trace_runs_or_says_why_not(
    run: Command,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    state: TraceState,
    code: Exit,
    said: str,
) -> None:
    asked = []

    async def status(vhost: str) -> TraceStatus:
        asked.append(vhost)
        one = trace_status(vhost, TraceState.starting if len(asked) < 3 else state)
        return msgspec.structs.replace(one, waiting_for="for its rights", last_error="a bug")

    monkeypatch.setattr(world.traces, "status", status)
    ended = await run("trace", "start", "/")

    assert (ended.code, ended.out + ended.err) == (code, said)
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("words", "quiet"),
    [
        ((), None),
        (("--quiet", ""), []),
        (("--quiet", "queue:audit", "--quiet", "exchange:a*"), ["queue:audit", "exchange:a*"]),
    ],
)
async def test_a_trace_may_be_started_with_nothing_quiet(
    run: Command,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    quiet: list[str] | None,
) -> None:
    asked = []

    async def start(vhost: str, policy: str | None, quiet: list[str] | None, **taking: Any) -> bool:
        asked.append((vhost, policy, quiet, taking["bodies"]))
        world.traces.running[vhost] = trace_status(vhost, TraceState.running)
        return True

    monkeypatch.setattr(world.traces, "start", start)
    assert (await run("trace", "start", "/", *words)).code == 0
    assert asked == [("/", None, quiet, None)]


async def test_a_trace_is_started_without_bodies(run: Command, world: World) -> None:
    assert (await run("trace", "start", "/", "--no-bodies")).code == 0
    assert world.traces.running["/"].bodies is False


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["--exchange", "a", "--exchange", ""], (["a", ""], None, False)),
        (["--queue", "work.*", "--later"], (None, ["work.*"], True)),
        (["--exchange", "#", "--queue", "#"], (["#"], ["#"], False)),
        ([], (None, None, False)),
    ],
)
async def test_a_trace_is_started_with_some_exchanges_and_queues(
    run: Command, world: World, monkeypatch: pytest.MonkeyPatch, given: list[str], wanted: object
) -> None:
    asked = []
    start = world.traces.start

    async def noted(*rules: Any, **taking: Any) -> bool:
        asked.append((taking["exchanges"], taking["queues"], taking["later"]))
        return await start(*rules, **taking)

    monkeypatch.setattr(world.traces, "start", noted)
    assert (await run("trace", "start", "/", *given)).code == 0
    assert asked == [wanted]


async def test_events_are_listed_oldest_first(run: Command) -> None:
    table = await run("events", "--user", "admin", "--by", "billing")
    as_json = await run("events", "-n", 2, "--json")

    assert [line.split()[0] for line in table.out.splitlines()] == ["EVENT", "2", "3"]
    assert [one["id"] for one in as_json.json["items"]] == [6, 7]
    assert as_json.json["truncated"] is None, "there may be more than were asked for"


async def test_causes_and_effects_are_listed(run: Command) -> None:
    effects = await run("effects", ORDERED, "-n", 2)
    received = await run("effects", ORDERED, "--type", "received", "--json")
    causes = await run("causes", INVOICED, "--via", "links")
    unknown = await run("causes", INVOICED, "--via", "magic")

    assert [line.split()[0] for line in effects.out.splitlines()] == ["EVENT", "2", "3"]
    assert effects.err.endswith("there are more: -n says how many to show\n")
    assert {one["type"] for one in received.json["items"]} == {"received"}
    assert (received.json["complete"], received.json["truncated"]) == (True, False)
    assert (causes.code, unknown.code) == (0, Exit.usage)


@pytest.mark.parametrize(
    ("words", "certain"),
    [
        *((words, None) for words in ("trace list", "events", "links show /", "hidden /")),
        *((words, None) for words in ("assertions show", "jobs list")),
        ("export list", None),
        *((f"{walk} {INVOICED}", True) for walk in ("causes", "effects")),
        # What is in quarantine came before the first event.
        *((words, False) for words in ("conversations /", "violations", "failures /")),
    ],
)
async def test_every_list_has_one_shape_for_machines(
    url: str, words: str, certain: bool | None
) -> None:
    invoke = partial(CliRunner().invoke, app, [*words.split(), "--json"], env=environment(url))
    done = await asyncio.to_thread(invoke)

    assert done.exit_code == 0, done.output
    [answer] = map(json.loads, done.stdout.splitlines())
    assert isinstance(answer["items"], list)
    assert answer["truncated"] is False
    assert answer["complete"] is certain
    assert (answer["sound"] is None) is (certain is None)


async def test_events_are_of_a_participant_by_its_name_or_number(
    run: Command, world: World
) -> None:
    trace = await world.store.traces.find("/")
    assert trace is not None
    await world.store.aliases.give(trace.id, 2, "Billing, Berlin")
    theirs = await run("events", "--participant", "Billing, Berlin")
    by_number = await run("events", "--participant", "2")

    assert [line.split()[0] for line in theirs.out.splitlines()] == ["EVENT", "2", "3"]
    assert theirs.out == by_number.out
    assert theirs.out.count("Billing, Berlin") == 2
    assert "->" not in theirs.out


async def test_events_are_followed(world: World, tmp_path: Path) -> None:
    async with served(world.app(), world.settings) as url:
        process = await start("events", "-f", "-n", 1, "--json", env=environment(url), cwd=tmp_path)
        assert process.stdout is not None
        first = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        [stored] = await world.tell(publish(SHOP, "news"))
        second = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        process.terminate()
        await process.communicate()

    assert [one["id"] for line in (first, second) for one in json.loads(line)["items"]] == [
        7,
        stored,
    ]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("compare", ORDERED, INVOICED), Exit.ok, "event 1 happened before event 3"),
        (("compare", INVOICED, ORDERED), Exit.ok, "event 3 happened after event 1"),
        (("compare", INVOICED, AUDITED), Exit.concurrent, "are concurrent"),
        (("compare", ORDERED, 99), Exit.not_found, "no event has the id 99"),
        (("compare", ORDERED, "x"), Exit.usage, "unable to parse"),
        (("compare", ORDERED), Exit.usage, "Missing argument"),
        (("events", "--settlement", "in_hand"), Exit.ok, "none"),
        (("events", "--settlement", "kept"), Exit.usage, "settlement"),
        (("events",), Exit.ok, "SETTLEMENT"),
        (("deliveries", ORDERED), Exit.ok, "handed over for 2 of 2 queues"),
        (("deliveries", INVOICED), Exit.ok, "waiting"),
        (("deliveries", 2), Exit.usage, "only a publish has deliveries"),
        (("period", "export", "/", "-"), Exit.usage, "its extension is the period's format"),
        (("chain", ORDERED, ORDERED), Exit.usage, "both ids are the same"),
        (("chain", ORDERED, INVOICED, "--file", "x.exe"), Exit.usage, "ends in one of .jsonl"),
        (("chain", ORDERED, INVOICED, "--file", "../x"), Exit.usage, "name"),
        (("export", "get", ORDERED, INVOICED, "x.csv"), Exit.not_found, "no export x.csv"),
        (("jobs", "show", 99), Exit.not_found, "no job has the number 99"),
        (("trace", "start", "nowhere"), Exit.not_found, "no such virtual host"),
        (("prune", "/"), Exit.usage, "how many events to keep"),
        (("events", "nowhere"), Exit.not_found, "no such virtual host"),
        (("events", "nowhere", "--json"), Exit.not_found, "no such virtual host"),
        (("archive", "/"), Exit.usage, "with either --keep-days or --before"),
        (
            ("archive", "/", "--keep-days", 1, "--before", "2026-01-01"),
            Exit.usage,
            "either --keep-days or --before",
        ),
        (("chain", ORDERED, INVOICED, "-o", "x.xlsx"), Exit.usage, "x.xlsx: no format has this"),
        (("nonsense",), Exit.usage, "No such command"),
    ],
)
async def test_each_end_has_its_code_and_its_sentence(
    run: Command, words: tuple[object, ...], code: Exit, said: str
) -> None:
    ended = await run(*words)

    assert ended.code == code
    assert said in " ".join((ended.out + ended.err).replace("│", " ").split())


async def test_missing_rights_and_a_missing_service_have_their_codes(
    run: Command, world: World
) -> None:
    nobody = await run("events", ITC_USER="", ITC_PASSWORD="")
    forgotten = await run("events", ITC_PASSWORD="")
    wrong = await run("events", ITC_PASSWORD="guess")
    reader = await run("trace", "start", "/", ITC_USER="watcher")
    world.broker.down = True
    outage = await run("events", ITC_PASSWORD="other")
    away = await run("events", ITC_URL="http://127.0.0.1:9")
    no_url = await run("events", ITC_URL="localhost")

    assert nobody.err.endswith(": set ITC_USER and ITC_PASSWORD\n")
    assert forgotten.err.endswith(": there is no password for admin, set ITC_PASSWORD\n")
    assert wrong.err == "the broker refuses these credentials\n"
    assert [nobody.code, wrong.code, reader.code] == [Exit.not_authorised] * 3
    assert [outage.code, away.code, no_url.code] == [Exit.unavailable, Exit.unavailable, Exit.usage]
    for ended in (nobody, forgotten, wrong, reader, outage, away, no_url):
        assert len(ended.err.splitlines()) == 1
        assert ended.out == ""
        assert "guess" not in ended.err


async def test_an_address_of_the_brokers_own_is_recognised(run: Command, rabbit: Broker) -> None:
    account = {"ITC_USER": rabbit.user, "ITC_PASSWORD": rabbit.password}
    amqp = rabbit.amqp_url().rpartition("@")[2].rpartition("/")[0]
    management = await run("trace", "list", ITC_URL=rabbit.management_url, **account)
    other = await run("trace", "start", "/", "--url", f"http://{amqp}", **account)

    assert management.err.startswith(f"{rabbit.management_url} is RabbitMQ's own management API: ")
    assert other.err.startswith(f"http://{amqp} is RabbitMQ's port for AMQP: ITC_URL (or --url) is")
    assert (management.code, other.code) == (Exit.usage, Exit.usage)


async def test_the_events_of_a_trace_without_any_are_an_empty_table(
    run: Command, world: World
) -> None:
    await run("trace", "start", "shop")
    ended = await run("events", "shop")

    assert (ended.code, len(ended.out.splitlines()), ended.err) == (0, 1, "none\n")


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (("-o", "out.csv"), "chain.csv"),
        (("-o", "day/out.EXACT.csv"), "chain.exact.csv"),
        (("-o", "/dev/null"), "chain.jsonl"),
        (("-o", "out.csv", "--file", "x.txt"), "x.txt"),
        (("--file", "y"), "y"),
    ],
)
async def test_a_chains_format_is_that_of_the_file_to_save_it_in(
    run: Command, tmp_path: Path, words: tuple[str, ...], file: str
) -> None:
    (tmp_path / "day").mkdir()
    ended = await run("chain", ORDERED, INVOICED, *words)

    assert (ended.code, ended.err.splitlines()[-1]) == (0, "job 1: succeeded, 100 %")
    assert ended.out.splitlines()[1].endswith(f"/1/3/{file}")


async def test_a_chain_on_stdout_is_the_export_alone(run: Command) -> None:
    ended = await run("chain", ORDERED, INVOICED, "-o", "-")

    assert ended.out == '{"id": 1}\n'
    assert ended.err.splitlines()[-2:] == [
        "1 event of 1 participant, complete",
        "10 bytes in /itc_db/undefined/1/3/chain.jsonl",
    ]


async def test_a_pipe_is_told_each_stage_of_a_job(world: World, url: str, tmp_path: Path) -> None:
    world.spark.go.clear()
    words = ("chain", ORDERED, INVOICED, "--file", "a.jsonl", "-o", "a.jsonl")
    process = await start(*words, env=environment(url), cwd=tmp_path)
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE):
        while (line := await process.stderr.readline()) != b"job 1: reading, 40 %\n":
            assert line, "it ended without saying so"
        world.spark.go.set()
        _, err = await process.communicate()
    assert (process.returncode, err) == (0, b"job 1: succeeded, 100 %\n")


async def test_a_chain_is_found_and_downloaded(run: Command, tmp_path: Path) -> None:
    piped = await run("chain", ORDERED, INVOICED, "--file", "a.jsonl", "-o", "a.jsonl")
    as_json = await run("chain", ORDERED, INVOICED, "--file", "b.jsonl", "--json")
    to_stdout = await run("export", "get", ORDERED, INVOICED, "b.jsonl", "-o", "-")
    listed = await run("export", "list", "--json")
    deleted = await run("export", "delete", ORDERED, INVOICED, "b.jsonl")

    assert piped.code == 0
    found, where = piped.out.splitlines()
    assert found == "1 event of 1 participant, complete"
    assert where == "10 bytes in /itc_db/undefined/1/3/a.jsonl"
    assert "\x1b" not in piped.out + piped.err
    assert (tmp_path / "a.jsonl").read_text() == '{"id": 1}\n'
    assert not leftovers(tmp_path)
    assert as_json.json["relation"] == "before"
    assert to_stdout.out == '{"id": 1}\n'
    assert {one["file"] for one in listed.json["items"]} == {"a.jsonl", "b.jsonl"}
    assert deleted.code == 0


async def test_a_download_is_no_more_readable_than_its_user_wishes(
    run: Command, tmp_path: Path
) -> None:
    before = os.umask(0o027)
    try:
        await run("chain", ORDERED, INVOICED, "-o", "a.jsonl")
    finally:
        os.umask(before)

    assert f"{(tmp_path / 'a.jsonl').stat().st_mode & 0o777:o}" == "640"


async def test_a_download_replaces_nothing_but_files(run: Command, tmp_path: Path) -> None:
    folder, pipe = tmp_path / "folder", tmp_path / "pipe"
    folder.mkdir()
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    into_folder = await run("chain", ORDERED, INVOICED, "-o", folder)
    into_pipe = await run("chain", ORDERED, INVOICED, "-o", pipe)
    piped = os.read(reader, 1_000)
    os.close(reader)

    assert (into_folder.code, into_pipe.code) == (Exit.failure, 0)
    assert into_folder.err.splitlines()[-1] == f"{folder}: Is a directory"
    assert piped == b'{"id": 1}\n'


async def test_a_chain_shows_a_bar_on_a_terminal(world: World, tmp_path: Path) -> None:
    world.spark.go.clear()
    ours, theirs = pty.openpty()
    async with served(world.app(), world.settings) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app.cli", "chain", str(ORDERED), str(INVOICED), "-o", "a.csv"),
            env={
                **environment(url),
                "PYTHONPATH": str(Path(__file__).parents[2]),
                "TERM": "xterm",
                "COLUMNS": "100",
            },
            cwd=tmp_path,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=theirs,
        )
        os.close(theirs)
        shown = ""
        while "reading" not in shown:
            shown += (await asyncio.to_thread(os.read, ours, 4_096)).decode()
        world.spark.go.set()
        code = await asyncio.wait_for(process.wait(), PATIENCE)
    os.close(ours)

    assert code == 0
    assert "━" in shown


async def test_a_chain_without_a_file_is_shown_at_once_to_every_reader(
    run: Command, world: World
) -> None:
    reader = {"ITC_USER": "watcher"}
    ended = await run("chain", ORDERED, INVOICED, **reader)
    first = await run("chain", ORDERED, INVOICED, "-n", "2")
    nothing = await run("chain", INVOICED, ALONE)
    evident = await run("chain", ORDERED, INVOICED, "--via", "links")
    as_json = await run("chain", INVOICED, ORDERED, "--json")

    sentence, counted, heads, *rows = ended.out.splitlines()
    assert (ended.code, ended.err) == (0, "")
    assert sentence == "event 1 happened before event 3, and may have influenced it"
    assert counted == "3 events of 2 participants, complete"
    assert heads.split()[0] == "EVENT"
    assert [row.split()[0] for row in rows] == ["1", "2", "3"]
    assert first.err == "there are more: -n shows more of them, -o FILE writes them all\n"
    assert len(first.out.splitlines()) == 5
    assert nothing.code == evident.code == Exit.concurrent
    assert nothing.out.splitlines() == [
        "events 3 and 4 are concurrent: neither can have influenced the other"
    ]
    assert (as_json.json["relation"], len(as_json.json["events"])) == ("after", 3)
    assert world.spark.runs == 0


async def test_what_events_touched_is_said_listed_and_written(run: Command, tmp_path: Path) -> None:
    said = await run("touched", ORDERED)
    bounded = await run("touched", ORDERED, "--to", ORDERED)
    listed = await run("touched", ORDERED, INVOICED, "--verdict", "cannot_have")
    written = await run("touched", ORDERED, "-o", "all.jsonl")
    several = await run("touched", ORDERED, INVOICED, "-o", "all.jsonl")

    first, *services, queues = said.out.splitlines()
    assert (said.code, first) == (
        0,
        "of 6 events since, 2 were caused by it, 3 more may have been, 1 cannot have been",
    )
    assert [line.split(",")[0] for line in services] == ["caused", "may have"]
    assert queues == "caused, 2 queues: billing, audit"
    assert bounded.out.startswith("of 0 events since, 0 were caused by it,")
    assert str(ALONE) in [line.split()[0] for line in listed.out.splitlines()]
    assert written.code == 0
    assert (tmp_path / "all.jsonl").read_text() == '{"id": 1}\n'
    assert (tmp_path / "all.jsonl.manifest.json").is_file()
    assert several.code == Exit.usage


async def test_a_period_is_written_and_saved(run: Command, tmp_path: Path) -> None:
    written = await run("period", "export", "/", "day.ocel.json")
    told = await run("period", "export", "/", tmp_path / "api.asyncapi.yaml", "--json")
    vague = await run("period", "export", "/", "day.json")
    sent = await run("period", "send", "/")

    assert (written.code, written.out.splitlines()) == (
        0,
        ["3 events, 1 conversation, complete", "3 bytes in /itc_db/periods/%2F/day.ocel.json"],
    )
    assert (tmp_path / "day.ocel.json").read_text() == "{}\n"
    assert (told.json["file"], told.json["format"]) == ("api.asyncapi.yaml", "asyncapi.yaml")
    assert (tmp_path / "api.asyncapi.yaml").is_file()
    assert (vague.code, "ends in one of .ocel.json, " in vague.err) == (Exit.usage, True)
    assert (sent.code, "ITC_OTLP_EXPORT_URL" in sent.err) == (Exit.failure, True)


async def test_a_chain_need_not_be_waited_for(run: Command, world: World) -> None:
    world.spark.go.clear()
    asked = await run("chain", ORDERED, INVOICED, "--no-wait")
    running = await run("jobs", "show", asked.out.strip())
    cancelled = await run("jobs", "cancel", asked.out.strip())
    listed = await run("jobs", "list")
    world.spark.go.set()

    assert running.json["state"] in ("queued", "running")
    assert cancelled.out == "job 1: cancelled\n"
    assert re.search(r"^1 +chain +cancelled ", listed.out, re.MULTILINE)


async def test_a_chain_of_concurrent_events_ends_with_3(run: Command, world: World) -> None:
    ended = await run("chain", INVOICED, ALONE, "-o", "nothing.jsonl")
    piped = await run("chain", INVOICED, ALONE, "-o", "-")

    assert (ended.code, ended.out) == (3, "events 3 and 4 are concurrent: no chain\n")
    assert (piped.code, piped.out) == (3, "")
    assert piped.err.splitlines()[-1] == "events 3 and 4 are concurrent: no chain"
    assert world.spark.runs == 0


async def test_a_chain_along_links_says_what_caused_what(run: Command, world: World) -> None:
    world.spark.sentence = "event 1 caused event 3, by messages and links"
    ended = await run("chain", ORDERED, INVOICED, "--via", "links", "--file", "chain.jsonl")

    location = f"/itc_db/undefined/{ORDERED}/{INVOICED}/chain.jsonl"
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "event 1 caused event 3, by messages and links",
        "1 event of 1 participant, complete",
        f"10 bytes in {location}",
    ]


async def test_where_nothing_evident_leads_a_chain_ends_with_3(run: Command, world: World) -> None:
    world.spark.finds = False
    world.spark.sentence = "event 1 may have caused event 3, but no link or message says so"
    ended = await run("chain", ORDERED, INVOICED, "--via", "links", "-o", "nothing.jsonl")

    assert (ended.code, ended.out) == (3, f"{world.spark.sentence}\n")
    assert (await run("chain", ORDERED, INVOICED, "--via", "magic")).code == Exit.usage


async def test_a_chain_that_fails_ends_with_1_and_the_reason(run: Command, world: World) -> None:
    world.spark.fail = OutageError("no Java was found")
    ended = await run("chain", ORDERED, INVOICED, "-o", "a.jsonl")

    assert ended.code == Exit.failure
    assert ended.err.splitlines()[-1] == "job 1 failed: no Java was found"


async def test_an_incomplete_answer_ends_with_7_on_request(run: Command, world: World) -> None:
    trace = await world.store.traces.find("/")
    assert trace is not None
    await world.store.gaps.open(trace.id, after_event_id=2, since=5, reason="tracing was off")

    asked = await run("compare", INVOICED, AUDITED)

    assert asked.code == Exit.undecided
    assert asked.out.splitlines()[1:] == [ACROSS_A_GAP]
    assert (await run("compare", INVOICED, AUDITED, "--require-complete")).code == Exit.incomplete


@pytest.mark.parametrize(
    ("to", "said"),
    [
        (
            ALONE,
            [
                "events 3 and 4 are concurrent as far as is known, but a path may be unrecorded."
                " Messages may be missing between them"
            ],
        ),
        (
            ORDERED,
            [
                "1 event of 1 participant",
                "10 bytes in /itc_db/undefined/3/1/chain.jsonl",
            ],
        ),
    ],
)
async def test_a_chain_across_a_gap_says_so(
    run: Command, world: World, monkeypatch: pytest.MonkeyPatch, to: int, said: list[str]
) -> None:
    trace = await world.store.traces.find("/")
    assert trace is not None
    await world.store.gaps.open(trace.id, after_event_id=2, since=5, reason="tracing was off")
    whole = world.spark.run

    async def across_a_gap(*args: Any) -> dict[str, Any]:
        return {**await whole(*args), "complete": False, "caveats": [ACROSS_A_GAP]}

    monkeypatch.setattr(world.spark, "run", across_a_gap)
    ended = await run("chain", INVOICED, to, "-o", "a.jsonl")

    assert ended.out.splitlines() == [*said, ACROSS_A_GAP]


async def test_an_unsound_answer_ends_with_8_on_request(run: Command, world: World) -> None:
    await world.tell(*UNSOUND)

    asked = await run("compare", INVOICED, AUDITED)
    strict = await run("compare", INVOICED, AUDITED, "--require-complete", "--require-sound")
    walked = await run("compare", INVOICED, AUDITED, "--require-complete")

    sentence, doubt = asked.out.splitlines()
    assert sentence.endswith(". Some participants may be parts of one program")
    assert doubt.startswith("Not sound: participants are channels, and 2 of 4 ")
    assert (asked.code, strict.code, walked.code) == (Exit.undecided, Exit.unsound, 9)


@pytest.mark.parametrize(
    "command",
    [
        ("compare", INVOICED, AUDITED),
        ("conversation", ORDERED),
        ("touched", ORDERED),
        ("failures", "/"),
        ("chain", ORDERED, INVOICED),
    ],
    ids=lambda command: command[0],
)
async def test_commands_say_what_the_answer_says_in_words_of_the_table(
    run: Command, world: World, command: tuple[Any, ...]
) -> None:
    await world.tell(*UNSOUND)
    trace = await world.store.traces.find("/")
    assert trace is not None
    await world.store.gaps.open(trace.id, after_event_id=2, since=5, reason="tracing was off")

    answer, spoken = (await run(*command, "--json")).json, await run(*command)

    lines = (spoken.out + spoken.err).splitlines()
    assert [line for line in lines if line.startswith("Not ")] == answer["caveats"]
    assert answer["caveats"][0].startswith("Not complete: messages may be missing in ")
    assert all(is_of_table(caveat) for caveat in answer["caveats"])
    if command[0] != "failures":
        assert lines[0] == answer["sentence"]
    if command[0] == "conversation":
        assert lines[1] == answer["state"] == "unknown"
        parts = [(each["text"], each["remedy"]) for each in answer["clauses"]]
        assert all(is_of_table(part) for each in parts for part in each if part is not None)


def is_of_table(text: str) -> bool:
    """Tell whether a text is a sentence of the table, with names and numbers put in."""
    fixed = (re.split(r"\{[^}]*\}", sentence) for sentence in Sentence)
    return any(re.fullmatch(".+".join(map(re.escape, parts)), text) for parts in fixed)


async def test_a_conversation_says_by_what_it_is_done(
    run: Command, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Conversation, "done_by", "by its key")
    monkeypatch.setattr(assembly, "outcome_of", lambda *_, **__: Outcome.done)
    assert (await run("conversation", ORDERED)).out.splitlines()[1] == (
        f"finished: {Sentence.key_at_rest}"
    )


async def test_a_sound_answer_may_be_required(run: Command) -> None:
    ended = await run("compare", INVOICED, AUDITED, "--require-complete", "--require-sound")
    assert ended.code == Exit.concurrent


async def test_an_unsound_chain_ends_with_8_on_request(run: Command, world: World) -> None:
    world.spark.doubts, world.spark.quiet = ["participants are channels"], 1_000
    ended = await run("chain", ORDERED, INVOICED, "--file", "a.jsonl", "--require-sound")

    assert ended.code == Exit.unsound
    assert ended.out.splitlines()[-2:] == [
        "Not sound: participants are channels",
        "Not followed: at least 1,000 events of quiet traffic in this span",
    ]


async def test_an_unsound_chain_at_once_ends_with_8_on_request(run: Command, world: World) -> None:
    await world.tell(*UNSOUND)

    shown = await run("chain", ORDERED, INVOICED)
    strict = await run("chain", ORDERED, INVOICED, "--require-sound")

    assert (shown.code, strict.code) == (0, Exit.unsound)
    assert "Not sound: participants are channels" in strict.out


async def test_old_events_are_pruned(run: Command, world: World) -> None:
    await run("trace", "start", "/")
    preview = await run("prune", "/", "--keep-events", 4, "--dry-run")
    pruned = await run("prune", "/", "--keep-days", 0.5, "--json")

    assert preview.out == "3 events and 1 participant would be removed\n"
    assert pruned.json == {"vhost": "/", "events": 3, "participants": 1, "dry_run": False}
    assert world.traces.pruned == [("/", 4, None, True), ("/", None, 43_200.0, False)]


async def test_old_events_are_archived_and_then_pruned(run: Command, world: World) -> None:
    await run("trace", "start", "/")
    nothing = await run("prune", "/", "--archived")
    archived = await run("archive", "/", "--keep-days", 7)
    again = await run("archive", "/", "--before", "2026-01-03", "--json")
    later = await run("archive", "/", "--keep-days", 7, "--no-wait")
    reader = await run("archive", "/", "--keep-days", 7, ITC_USER="watcher")
    unbounded = await run("archive", "/")
    pruned = await run("prune", "/", "--archived")

    assert archived.out.startswith("2 events archived in 1 file, ")
    assert archived.out.endswith("; all up to event 2 are archived\n")
    assert "job 1: " in archived.err
    assert (again.json["events"], again.json["through"]) == (0, 2)
    assert later.out == "3\n"
    assert (nothing.code, reader.code) == (Exit.not_found, Exit.not_authorised)
    assert unbounded.code == Exit.usage
    assert pruned.code == 0
    assert world.traces.through == [2]


async def test_stored_events_are_restamped(run: Command) -> None:
    done = await run("restamp", "/", "--participant", "user", "--quiet", "queue:audit")
    nothing_quiet = await run("restamp", "/", "--quiet", "", "--json")
    later = await run("restamp", "/", "--no-wait")
    unknown, wrong = await run("restamp", "nowhere"), await run("restamp", "/", "--quiet", "audit")
    reader = await run("restamp", "/", ITC_USER="watcher")

    assert done.out == "/: 7 events restamped, with 3 participants by user\n"
    assert done.err.endswith("job 1: succeeded, 100 %\n")  # what came before may go by unseen
    assert (nothing_quiet.json["participant"], nothing_quiet.json["quiet"]) == ("user", [])
    assert later.out == "3\n"
    assert (unknown.code, wrong.code) == (Exit.not_found, Exit.usage)
    assert reader.code == Exit.not_authorised


async def test_what_the_broker_was_told_does_not_reach_the_terminal(
    run: Command, world: World
) -> None:
    await world.tell(publish(SHOP, "\x1b[2J\x07\u202ekey\r\n", exchange="[bold]ex[/bold]"))
    ended = await run("events", "-n", 1)

    assert r"\x1b[2J\x07\u202ekey\r\n" in ended.out
    assert "[bold]ex[/bold]" in ended.out
    assert not set("\x1b\x07\u202e\r") & set(ended.out)


def test_a_quiet_event_is_marked_behind_its_match() -> None:
    event = dict.fromkeys(EVENT_FIELDS) | {"match": "routed", "quiet": True}
    assert "routed (quiet)" in [of(event) for of in SHOWN_COLUMNS.values()]
    assert "routed" in [of(event | {"quiet": False}) for of in SHOWN_COLUMNS.values()]


def test_a_column_that_no_item_has_is_said() -> None:
    [path] = columns("BY: by.name or ?").values()
    assert [path({"by": by}) for by in (None, {"name": None}, {"name": "shop"})] == [
        "?",
        "?",
        "shop",
    ]
    for item in ({}, {"by": {"nmae": "shop"}}):
        with pytest.raises(CommandError, match=r"does not say 'by\.name'"):
            path(item)


def test_what_is_printable_stays() -> None:
    assert printable("größe 🐇 日本") == "größe 🐇 日本"
    assert printable(None) == ""


@pytest.mark.parametrize(
    ("variables", "code", "said"),
    [
        ({"ITC_PORT": "x"}, Exit.usage, "ITC_PORT: "),
        ({"ITC_AUTH": "none", "ITC_HOST": "0.0.0.0"}, Exit.usage, "loopback"),
        ({"ITC_DATABASE_URL": "postgresql://u:hush@127.0.0.1:9/x"}, Exit.unavailable, "database"),
        ({"ITC_DATA_DIR": "/dev/null/x"}, Exit.usage, "ITC_DA"),
    ],
)
async def test_a_service_that_cannot_start_says_why_in_one_line(
    tmp_path: Path, variables: dict[str, str], code: Exit, said: str
) -> None:
    env = environment("", **{"ITC_DATA_DIR": str(tmp_path), "ITC_PORT": "0", **variables})
    process = await start("serve", env=env, cwd=tmp_path)
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)

    assert process.returncode == code
    assert out == b""
    assert said in err.decode()
    assert len(err.splitlines()) == 1
    assert b"hush" not in err


async def test_a_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    async with served(world.app(), world.settings) as url:
        port = url.rpartition(":")[2]
        env = environment("", ITC_DATA_DIR=str(tmp_path), ITC_PORT=port)
        process = await start("serve", env=env, cwd=tmp_path)
        _, err = await asyncio.wait_for(process.communicate(), PATIENCE)

    assert process.returncode == Exit.usage
    assert err.decode() == (
        f"cannot listen on 127.0.0.1:{port} (ITC_HOST, ITC_PORT): Address already in use\n"
    )


async def test_the_version_is_the_installed_packages(tmp_path: Path) -> None:
    process = await start("--version", env=environment(""), cwd=tmp_path)
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)

    assert process.returncode == 0
    assert out.decode().split()[:2] == ["rabbitmq-itc", version("rabbitmq-itc")]


async def test_settings_are_shown_without_passwords(tmp_path: Path) -> None:
    env = environment("", ITC_AMQP_URL="amqp://u:hush@broker", ITC_PROT="1")
    process = await start("settings", env=env, cwd=tmp_path)
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)

    assert b"amqp://u:***@broker" in out
    assert b"hush" not in out
    assert err == b"ITC_PROT is not a setting of this service: misspelt?\n"
    assert process.returncode == Exit.failure


def test_the_document_has_every_exit_code() -> None:
    documented = re.findall(r"^\| ([0-9]) \|", DOCUMENT.read_text(), re.MULTILINE)

    assert [int(code) for code in documented] == [code.value for code in Exit]


def test_the_document_has_every_command_where_help_has_it() -> None:
    documented = DOCUMENT.read_text()
    for panel, rows in command_tables().items():
        _, heading, section = documented.partition(f"\n## {panel}\n")
        assert heading, panel
        table = section.partition("\n## ")[0]
        assert [line for line in table.splitlines() if line.startswith("| `")] == rows, panel


def test_a_virtual_host_is_the_first_argument_of_each_command() -> None:
    found = 0
    for words, command, _ in every_command():
        names = [one.name for one in command.params if one.param_type_name == "argument"]
        if "vhost" in names:
            found += 1
            assert names[0] == "vhost", words
    assert found > 20


def test_only_what_may_be_either_has_an_opposite() -> None:
    opposites = {
        word
        for _, command, _ in every_command()
        for one in command.params
        for word in one.secondary_opts
    }

    assert opposites == {"--no-wait", "--no-bodies"}


async def test_a_service_says_what_it_has_and_that_its_broker_is_away(tmp_path: Path) -> None:
    away = {"ITC_AMQP_URL": "amqp://a:hush@127.0.0.1:9", "ITC_MANAGEMENT_URL": "http://127.0.0.1:9"}
    env = environment("", ITC_DATA_DIR=str(tmp_path), ITC_PORT="0", **away)
    process = await start("serve", env=env, cwd=tmp_path)
    assert process.stderr is not None
    wanted = {f"the store is sqlite:///{tmp_path}", "the broker cannot be used yet", "listening on"}
    said = ""
    async with asyncio.timeout(PATIENCE):
        while not all(words in said for words in wanted):
            line = await process.stderr.readline()
            assert line, said
            said += line.decode()
    process.terminate()
    await process.communicate()

    assert "hush" not in said


def test_steps_and_deliveries_say_what_the_broker_did() -> None:
    steps = [
        {"how": "rejected", "rule": None, "kind": None},
        {"how": "link", "rule": "rpc", "kind": "reply"},
        {"how": "message", "rule": None, "kind": None},
    ]
    assert [*map(said_of_step, steps)] == ["rejected", "reply, named by rpc", "received"]
    delivery = {"event": 4, "participant": 2, "queue": "dead", "match": "dead_lettered"}
    delivery |= {"critical": True, "offset": 1.0, "queued": 0.5, "handled": None}
    delivery |= {"settlement": None, "settled_after": None}
    delivery["acts"] = [{"cause": 3, "kind": "rejected"}, {"cause": 2, "kind": "overflow"}]
    line = delivery_line(delivery, "", {2: "billing"})
    assert line.endswith(
        "dead → billing, 500 ms held or waiting, after it died, rejected at 3, pushed out by 2 (4)"
    )
    for said, settlement, after in (
        ("1.0 s handling, acknowledged after 2.0 s (4)", "acknowledged", 2.0),
        ("1.0 s handling, in hand (4)", "in_hand", None),
    ):
        settled = {"settlement": settlement, "settled_after": after, "match": "routed", "acts": []}
        took = {"handled": 1.0, "handled_until": "span"}
        assert delivery_line(delivery | settled | took, "", {}).endswith(said)
