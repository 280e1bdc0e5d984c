"""The Java that Spark runs on, and the archive of Spark's classes that it may have."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from model.jobs import Problem
from spark_jobs.errors import JobError

JAVA_NEEDED = 17
JAVA_SECONDS = 20
FOLDER = Path(sys.prefix) / "share" / "rabbitmq-itc"
SUFFIX = ".jsa"


def check_java() -> str:
    """Java's word on its version; raises JobError (outage) unless Spark can run on it."""
    java = java_program()
    if java is None:
        raise JobError(
            Problem.outage,
            f"Java is missing: Spark needs Java {JAVA_NEEDED} or newer. Install a runtime"
            " (Debian: openjdk-17-jre-headless) or point JAVA_HOME at one.",
        )
    text = _version_text(java)
    version = java_version(text)
    if version is None or version < JAVA_NEEDED:
        raise JobError(
            Problem.outage,
            f"Java at {java} is {version or 'of an unknown version'}; Spark needs"
            f" {JAVA_NEEDED} or newer. Install one or point JAVA_HOME at it.",
        )
    return text


def _version_text(java: str) -> str:
    """The text that Java prints about itself on stderr; empty if it does not run."""
    try:
        return subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""


def java_version(text: str) -> int | None:
    """The feature number in what ``java -version`` says: 17 of "17.0.15", 8 of "1.8.0_392"."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def java_program() -> str | None:
    """Path of the Java that Spark runs on; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")


def archive_of(java: str, folder: Path = FOLDER) -> Path:
    """Return where the archive is, or will be, for the Java that says this of itself."""
    try:
        spark = version("pyspark")
    except PackageNotFoundError:  # one that was unpacked, not installed
        spark = "unknown"
    return folder / f"spark-{spark}-{sha256(java.encode()).hexdigest()[:16]}{SUFFIX}"


def java_options(archive: Path, target: Path | None = None) -> str:
    """The options for Java: to use an archive, if there is one, or to make one when it ends."""
    quiet = "-Xlog:disable -Xlog:all=error:stderr"  # an archive that does not fit is no error
    if target is not None:
        return f'{quiet} "-XX:ArchiveClassesAtExit={target}"'
    return f'{quiet} "-XX:SharedArchiveFile={archive}"' if archive.is_file() else ""
