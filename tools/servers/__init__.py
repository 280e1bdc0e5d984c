"""Private servers for the demo, the tests and fault drills.

Each has its own data folder, process and ports on the loopback interface; of the machine's own
RabbitMQ and PostgreSQL only the programs are used. Whatever is started here ends with the process
that started it, even if that is killed.
"""

from tools.servers.broker import Broker
from tools.servers.postgres import PostgresServer
from tools.servers.processes import (
    Child,
    ServerError,
    free_port,
    port_answers,
    wait_until,
    without_settings,
)
from tools.servers.rabbit import Epmd, RabbitCluster, RabbitNode

__all__ = [
    "Broker",
    "Child",
    "Epmd",
    "PostgresServer",
    "RabbitCluster",
    "RabbitNode",
    "ServerError",
    "free_port",
    "port_answers",
    "wait_until",
    "without_settings",
]
