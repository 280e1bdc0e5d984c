"""Private RabbitMQ nodes and clusters, from the programs of the machine's RabbitMQ package.

The package's start script runs any number of nodes when each gets its own name, cookie, ports
and folders by environment. The port mapper (epmd) is private too: otherwise the first node would
leave one running on the machine's well-known port.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from uuid import uuid4

from tools.servers.broker import Broker
from tools.servers.processes import Child, Folder, ServerError, free_port, port_answers

# Debian's location first: the scripts on PATH change to the user `rabbitmq`. Then PATH, for other
# packages, whose scripts do not.
SCRIPT_FOLDERS = ("/usr/lib/rabbitmq/bin", "/opt/rabbitmq/sbin", "/usr/local/opt/rabbitmq/sbin")
PLUGINS = ("rabbitmq_management", "rabbitmq_event_exchange", "rabbitmq_tracing")
START_SECONDS = 120.0  # 4 to 8 s when idle; builds share slow machines
USER = PASSWORD = "guest"  # noqa: S105 - the broker's own default, valid only on loopback


def script(name: str) -> Path:
    """Find one of RabbitMQ's own scripts; raises `ServerError` if it is not installed."""
    given = os.environ.get("RABBITMQ_SCRIPTS_DIR")
    for folder in (given, *SCRIPT_FOLDERS) if given else SCRIPT_FOLDERS:
        path = Path(folder) / name
        if path.is_file():
            return path
    raise ServerError(
        f"RabbitMQ is not installed ({name} not found): install it (Debian: rabbitmq-server), or "
        "name a broker by AMQP_URL and MANAGEMENT_URL"
    )


class Epmd:
    """Erlang's port mapper on a private port; the nodes of one cluster share one."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._log = folder / "epmd.log"
        self._child: Child | None = None

    def start(self) -> None:
        """Start it, unless it is running, and wait until it answers."""
        if self._child is not None and self._child.exit_code is None:
            return
        command = ["epmd", "-port", str(self.port), "-address", "127.0.0.1"]
        self._child = Child("epmd", command, log=self._log)
        self._child.wait_until(lambda: port_answers(self.port), 30, "answering on its port")

    def stop(self) -> None:
        """End it."""
        if self._child is not None:
            self._child.stop()
            self._child = None


class RabbitNode(Broker):
    """One private node: plugins management, event exchange and tracing, user guest / guest.

    ``folder`` keeps its data; without one a temporary folder is used and removed by `close`.
    ``settings`` are more lines for its configuration file, ``plugins`` more plugins, and
    ``plugins_folder`` holds some besides the package's own. A restarted node keeps its ports, so
    clients find it again. Use it as a context manager, or call `start` and `close`.
    """

    def __init__(
        self,
        folder: Path | None = None,
        name: str | None = None,
        *,
        epmd: Epmd | None = None,
        cookie: str | None = None,
        settings: Mapping[str, str] | None = None,
        plugins: tuple[str, ...] = (),
        plugins_folder: Path | None = None,
    ) -> None:
        self.amqp_port, self.management_port, self._dist_port = (free_port() for _ in range(3))
        super().__init__(
            f"127.0.0.1:{self.amqp_port}",
            f"http://127.0.0.1:{self.management_port}",
            USER,
            PASSWORD,
        )
        self._folder = Folder(folder, "rabbitmq-itc-node-")
        self.node = f"{name or 'itc-' + uuid4().hex[:8]}@localhost"
        self._epmd = epmd or Epmd(self.folder)
        self._owns_epmd = epmd is None
        self._cookie = cookie or uuid4().hex
        self._settings = dict(settings or {})
        self._plugins = (*PLUGINS, *plugins)
        self._plugins_folder = plugins_folder
        self._child: Child | None = None

    @property
    def folder(self) -> Path:
        """The folder of its data, log and configuration."""
        return self._folder.path

    @property
    def pid(self) -> int:
        """The Erlang VM's process id; raises `ServerError` if it was not started."""
        return self._running().pid

    def start(self) -> Self:
        """Start it and wait until it serves AMQP and the management API."""
        self.launch()
        try:
            self._running().wait_until(self._serves, START_SECONDS, "serving AMQP and management")
        except ServerError:
            self.stop()
            raise
        return self

    def launch(self) -> None:
        """Begin to start it, unless it is running; `start` waits for the rest."""
        if self._child is not None and self._child.exit_code is None:
            return
        command = [script("rabbitmq-server")]  # before Erlang's programs, which come with it
        self._write_configuration()
        self._epmd.start()
        # The script then becomes the Erlang VM instead of waiting for it as a child: the pid that
        # we know is the VM's, and a signal reaches it without rabbitmqctl in between.
        env = {**self._environment(), "RUNNING_UNDER_SYSTEMD": "true"}
        log = self.folder / "console.log"
        self._child = Child(f"RabbitMQ node {self.node}", command, log=log, env=env)

    def stop(self) -> None:
        """Stop it cleanly; the data stays."""
        if self._child is not None:
            self._child.stop()
            self._child = None
        if self._owns_epmd:
            self._epmd.stop()

    def kill(self) -> None:
        """End it at once, as a crash would; the data stays."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def close(self) -> None:
        """Stop it and remove its folder if that is temporary."""
        if self._folder.temporary:
            self.kill()  # nothing to keep: saves the six seconds of a clean stop
        self.stop()
        self._folder.discard()

    def ctl(self, *words: str, tool: str = "rabbitmqctl") -> str:
        """Run ``rabbitmqctl`` (or a sibling) against this node and return what it printed.

        Each call starts an Erlang VM, about two seconds: prefer `api` if it will do.
        """
        done = subprocess.run(
            [str(script(tool)), "-q", "-n", self.node, *words],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode != 0:
            raise ServerError(f"{tool} {words[0]}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def _running(self) -> Child:
        if self._child is None:
            raise ServerError(f"RabbitMQ node {self.node} is not running")
        return self._child

    def _serves(self) -> bool:
        # Listeners open last during boot, and only this check covers all of them.
        try:
            self.api("GET", "health", "checks", "port-listener", str(self.amqp_port))
        except ServerError:
            return False
        return port_answers(self.amqp_port)

    def _write_configuration(self) -> None:
        settings = {
            "listeners.tcp.1": f"127.0.0.1:{self.amqp_port}",
            "management.tcp.ip": "127.0.0.1",
            "management.tcp.port": str(self.management_port),
            "default_user": self.user,
            "default_pass": self.password,
            "disk_free_limit.absolute": "50MB",
            "collect_statistics_interval": "1000",  # ms; with 5000 every look at a queue waits
            **self._settings,
        }
        lines = "".join(f"{key} = {value}\n" for key, value in settings.items())
        (self.folder / "rabbitmq.conf").write_text(lines)
        (self.folder / "enabled_plugins").write_text(f"[{','.join(self._plugins)}].\n")
        tracing = self.folder / "tracing"  # the plugin's own default is a folder outside ours
        advanced = f'[{{rabbitmq_tracing, [{{directory, "{tracing}"}}]}}].\n'
        (self.folder / "advanced.config").write_text(advanced)
        self._write_cookie()

    def _write_cookie(self) -> None:
        cookie = self.folder / ".erlang.cookie"
        if not cookie.exists():
            cookie.write_text(self._cookie)
        cookie.chmod(0o400)  # Erlang refuses one that others may read

    def _environment(self) -> dict[str, str]:
        """Build it from scratch: no RABBITMQ_ variable of the machine may leak in."""
        here = self.folder
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(here),
            "ERL_EPMD_PORT": str(self._epmd.port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_CONFIG_FILE": str(here / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(here / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(here / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(here / "data"),
            "RABBITMQ_LOG_BASE": str(here / "log"),
            "RABBITMQ_PID_FILE": str(here / "pid"),
            "RABBITMQ_PLUGINS_EXPAND_DIR": str(here / "plugins"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(here / "generated"),
            # A private distribution must not be reachable from other machines.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            **self._plugin_folders(),
        }

    def _plugin_folders(self) -> dict[str, str]:
        if self._plugins_folder is None:
            return {}
        # Where the programs run in a root of their own (tools/rabbitmq4), so do these folders.
        root = Path(os.environ.get("RABBITMQ_SCRIPTS_DIR", "/usr")) / "root"
        base = root.resolve() if root.exists() else Path("/")
        shipped = base.glob("usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins")
        folders = [f"/{each.relative_to(base)}" for each in shipped]
        return {"RABBITMQ_PLUGINS_DIR": ":".join([*folders, str(self._plugins_folder)])}


class RabbitCluster(Broker):
    """Private nodes joined into one cluster; as a broker it is its first node."""

    def __init__(
        self,
        size: int = 3,
        folder: Path | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        plugins: tuple[str, ...] = (),
        plugins_folder: Path | None = None,
    ) -> None:
        self._folder = Folder(folder, "rabbitmq-itc-cluster-")
        self._epmd = Epmd(self._folder.path)
        cookie = uuid4().hex
        names = [f"itc-{cookie[:8]}-{number}" for number in range(1, size + 1)]
        # New nodes look for these and join the first that is there.
        formation = {
            f"cluster_formation.classic_config.nodes.{number}": f"{name}@localhost"
            for number, name in enumerate(names, 1)
        }
        self.nodes = [
            RabbitNode(
                self._folder.path / name,
                name,
                epmd=self._epmd,
                cookie=cookie,
                settings={**formation, **(settings or {})},
                plugins=plugins,
                plugins_folder=plugins_folder,
            )
            for name in names
        ]
        first = self.nodes[0]
        super().__init__(
            f"127.0.0.1:{first.amqp_port}", first.management_url, first.user, first.password
        )

    def start(self) -> Self:
        """Start all nodes together, since RabbitMQ 4 waits for the others; wait for all members."""
        try:
            for node in self.nodes:
                node.launch()
            for node in self.nodes:
                node.start()
        except ServerError:
            self.stop()
            raise
        missing = {node.node for node in self.nodes} - set(self.members())
        if missing:
            self.stop()
            raise ServerError(f"did not join the cluster: {', '.join(sorted(missing))}")
        return self

    def members(self) -> list[str]:
        """Return the names of the nodes that the first one considers members."""
        return [node["name"] for node in self.api("GET", "nodes")]

    def stop(self) -> None:
        """Stop every node, the first one last: the others wait for the last one to leave."""
        for node in reversed(self.nodes):
            node.stop()
        self._epmd.stop()

    def close(self) -> None:
        """Stop it and remove its folder if that is temporary."""
        for node in self.nodes if self._folder.temporary else ():
            node.kill()
        self.stop()
        self._folder.discard()
