"""Commands that put dead letters back: a shell reads what was meant, whatever the names."""

from __future__ import annotations

import base64
import json
import subprocess

import pytest

from model.remedies import MOST_BODY, MOST_PROPERTIES, AdminTool, remedy_of

DEATH = {"queue": "orders", "reason": "rejected", "count": 1}
ODD_NAMES = ("orders", "a b", "it's", '"$(ls)`ls`"', "größe;|&>", "a\\b\n\tc'\x1b[31m", "x=y", "-n")


def words(command: str | None) -> list[str]:
    """The words of a command, as Bash reads them."""
    assert command is not None
    assert command.isprintable()
    script = command.replace("rabbitmqadmin", "printf '%s\\0'", 1)
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_shell_reads_the_names_and_the_message(name: str) -> None:
    headers = {"x-death": [DEATH], "key": name, "CC": ["elsewhere"]}
    properties = {"message_id": name, "user_id": "shop", "delivery_mode": 2, "headers": headers}
    vhost, verb, *arguments = words(remedy_of(name, name, properties, b"\x00\xff'$"))
    said = dict(argument.split("=", 1) for argument in arguments)

    assert (vhost, verb) == (f"--vhost={name}", "publish")
    assert (said["exchange"], said["routing_key"]) == ("amq.default", name)
    assert base64.b64decode(said["payload"]) == b"\x00\xff'$"
    assert json.loads(said["properties"]) == {
        "message_id": name,
        "delivery_mode": 2,
        "headers": {"x-death": [DEATH], "key": name},
    }


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_program_of_its_own_reads_them_from_other_words(name: str) -> None:
    command = remedy_of(name, name, {"message_id": name}, b"x\xc3\xa4'$", AdminTool.program)
    verb, what, *options = words(command)
    texts = dict(option.split("=", 1) for option in options)
    assert (verb, what) == ("publish", "message")
    assert json.loads(texts.pop("--properties")) == {"message_id": name}
    assert texts == {"--vhost": name, "--routing-key": name, "--payload": "xä'$"}


@pytest.mark.parametrize("body", [b"\xff", b"a\x00"])
def test_a_program_of_its_own_cannot_send_what_is_no_text(body: bytes) -> None:
    assert remedy_of("/", "a", {}, body, AdminTool.program) is None


def test_there_is_none_for_what_is_not_whole_or_too_long() -> None:
    assert remedy_of("/", "a", None, b"x" * MOST_BODY) is not None
    assert remedy_of("/", "a", None, b"x" * (MOST_BODY + 1)) is None
    assert remedy_of("/", "a", {}, None) is None
    assert remedy_of("/", "a", {"type": "amqp-1.0"}, b"read otherwise") is None
    assert remedy_of("/", "a", {"headers": {"a": "x" * MOST_PROPERTIES}}, b"") is None
