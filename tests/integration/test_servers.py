"""The private servers themselves: what other tests assume about them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from tools.servers import Broker, PostgresServer, RabbitCluster, RabbitNode, ServerError, wait_until
from tools.servers import postgres as postgres_server

CHECKOUT = Path(__file__).parents[2]


def test_a_fresh_vhost_is_empty_and_gone_afterwards(rabbit: Broker) -> None:
    with rabbit.fresh_vhost() as name:
        assert rabbit.api("GET", "queues", name) == []
    assert name not in [vhost["name"] for vhost in rabbit.api("GET", "vhosts")]


def test_a_broker_is_taken_from_the_environment() -> None:
    given = Broker.from_environment(
        {"AMQP_URL": "amqp://an%40na:s3cret@broker:5673/x", "MANAGEMENT_URL": "http://u:p@m:80/"}
    )
    assert given is not None
    assert given.amqp_url("/") == "amqp://an%40na:s3cret@broker:5673/%2F"
    assert given.management_url == "http://m:80"
    assert Broker.from_environment({}) is None


def test_half_an_address_is_an_error() -> None:
    with pytest.raises(ServerError, match="AMQP_URL"):
        Broker.from_environment({"MANAGEMENT_URL": "http://broker:15672"})


@pytest.mark.long(13)
def test_a_killed_node_comes_back_with_its_data_on_the_same_ports() -> None:
    with RabbitNode() as node:
        node.add_vhost("kept")
        url = node.management_url
        node.kill()
        with pytest.raises(ServerError):
            node.api("GET", "vhosts")
        node.start()
        assert node.management_url == url
        assert "kept" in [vhost["name"] for vhost in node.api("GET", "vhosts")]
    assert not node.folder.exists()


@pytest.mark.long(20)
def test_three_nodes_join_into_one_cluster() -> None:
    with RabbitCluster() as cluster:
        assert sorted(cluster.members()) == sorted(node.node for node in cluster.nodes)
        cluster.add_vhost("shared")
        for node in cluster.nodes:
            assert "shared" in [vhost["name"] for vhost in node.api("GET", "vhosts")]


async def test_a_database_survives_a_crash_of_its_server(postgres: PostgresServer) -> None:
    with postgres.fresh_database() as url:
        address = url.replace("+asyncpg", "")
        connection = await asyncpg.connect(address)
        await connection.execute("create table kept (n int)")
        postgres.kill()
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await connection.execute("select 1")
        postgres.start()
        connection = await asyncpg.connect(address)
        assert await connection.fetchval("select count(*) from kept") == 0
        await connection.close()


def test_of_several_versions_of_postgresql_the_newest_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("9", "17", "15"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin" / "initdb").touch()
    monkeypatch.setattr(postgres_server, "VERSIONS", tmp_path)
    assert postgres_server.program("initdb") == tmp_path / "17" / "bin" / "initdb"


PARENT = """
import signal
from tools.servers import PostgresServer
server = PostgresServer().start()
print(server.folder, server._child.pid, flush=True)
signal.pause()
"""


def test_a_server_does_not_outlive_a_killed_parent() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, cwd=CHECKOUT
    ) as parent:
        assert parent.stdout is not None
        folder, pid = parent.stdout.readline().split()
        os.kill(parent.pid, signal.SIGKILL)
    wait_until(lambda: not Path("/proc", pid).exists(), 30, "the server's end")
    wait_until(lambda: not Path(folder).exists(), 30, "its folder's removal")
