"""The Spark session: local by default, a standalone cluster or a Connect server by setting.

Local means one JVM and some Python workers on this machine, listening on loopback alone. On a
cluster the executors need our packages, which the session ships to them, and an interpreter
with pyarrow and the ADBC drivers, which it cannot ship (docs/spark.md).

Loopback is open to every user of the machine, and Spark obeys anybody who speaks its protocol. So
its ports require a secret, and its Python workers listen on Unix sockets.
"""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import socket
import sys
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from model.jobs import Problem
from spark_jobs.errors import JobError
from spark_jobs.spark.failures import in_short
from spark_jobs.spark.java import archive_of, check_java, java_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APPLICATION = "rabbitmq-itc"
REACH_SECONDS = 5
# With fewer a JVM with Spark's archives on its path may end at its start, without a word of why.
FEW_DESCRIPTORS = 256
CONNECT_PORT, MASTER_PORT = 15002, 7077
PACKAGES = ("itc", "model", "spark_jobs", "statements")
ROOT = Path(__file__).resolve().parents[2]
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class SparkSettings:
    """The address of Spark: ``remote`` (``sc://…``) if set, else ``master``; ``memory``: JVM heap.

    ``secret`` is a standalone cluster's ``spark.authenticate.secret``. In local mode Spark creates
    one for each session.
    """

    master: str = "local[*]"
    remote: str | None = None
    memory: str = "1g"
    secret: str | None = field(default=None, repr=False)

    @property
    def is_local(self) -> bool:
        """Tell whether executors are threads of this machine's JVM."""
        return self.remote is None and self.master.startswith("local")

    @property
    def is_standalone(self) -> bool:
        """Tell whether the executors come from a standalone cluster."""
        return self.remote is None and self.master.startswith("spark://")

    @property
    def is_loopback(self) -> bool:
        """Tell whether all of Spark is on this machine, so that nothing else may connect to it."""
        return self.is_local or urlsplit(self.master).hostname in LOOPBACK


def open_session(settings: SparkSettings, classes_to: Path | None = None) -> SparkSession:
    """Start or join Spark.

    ``classes_to``: where the JVM, if it is ours, writes an archive of its classes when it ends.
    Raises `JobError` if Java is missing or too old, or the master or the Connect server is away.
    """
    if settings.remote:
        _reach(settings.remote, CONNECT_PORT, "Spark Connect server", "ITC_SPARK_REMOTE")
        return _connect(settings.remote)
    sharing = java_options(archive_of(check_java()), classes_to)
    if settings.is_standalone:
        _reach(settings.master, MASTER_PORT, "Spark master", "ITC_SPARK_MASTER")
        if not settings.secret:
            raise JobError(
                Problem.outage,
                "Without a secret anybody could tell Spark's driver what to run: set"
                " ITC_SPARK_SECRET to the cluster's spark.authenticate.secret.",
            )
    return _start(settings, sharing)


def session_of_submit() -> SparkSession | None:
    """The session that ``spark-submit`` asked for; None if nothing was submitted.

    Its command line sets master, memory and the like.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    from pyspark.sql import SparkSession

    is_local = _submitted_master().startswith("local")
    builder = SparkSession.builder.appName(APPLICATION)
    for name, value in (EXECUTION | (GUARDED if is_local else {})).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.addPyFile(str(ship()))
    return spark


def _submitted_master() -> str:
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # only then does SparkConf hold what was submitted
    return str(SparkConf().get("spark.master", "local[*]"))


def _reach(url: str, port: int, server: str, setting: str) -> None:
    """Fail at once if nothing listens there: Spark itself would try for a minute."""
    # A standalone master's address may list several, any of which may be the leader.
    addresses = [urlsplit(f"//{host}") for host in urlsplit(url).netloc.split(",")]
    for host in addresses:
        try:
            address = (host.hostname or "", host.port or port)
            socket.create_connection(address, REACH_SECONDS).close()
        except OSError:
            continue
        return
    raise JobError(
        Problem.outage,
        f"No {server} answers at {urlsplit(url).netloc.rpartition('@')[2]}; start it, or correct"
        f" {setting}.",
    )


def _start(settings: SparkSettings, sharing: str) -> SparkSession:
    from pyspark.sql import SparkSession  # after the check: it may start a JVM

    _prepare_environment(settings)
    builder = SparkSession.builder.master(settings.master).appName(APPLICATION)
    configuration = _configuration(settings, sharing)
    for name, value in configuration.items():
        builder = builder.config(name, value)
    try:
        if settings.secret and not settings.is_local:
            # Settings made before the JVM starts are on its command line, for all to read.
            _start_jvm(configuration)
            builder = builder.config("spark.authenticate.secret", settings.secret)
        spark = builder.getOrCreate()
    except Exception as error:  # py4j and pyspark have no common root; each means no session
        raise JobError(Problem.outage, _why_not(str(error), settings)) from error
    if not settings.is_local:
        spark.sparkContext.addPyFile(str(ship()))
    return spark


def _start_jvm(configuration: dict[str, str]) -> None:
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(configuration.items())))


def _why_not(text: str, settings: SparkSettings) -> str:
    if "INVALID_DRIVER_MEMORY" in text:
        return f"{settings.memory} is too little for Spark; set ITC_SPARK_MEMORY to 512m or more."
    advice = ""
    if (descriptors := resource.getrlimit(resource.RLIMIT_NOFILE)[0]) < FEW_DESCRIPTORS:
        advice = (
            f" This process may open only {descriptors} files, which is too few for Java: raise"
            " LimitNOFILE or ulimit -n."
        )
    return f"Spark did not start on {settings.master}: {in_short(text)}{advice}"


def _connect(remote: str) -> SparkSession:
    from pyspark.sql import SparkSession

    try:
        spark = SparkSession.builder.remote(remote).getOrCreate()
        spark.addArtifacts(str(ship()), pyfile=True)
    except Exception as error:  # grpc's and pyspark's errors have no common root
        raise JobError(
            Problem.outage,
            "The Spark Connect server takes connections but no session; look into its log."
            f" ({type(error).__name__})",
        ) from error
    return spark


def _prepare_environment(settings: SparkSettings) -> None:
    """Set what the JVM and its Python workers inherit from us."""
    if settings.is_local:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        path = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), path]))
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if settings.is_loopback:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"


# The JVM only passes Arrow batches on. Using only its first compiler, one collector thread and no
# generated code took a cold session's first job from 13 s to 9 s, a warm one's from 0.5 to 0.2.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
EXECUTION = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}

# Spark's ports answer nobody without the secret, and their traffic is encrypted. The JVM and Python
# talk through Unix sockets, to which only their owner may connect.
GUARDED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.python.unix.domain.socket.enabled": "true",
}
LONGEST_SOCKET_FOLDER = 60  # a socket's path holds 103 characters, and Spark's names 43 of them


def _configuration(settings: SparkSettings, sharing: str) -> dict[str, str]:
    logging = Path(__file__).with_name("log4j2.properties").as_uri()
    temporary = f'"-Djava.io.tmpdir={tempfile.gettempdir()}"'  # Java itself ignores TMPDIR
    configuration = {
        "spark.driver.memory": settings.memory,
        "spark.executor.memory": settings.memory,
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={logging} {temporary} {JAVA_OPTIONS} {sharing}"
        ),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "rabbitmq-itc-warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        **EXECUTION,
        **GUARDED,
    }
    if settings.is_local:
        # The older handshake is for clusters whose daemons know no other.
        configuration["spark.network.crypto.saslFallback"] = "false"
        configuration["spark.python.unix.domain.socket.dir"] = _socket_folder()
        configuration["spark.python.daemon.module"] = "spark_jobs.daemon"
    if settings.is_loopback:
        configuration |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
        }
    return configuration


def _socket_folder() -> str:
    """A folder with a path short enough for sockets."""
    if len(folder := tempfile.gettempdir()) <= LONGEST_SOCKET_FOLDER:
        return folder
    folder = tempfile.mkdtemp(prefix="rabbitmq-itc-", dir="/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def ship() -> Path:
    """A zip of our packages for executors on other machines."""
    folder = Path(tempfile.mkdtemp(prefix="rabbitmq-itc-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # Spark serves it until then
    target = folder / "rabbitmq_itc_spark.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for file in sorted((ROOT / package).rglob("*.py")):
                archive.write(file, file.relative_to(ROOT))
    return target
