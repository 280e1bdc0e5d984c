"""Real client libraries, each a pipeline of programs that know what caused what.

Every true pair of publishes must be "before", every delivery be matched with its own publish, and
no program be taken for another. All programs run on this machine, under one user: what tells them
apart is the name that each gives its connections.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright._impl._driver import compute_driver_executable

from model.words import Via
from tests.clients.conftest import Pipeline
from tests.clients.judge import (
    Name,
    Verdict,
    causes_by,
    celery_task,
    dramatiq_message,
    judged,
    message_id,
    moleculer_packet,
    rascal_attempt,
)
from tests.clients.programs.role import TARGETS
from tests.integration.conftest import Service

PROGRAMS = "tests.clients.programs"


class Library(NamedTuple):
    """How a pipeline on a library is run: the command of each program, of the first one last."""

    commands: dict[str, Sequence[str]]
    name: Name = message_id
    requests: int = 6
    declares: bool = False  # its programs declare their queues, with arguments of their own
    names: bool = True  # its programs can name their connections
    told: Callable[[str, str], bool] | None = None  # whether a message names another as its cause


def by_hand(module: str, *words: str, requests: int = 6) -> Library:
    command = [sys.executable, "-m", f"{PROGRAMS}.{module}", *words]
    return Library(dict.fromkeys(reversed(TARGETS), command), requests=requests)


def celery_worker(queue: str) -> Sequence[str]:
    application = [sys.executable, "-m", "celery", "-A", f"{PROGRAMS}.with_celery"]
    worker = ["worker", "-Q", queue, "-n", f"{queue}@localhost", "-P", "prefork", "-c", "2"]
    return [*application, *worker, "--loglevel", "WARNING"]


def dramatiq_worker(queue: str) -> Sequence[str]:
    worker = [sys.executable, "-m", "dramatiq", f"{PROGRAMS}.with_dramatiq"]
    return [
        *worker,
        "--queues",
        queue,
        "--processes",
        "2" if queue == "orders" else "1",
        "--threads",
        "2",
    ]


def calls(module: str) -> Sequence[str]:
    start = f"from {PROGRAMS}.{module} import main; main()"  # as its workers import it
    return [sys.executable, "-c", start]


def on_node(script: str) -> Library:
    node, _ = compute_driver_executable()  # the Node that Playwright brings
    command = [node, str(Path(__file__).parent / "programs" / script), json.dumps(TARGETS)]
    return Library(dict.fromkeys(reversed(TARGETS), command))


def is_told(cause: str, effect: str) -> bool:
    """Tell whether Celery's headers say that a message led to another.

    They name a task, and not which attempt at it: that the first one led there is certain.
    """
    task, attempt = cause.split("/")
    return attempt == "0" or effect.startswith(f"{task}/")


def is_told_by_all(cause: str, effect: str) -> bool:
    del cause, effect
    return True


def is_again(cause: str, effect: str) -> bool:
    """Tell whether rascal has published a message again."""
    return cause.partition("/")[0] == effect.partition("/")[0]


LIBRARIES = {
    "celery": Library(
        {
            **{queue: celery_worker(queue) for queue in ("orders", "billing", "shipping")},
            "front": calls("with_celery"),
        },
        celery_task,
        requests=2,
        declares=True,
        told=is_told,
    ),
    "kombu": by_hand("with_kombu"),
    "pika on one connection": by_hand("with_pika", "one"),
    "pika on two connections": by_hand("with_pika", "two"),
    "aio-pika": by_hand("with_aio_pika"),
    "aiormq": by_hand("with_aiormq"),
    "faststream": by_hand("with_faststream"),
    "dramatiq": Library(
        {
            **{
                queue: dramatiq_worker(queue) for queue in ("orders", "billing", "shipping", "mail")
            },
            "front": calls("with_dramatiq"),
        },
        dramatiq_message,
        requests=3,
        declares=True,
    ),
    "amqplib": on_node("with_amqplib.js"),
    "cloudevents in Python": by_hand("with_cloudevents")._replace(told=is_told_by_all),
    "cloudevents": on_node("with_cloudevents.js")._replace(told=is_told_by_all),
    "moleculer": on_node("with_moleculer.js")._replace(
        name=moleculer_packet, declares=True, told=is_told_by_all
    ),
    "rascal": on_node("with_rascal.js")._replace(name=rascal_attempt, told=is_again),
    "rabbitpy": by_hand("with_rabbitpy", requests=2)._replace(names=False),
}


async def verdict_on(
    library: Library,
    service: Service,
    pipeline: Pipeline,
    vhost: str,
    policy: str | None = None,
    *,
    named: bool = True,
) -> Verdict:
    """Run a pipeline to its end under a trace, and judge what is stored."""
    if not library.declares:
        pipeline.add_queues()
    await service.running(vhost, policy)
    for program, command in library.commands.items():
        front = pipeline.start(program, command, requests=library.requests, named=named)
    truth = await pipeline.truth(front)
    pipeline.close()
    await service.registry.stop(vhost)
    return judged(await service.events(vhost), truth, library.name)


def assert_right(verdict: Verdict) -> None:
    assert verdict.failures == []
    assert verdict.missed == []


def assert_told_apart(verdict: Verdict) -> None:
    assert verdict.confused == []
    assert {len(participants) for participants in verdict.participants.values()} == {1}


@pytest.mark.parametrize("library", LIBRARIES)
async def test_every_true_pair_is_before_and_programs_are_told_apart(
    service: Service, pipeline: Pipeline, vhost: str, library: str
) -> None:
    verdict = await verdict_on(LIBRARIES[library], service, pipeline, vhost)
    assert_right(verdict)
    if LIBRARIES[library].names:
        assert_told_apart(verdict)
    found = await causes_by(service.store, verdict, Via.links)
    print(library, len(found & verdict.true), "of", len(verdict.true), "by links")
    assert found <= verdict.true, "no link is wrong"
    if is_named := LIBRARIES[library].told:
        told = {pair for pair in verdict.carried if is_named(*pair)}
        assert found >= told, "every named cause is found"


@pytest.mark.parametrize("policy", ["channel", pytest.param("client", marks=pytest.mark.long(7))])
async def test_what_celery_names_tells_whether_a_policy_fits(
    service: Service, pipeline: Pipeline, vhost: str, policy: str
) -> None:
    await verdict_on(LIBRARIES["celery"], service, pipeline, vhost, policy)
    trace = await service.store.traces.find(vhost)
    assert trace is not None
    evidence = await service.store.doubts.evidence(trace.id)
    doubts = await service.store.doubts.of_trace(trace.id)
    links = (await service.registry.status(vhost)).links["celery-parent"]
    print(policy, evidence, links)
    assert evidence.hidden == links.hidden == 0
    if policy == "client":
        assert (evidence.fit, links.fit, doubts) == (1.0, 1.0, ())
        return
    assert evidence.fit is not None
    assert evidence.fit < 0.9
    [doubt] = [each for each in doubts if "celery-parent" in each.statement]
    assert doubt.remedy == f"To see it, run rabbitmq-itc restamp {vhost} --participant client"


async def all_missed_are_doubted(service: Service, vhost: str, verdict: Verdict) -> None:
    """Every answer that calls a true pair concurrent says that it is not sound."""
    trace = await service.store.traces.find(vhost)
    assert trace is not None
    for pair in verdict.missed:
        cause, effect = (verdict.ids[message] for message in pair)
        soundness = await service.store.doubts.between(trace.id, cause, effect)
        assert soundness.doubts, pair


@pytest.mark.parametrize(
    "library",
    ["pika on two connections", pytest.param("dramatiq", marks=pytest.mark.long(6))],
)
async def test_without_names_every_answer_that_misses_says_that_it_is_not_sound(
    service: Service, pipeline: Pipeline, vhost: str, library: str
) -> None:
    verdict = await verdict_on(LIBRARIES[library], service, pipeline, vhost, named=False)
    assert verdict.failures == []
    assert verdict.missed != []
    await all_missed_are_doubted(service, vhost, verdict)


async def test_a_program_that_is_started_again_is_the_participant_that_it_was(
    service: Service, pipeline: Pipeline, vhost: str
) -> None:
    library = LIBRARIES["pika on two connections"]
    pipeline.add_queues()
    await service.running(vhost)
    running = {
        program: pipeline.start(program, command, requests=library.requests)
        for program, command in library.commands.items()
    }
    await pipeline.truth(running["front"])
    pipeline.end(*running.values())
    for program, command in library.commands.items():
        front = pipeline.start(program, command, requests=library.requests)
    truth = await pipeline.truth(front)
    pipeline.close()
    await service.registry.stop(vhost)
    verdict = judged(await service.events(vhost), truth, library.name)
    assert verdict.direct == 2 * 4 * library.requests
    assert_right(verdict)
    assert_told_apart(verdict)


@pytest.mark.parametrize("policy", ["connection", "channel"])
async def test_a_policy_that_does_not_fit_misses_what_programs_caused(
    service: Service, pipeline: Pipeline, vhost: str, policy: str
) -> None:
    library = LIBRARIES["pika on two connections"]
    verdict = await verdict_on(library, service, pipeline, vhost, policy)
    assert verdict.failures == []
    assert verdict.recall == 0
    await all_missed_are_doubted(service, vhost, verdict)
