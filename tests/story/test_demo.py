"""``make demo`` as its user runs it: the whole product, from the broker to the export."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.terminal import interruptible
from tools.servers import Broker, free_port, port_answers, wait_until

CHECKOUT = Path(__file__).parents[2]
SECONDS = 280


def start(folder: Path, port: int, **environment: str) -> subprocess.Popen[str]:
    private = {name: value for name, value in os.environ.items() if "_URL" not in name}
    return subprocess.Popen(
        [sys.executable, "-m", "tools.demo"],
        env={**private, "DEMO_DIR": str(folder), "ITC_PORT": str(port), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
        preexec_fn=interruptible,
    )


def test_the_demo_stays_up_with_the_expected_chain_until_it_is_interrupted(tmp_path: Path) -> None:
    port = free_port()
    with start(tmp_path, port) as demo:
        assert demo.stdout is not None
        lines = []
        for line in demo.stdout:
            lines.append(line)
            if "until Ctrl-C" in line:
                break
        assert port_answers(port), "".join(lines)
        demo.send_signal(signal.SIGINT)
        _, errors = demo.communicate(timeout=SECONDS)
    assert (demo.returncode, errors) == (0, "")
    said = "".join(lines)
    right = re.search(r"^Right: the chain has exactly the (\d+) events", said, re.MULTILINE)
    quiet = re.search(r"^It also has (\d+) heartbeats", said, re.MULTILINE)
    assert right, said
    assert quiet, said
    (export,) = tmp_path.rglob("*.jsonl")
    assert len(export.read_text().splitlines()) == int(right[1]) + int(quiet[1])
    wait_until(lambda: not port_answers(port), 10, "the end of the service")


@pytest.mark.long(15)
def test_the_demo_ends_by_itself_and_leaves_a_given_broker_as_it_was(
    rabbit: Broker, vhost: str, tmp_path: Path
) -> None:
    given = {"AMQP_URL": rabbit.amqp_url(vhost), "MANAGEMENT_URL": rabbit.management_url}
    with start(tmp_path, free_port(), DEMO_EXIT="1", **given) as demo:
        output, errors = demo.communicate(timeout=SECONDS)
    assert demo.returncode == 0, output + errors
    assert rabbit.api("GET", "vhosts", vhost)["tracing"] is False
    names = [queue["name"] for queue in rabbit.api("GET", "queues", vhost)]
    assert not [name for name in names if name.startswith("itc-demo")]


def test_a_second_demo_in_the_same_folder_says_so_in_one_line(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with start(tmp_path, free_port()) as demo:
            _, errors = demo.communicate(timeout=SECONDS)
    assert demo.returncode == 1
    assert errors.splitlines() == [f"demo: a demo is running in {tmp_path} already: end that one"]


def test_a_broker_that_is_down_is_one_line_and_not_a_wait(tmp_path: Path) -> None:
    port = free_port()
    with start(tmp_path, port, AMQP_URL=f"amqp://guest:guest@127.0.0.1:{port}") as demo:
        _, errors = demo.communicate(timeout=SECONDS)
    assert demo.returncode == 1
    assert errors.startswith("demo: GET /api/whoami:")
    assert len(errors.splitlines()) == 1
