"""The environment of our child processes: what they need, and no more.

A process's environment can be read as long as it lives, and is inherited by whatever it starts.
Ours holds passwords (``ITC_AMQP_URL``) and whatever else the operator exported. Our processes read
what they have to know from stdin.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

NEEDED = re.compile(
    r"""
    PATH | HOME | USER | LOGNAME | SHELL | TMPDIR | TZ | LANG | LANGUAGE | LC_\w+
    | LD_LIBRARY_PATH | MALLOC_\w+ | VIRTUAL_ENV | XDG_\w+ | PYTHON\w* | PURE_PYTHON
    | JAVA_HOME | JAVA_OPTS | JAVA_TOOL_OPTIONS | JDK_JAVA_OPTIONS | _JAVA_OPTIONS
    | (SPARK|PYSPARK|ARROW|HADOOP|YARN|GRPC)_\w+
    | PG\w+ | KRB5\w+ | SSL_CERT_(FILE|DIR)     # how the database's drivers connect
    | (no|http|https|all)_proxy | (NO|HTTP|HTTPS|ALL)_PROXY
    """,
    re.VERBOSE,
)


_OF_PATHS = re.compile(r"PYTHONPATH|\w*(HOME|DIR|FILE)")


def needed(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that a child process gets, for another folder than ours.

    Its Python, and what Spark starts of it, imports nothing from the folder that it runs in.
    """
    passed = {name: value for name, value in environment.items() if NEEDED.fullmatch(name)}
    for name in filter(_OF_PATHS.fullmatch, passed):
        passed[name] = _absolute(passed[name])
    return {**passed, "PYTHONSAFEPATH": "1"}


def _absolute(paths: str) -> str:
    """Paths as they are meant here; to Python an empty one is the folder that it runs in."""
    return os.pathsep.join(str(Path(each).absolute()) for each in paths.split(os.pathsep) if each)
