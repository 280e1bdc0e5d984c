"""The environment of our child processes: what they need, and no more.

A process's environment can be read as long as it lives, and is inherited by whatever it starts.
Ours holds passwords (``ITC_AMQP_URL``) and whatever else the operator exported. Our processes read
what they have to know from stdin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

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


def needed(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that a child process gets."""
    return {name: value for name, value in environment.items() if NEEDED.fullmatch(name)}
