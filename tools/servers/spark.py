"""A standalone Spark cluster and a Connect server on loopback, from the PySpark distribution."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from spark_jobs.spark.session import JAVA_OPTIONS
from tools.servers.processes import Child, Folder, free_port, port_answers

DISTRIBUTION = Path(pyspark.__file__).parent
SPARK_CLASS = str(DISTRIBUTION / "bin" / "spark-class")
START_SECONDS = 240  # of a machine that is busy with other tests, too
# An application's settings: small, and ready as soon as possible.
CONFIGURATION = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.ui.enabled": "false",
}


class SparkCluster:
    """A master and two workers of one core; a Connect server when asked for."""

    def __init__(self) -> None:
        self._folder = Folder(None, "rabbitmq-itc-spark-")
        self.path = self._folder.path
        self._port = free_port()
        self.secret = secrets.token_hex()
        # What the master, the workers and what is submitted read; on a command line all could.
        (self.path / "conf").mkdir()
        (self.path / "conf" / "spark-defaults.conf").write_text(
            f"spark.authenticate true\nspark.authenticate.secret {self.secret}\n"
        )
        self._children: list[Child] = []

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        # Executors get nothing of this checkout: what they need has to be shipped to them.
        kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
        return {
            **kept,
            "SPARK_HOME": str(DISTRIBUTION),
            "SPARK_CONF_DIR": str(self.path / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # it has one fixed port
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
            "PYSPARK_PYTHON": sys.executable,
        }

    def start(self) -> None:
        master = "org.apache.spark.deploy.master.Master"
        place = ["--host", "127.0.0.1", "--port", str(self._port), "--webui-port", "0"]
        self._listens(self._start("master", [SPARK_CLASS, master, *place]), self._port)
        workers = [self._worker(number) for number in (1, 2)]
        for child, port in workers:
            self._listens(child, port)

    @contextmanager
    def connect_server(self) -> Iterator[str]:
        """A Connect server, which has both cores until it is left; yields its address."""
        port = free_port()
        binding = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
        }
        server = "org.apache.spark.sql.connect.service.SparkConnectServer"
        command = self.submit("--class", server, "spark-internal", **binding)
        child = self._start("connect", command)
        try:
            self._listens(child, port)
            yield f"sc://127.0.0.1:{port}"
        finally:
            child.stop()

    def submit(self, *words: str, **configuration: str) -> list[str]:
        """The command that submits something to the cluster."""
        options = (CONFIGURATION | configuration).items()
        given = [word for name, value in options for word in ("--conf", f"{name}={value}")]
        return [str(DISTRIBUTION / "bin" / "spark-submit"), "--master", self.master, *given, *words]

    def close(self) -> None:
        for child in reversed(self._children):
            child.stop()
        self._folder.discard()

    def _worker(self, number: int) -> tuple[Child, int]:
        port = free_port()
        worker = "org.apache.spark.deploy.worker.Worker"
        place = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        size = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.path / f"work{number}")]
        command = [SPARK_CLASS, worker, *place, *size, self.master]
        return self._start(f"worker{number}", command), port

    def _start(self, name: str, command: list[str]) -> Child:
        child = Child(
            f"Spark {name}",
            command,
            log=self.path / f"{name}.log",
            env=self.environment,
            cwd=self.path,
        )
        self._children.append(child)
        return child

    def _listens(self, child: Child, port: int) -> None:
        child.wait_until(lambda: port_answers(port), START_SECONDS, "listening")
